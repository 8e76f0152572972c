// What is known of a plugin's file from looking at it and from trying it in a process of its own: everything the host
// needs to know of a plugin that nobody has chosen yet.
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

// Processes that ended in their first call of an implementation. Said, not judged: calls depend on their arguments.
struct CallDeath {
    std::string op;
    std::string impl_id;
    std::uint32_t count = 0;
};

// A sentence with what to do.
std::string text_of(const CallDeath &death);

inline constexpr std::size_t most_call_deaths = 128; // of one plugin: as many as a journal has at a time

// What may be by chance once is not by chance as often as this in a row.
inline constexpr std::uint32_t most_chances = 2;

struct Scan {
    FileIdentity identity;
    std::string build_id;
    // Set when the note could be read, also of a plugin that is rejected.
    std::optional<Note> note;
    // What strict mode refuses.
    std::vector<std::string> weaknesses;
    // What it does not, and a person should know.
    std::vector<std::string> remarks = {};
    LibraryNeeds libraries = {};
    std::optional<Rejection> rejection;
    // Of its registration. Without one, and without a rejection, it was not tried.
    std::shared_ptr<const Transcript> transcript;
    // How often processes ended while they opened it, since one did so and lived.
    std::uint32_t deaths = 0;
    // How often in a row trying it came to no end for which somebody else may be to blame: the host ended meanwhile, or
    // its probe was told to stop.
    std::uint32_t interruptions = 0;
    // Since the file changed or somebody reset its health; the latest ones, the last one last.
    std::vector<CallDeath> call_deaths = {};
};

// Looks at the file; none of its code runs.
Scan look_at(const HeldDirectory &directory, const std::string &name, LibraryVersions &versions);

// Whether the file was looked at. Else it is only known how processes ended that tried or opened it.
inline bool was_looked_at(const Scan &scan) {
    return scan.note || scan.rejection;
}

struct Trial {
    bool took_place = false; // else no process could be started
    std::string why = {};    // not
    std::string printed = {};
};

// Tries it, which adds the transcript or a rejection to the scan.
Trial try_out(Scan &scan, const HeldDirectory &directory, const std::string &name, const std::string &probe,
              bool secure);

// The probe that was installed or built with this library; empty when there is none.
std::string find_probe();

} // namespace opdock::core
