// Opens a plugin that passed inspection and finds its entry. From here on vendor code runs, starting with constructors.
#pragma once

#include <filesystem>
#include <string>
#include <variant>

#include <boost/dll/shared_library.hpp>

#include "files/file_identity.hpp"
#include "files/held_directory.hpp"
#include "files/reject.hpp"
#include "opdock/abi/entry.h"

namespace opdock::core {

struct Loaded {
    // Unmaps the plugin on destruction, unless keep_mapped took it.
    boost::dll::shared_library library;
    opdock_entry entry;
    // A sentence for a person; empty if there is no warning.
    std::string warning;
};

// True if the name still refers to the file that was judged. Replacing the file and moving it back is also detected: it
// changes the time of the last change. A link in its place is another file.
bool is_still(const FileIdentity &judged, const HeldDirectory &directory, const std::string &name);

// Binds every symbol immediately, so that a missing symbol is an error here and not in the middle of a call, and keeps
// the plugin's symbols local. The file must be the judged one, before and after loading, and the one that the loader
// mapped.
std::variant<Loaded, Rejection> load(const HeldDirectory &directory, const std::string &name,
                                     const FileIdentity &judged);

// Explains the dynamic loader's message, with a remedy.
Rejection explain_refusal(const std::filesystem::path &path, std::string text);

Rejection no_entry(const std::filesystem::path &path);

// Call once something of the plugin is registered: from then on the process holds pointers into the plugin, and the
// plugin's threads may be running.
void keep_mapped(Loaded &&loaded);

} // namespace opdock::core
