// The standard ops: unprefixed names belong to opdock, and their signatures are not for plugins to choose.
#pragma once

#include <string_view>

namespace opdock::core {

// The text of an op's signature; "" for a name that is not standard, at least not to this host.
std::string_view standard_signature(std::string_view name);

} // namespace opdock::core
