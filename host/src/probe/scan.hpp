// Results of inspecting a plugin's file and of trying it in a separate process: all that the host must know of a plugin
// that nobody has chosen yet.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "files/file_identity.hpp"
#include "files/held_directory.hpp"
#include "files/reject.hpp"
#include "inspect/elf_dynamic.hpp"
#include "inspect/library_versions.hpp"
#include "inspect/note.hpp"
#include "probe/transcript.hpp"

namespace opdock::core {

// Processes that died in their first call of an implementation. Reported only: calls depend on their arguments.
struct CallDeath {
    std::string op;
    std::string impl_id;
    std::uint32_t count = 0;
};

// A sentence that includes what to do.
std::string text_of(const CallDeath &death);

inline constexpr std::size_t most_call_deaths = 128; // per plugin: the number of slots in a journal

// A failure that may be a coincidence once is not one if it occurs this often in a row.
inline constexpr std::uint32_t most_chances = 2;

struct Scan {
    FileIdentity identity;
    std::string build_id;
    // Set if the note could be read, even if the plugin is rejected.
    std::optional<Note> note;
    // Properties that strict mode rejects.
    std::vector<std::string> weaknesses;
    // Remarks for people, which strict mode accepts.
    std::vector<std::string> remarks = {};
    LibraryNeeds libraries = {};
    std::optional<Rejection> rejection;
    // The plugin's registration. If there is neither a transcript nor a rejection, it was not tried.
    std::shared_ptr<const Transcript> transcript;
    // Number of processes that died while opening it, since the last success.
    std::uint32_t deaths = 0;
    // Number of consecutive trials without a result for which others may be responsible: the host ended meanwhile, or
    // the probe was told to stop.
    std::uint32_t interruptions = 0;
    // Since the file changed or its health was reset; only recent ones, the latest last.
    std::vector<CallDeath> call_deaths = {};
};

// Inspects the file without running its code.
Scan look_at(const HeldDirectory &directory, const std::string &name, LibraryVersions &versions);

// True if the file was inspected. Otherwise only the deaths of processes that tried or opened it are known.
inline bool was_looked_at(const Scan &scan) {
    return scan.note || scan.rejection;
}

struct Trial {
    bool took_place = false; // otherwise no process could be started
    std::string why = {};    // why not
    std::string printed = {};
};

// Tries the plugin, which adds the transcript or a rejection to the scan.
Trial try_out(Scan &scan, const HeldDirectory &directory, const std::string &name, const std::string &probe,
              bool secure);

// The probe installed or built with this library; empty if there is none.
std::string find_probe();

} // namespace opdock::core
