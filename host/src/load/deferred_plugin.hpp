// A plugin that is known from its probe, or from the scan cache, and is opened when something of it is first chosen.
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

// Who opens plugins that are known already.
class PluginOpener {
  public:
    // Opens the plugin unless that was done; null, or why it cannot be used.
    virtual const Rejection *open_plugin(DeferredPlugin &plugin) const = 0;

  protected:
    ~PluginOpener() = default;
};

class DeferredPlugin {
  public:
    // What came of opening it. Whole when it is published, and never changed.
    struct Outcome {
        std::optional<Rejection> rejection;
        std::string warning;       // as Loaded has it
        Registration registration; // with the real functions; empty when rejected
    };

    // Where it lies.
    struct Place {
        HeldDirectoryPtr directory;
        std::string name;
        FileIdentity identity;        // of the file that was judged
        bool has_call_deaths = false; // processes ended in first calls of it
        std::string remembered = {};  // remembered_path(): what the cache and the journal call it
    };

    // `known`: its registration as it was replayed. Its device providers become ones that open the plugin first.
    DeferredPlugin(const PluginOpener &opener, PluginIdentity identity, Place place, Registration known);
    ~DeferredPlugin();
    DeferredPlugin(const DeferredPlugin &) = delete;
    DeferredPlugin &operator=(const DeferredPlugin &) = delete;

    const PluginIdentity &identity() const { return identity_; }
    const Place &place() const { return place_; }
    // To be added to the catalog.
    const Registration &known() const { return known_; }

    // Null as long as it was not opened.
    const Outcome *outcome() const { return outcome_.load(std::memory_order_acquire); }
    // Publishes what came of opening it: from here on its implementations have real functions. To be called by one
    // thread at a time. In a forked child it may come a second time, when a thread of the parent was at it.
    const Outcome &settle(std::unique_ptr<const Outcome> outcome);

    // "plugin 'acme' was found when the host opened, but is rejected now (OPDOCK-E053): ..."
    std::string unavailable(const Rejection &rejection) const;

    // Null, or why it cannot be used.
    const Rejection *open() { return opener_.open_plugin(*this); }

  private:
    const PluginOpener &opener_;
    const PluginIdentity identity_;
    const Place place_;
    Registration known_;
    std::atomic<const Outcome *> outcome_{nullptr};
};

} // namespace opdock::core
