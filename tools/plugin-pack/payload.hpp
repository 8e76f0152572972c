// The part of a package after its manifest, before encryption: a list of members, and their archive. The first member
// says which change or file each of the others belongs to.
#pragma once

#include <string>
#include <string_view>

#include "package.hpp"

namespace opdock::plugin_pack {

// Throws cli::Failure if the result would be too large to be read.
std::string print_payload(const Package &package);

// Reads into the backends of the package, which come from its manifest, and its attachments. Throws cli::Failure with
// exit_not_trusted, and core::Error with the place of the fault in the list or the contents.
void read_payload(std::string_view plain, Package &package, const Taking &taking);

} // namespace opdock::plugin_pack
