// Folders owned by opdock, in which only the effective user can create files: their content is trusted.
#pragma once

#include <string>

namespace opdock::core {

// The reason, for people, why the folder's content cannot be trusted: not a folder, owned by another user,
// writable by others, or replaceable by others (path_rules.hpp). Empty if it can be trusted, and if there is no
// such folder.
std::string fault_of_own_folder(const std::string &folder);

// Creates the folder and its missing parents, accessible only to their user (0700). Returns why it cannot be used, or
// empty.
std::string make_own_folder(const std::string &folder);

} // namespace opdock::core
