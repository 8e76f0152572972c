// A plugin known from its probe or from the scan cache, opened when one of its implementations is first chosen.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "files/file_identity.hpp"
#include "files/held_directory.hpp"
#include "files/reject.hpp"
#include "load/register.hpp"
#include "load/registration.hpp"

namespace opdock::core {

class DeferredPlugin;

// Opens plugins that are already known.
class PluginOpener {
  public:
    // Opens the plugin unless it is open. Returns null, or why it cannot be used.
    virtual const Rejection *open_plugin(DeferredPlugin &plugin) const = 0;

  protected:
    ~PluginOpener() = default;
};

class DeferredPlugin {
  public:
    // Result of opening the plugin. Complete when published, and never changed.
    struct Outcome {
        std::optional<Rejection> rejection;
        std::string warning;       // as in Loaded
        Registration registration; // with the real functions; empty when rejected
    };

    // The plugin's location.
    struct Place {
        HeldDirectoryPtr directory;
        std::string name;
        FileIdentity identity;        // of the file that was judged
        bool has_call_deaths = false; // processes died in first calls of its implementations
        std::string remembered = {};  // remembered_path(): its key in the cache and the journal
    };

    // `known`: its replayed registration. Its device providers are replaced by ones that open the plugin first.
    DeferredPlugin(const PluginOpener &opener, PluginIdentity identity, Place place, Registration known);
    ~DeferredPlugin();
    DeferredPlugin(const DeferredPlugin &) = delete;
    DeferredPlugin &operator=(const DeferredPlugin &) = delete;

    const PluginIdentity &identity() const { return identity_; }
    const Place &place() const { return place_; }
    // The registration to add to the catalog.
    const Registration &known() const { return known_; }

    // Null until it is opened.
    const Outcome *outcome() const { return outcome_.load(std::memory_order_acquire); }
    // Publishes the result of opening it: from here on its implementations have real functions. Must not be called
    // concurrently. In a forked child it may be called a second time, if a thread of the parent was opening the plugin.
    const Outcome &settle(std::unique_ptr<const Outcome> outcome);

    // "plugin 'acme' was found when the host opened, but is rejected now (OPDOCK-E053): ..."
    std::string unavailable(const Rejection &rejection) const;

    // Returns null, or why it cannot be used.
    const Rejection *open() { return opener_.open_plugin(*this); }

  private:
    const PluginOpener &opener_;
    const PluginIdentity identity_;
    const Place place_;
    Registration known_;
    std::atomic<const Outcome *> outcome_{nullptr};
};

} // namespace opdock::core
