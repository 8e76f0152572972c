// Folders of opdock's own, in which nobody but the effective user can put files: what lies there is believed.
#pragma once

#include <string>

namespace opdock::core {

// Why what lies in the folder cannot be believed, for people: it is none, it belongs to somebody else, others may write
// to it, or they could put another in its place (path_rules.hpp).
// Empty when it can, and when there is no such folder.
std::string fault_of_own_folder(const std::string &folder);

// Makes the folder and those above it where they are missing, for their user alone (0700). Why it cannot be used, or
// empty.
std::string make_own_folder(const std::string &folder);

} // namespace opdock::core
