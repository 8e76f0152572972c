// A plugin's registration in the probe, as data, and its replay into a registry of this
// process.
// The bytes come from a process that ran untrusted code, or from a cache on disk: everything in them is validated
// before use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "files/file_identity.hpp"
#include "opdock/plugin.h"

namespace opdock::core {

// Enough for every valid registration; a longer transcript means that a plugin never ends.
inline constexpr size_t most_transcript_bytes = size_t{64} << 20;

struct UsedLibrary {
    std::string path; // the dynamic loader's name for it in the probe; absolute
    FileIdentity identity;
};

class Transcript {
  public:
    // The last stage that the plugin reached.
    enum class Stage { begun, open_failed, opened, no_entry, returned, complete };

    // A truncated transcript, even within a record, comes from a probe that died. Throws Rejected(probe_unreadable) for
    // anything that a probe of this build cannot send.
    static Transcript parse(std::vector<std::byte> bytes);

    Stage stage() const { return stage_; }
    // The dynamic loader's message, for open_failed.
    const std::string &loader_text() const { return loader_text_; }
    // Process state that loading the plugin changed: "the locale".
    const std::vector<std::string> &changes() const { return changes_; }
    // Libraries that were loaded with the plugin.
    const std::vector<UsedLibrary> &libraries() const { return libraries_; }
    const std::vector<std::byte> &bytes() const { return bytes_; }

    // Calls the registry as the plugin's entry did, with functions that do nothing, and returns the entry's status.
    // Only for a complete transcript.
    opdock_status replay(opdock_registry *registry) const;

  private:
    void read();

    std::vector<std::byte> bytes_;
    Stage stage_ = Stage::begun;
    std::string loader_text_;
    std::vector<std::string> changes_;
    std::vector<UsedLibrary> libraries_;
};

} // namespace opdock::core
