// The standard ops: unprefixed names belong to opdock, and plugins cannot choose their signatures.
#pragma once

#include <string_view>

namespace opdock::core {

// The text of an op's signature; "" for a name that is not standard in this host.
std::string_view standard_signature(std::string_view name);

} // namespace opdock::core
