// What a plugin registered in the probe, as data, and its replay into a registry of this process.
//
// The bytes come from a process that ran a stranger's code, or from a cache on disk: nothing in them is believed before
// it was checked.
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

// A registration of any size fits; more is a plugin that never ends.
inline constexpr size_t most_transcript_bytes = size_t{64} << 20;

struct UsedLibrary {
    std::string path; // as the dynamic loader of the probe named it; absolute
    FileIdentity identity;
};

class Transcript {
  public:
    // How far the plugin came.
    enum class Stage { begun, open_failed, opened, no_entry, returned, complete };

    // A transcript that ends early, also in the middle of a record, is one of a probe that died. Throws
    // Rejected(probe_unreadable) for anything that no probe of this build sends.
    static Transcript parse(std::vector<std::byte> bytes);

    Stage stage() const { return stage_; }
    // The dynamic loader's words, of open_failed.
    const std::string &loader_text() const { return loader_text_; }
    // What of the process the plugin changed by being loaded: "the locale".
    const std::vector<std::string> &changes() const { return changes_; }
    // Libraries that came into the process with the plugin.
    const std::vector<UsedLibrary> &libraries() const { return libraries_; }
    const std::vector<std::byte> &bytes() const { return bytes_; }

    // Calls the registry as the plugin's entry did, with functions that do nothing, and returns what it returned. Only
    // of a complete one.
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
