// The extensions that a host offers to plugins itself.
#pragma once

#include <string_view>

namespace opdock::core {

// The table of this name; null for one that is not the host's.
const void *own_extension(std::string_view name);

} // namespace opdock::core
