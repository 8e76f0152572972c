// Opens a plugin that inspection accepted and finds its entry. From here on vendor code runs: constructors, at once.
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
    // Unmaps the plugin when it is destroyed, unless keep_mapped took it.
    boost::dll::shared_library library;
    opdock_entry entry;
    // A sentence for a person; empty when there is nothing to say.
    std::string warning;
};

// Whether the name still leads to the file that was judged. Moving another file there and back shows too: it changes
// the time of the last change. A link in its place is another file.
bool is_still(const FileIdentity &judged, const HeldDirectory &directory, const std::string &name);

// Binds every symbol now, so that a missing one is an error here and not in the middle of a call, and keeps the
// plugin's symbols to itself. The file must be the one that was judged, before and after, and the one that the loader
// mapped.
std::variant<Loaded, Rejection> load(const HeldDirectory &directory, const std::string &name,
                                     const FileIdentity &judged);

// What the dynamic loader's words mean, and what to do.
Rejection explain_refusal(const std::filesystem::path &path, std::string text);

Rejection no_entry(const std::filesystem::path &path);

// To be called once something of the plugin is registered: from then on the process holds pointers into it, and threads
// of its own may run in it.
void keep_mapped(Loaded &&loaded);

} // namespace opdock::core
