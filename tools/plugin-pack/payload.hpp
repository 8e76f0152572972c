// What a package carries behind its manifest, before it is encrypted: a list of members, and the archive of them, of
// which the first says which change or file each other one is.
#pragma once

#include <string>
#include <string_view>

#include "package.hpp"

namespace opdock::plugin_pack {

// Throws cli::Failure for more than anybody could read.
std::string print_payload(const Package &package);

// Into the package's backends, which are those of its manifest, and its attachments. Throws cli::Failure with
// exit_not_trusted, and core::Error with the place in a list or the contents that is at fault.
void read_payload(std::string_view plain, Package &package, const Taking &taking);

} // namespace opdock::plugin_pack
