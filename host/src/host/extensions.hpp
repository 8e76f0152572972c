// The extensions that a host itself offers to plugins.
#pragma once

#include <string_view>

namespace opdock::core {

// The table with this name; null if it is not one of the host's.
const void *own_extension(std::string_view name);

} // namespace opdock::core
