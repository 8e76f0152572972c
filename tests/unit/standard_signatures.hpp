// Every op of the SDK's standard set.
#pragma once

#include <array>

#include "opdock/standard_ops.h"

namespace opdock::test {

#define OPDOCK_DECLARATION(name, NAME) ops::name,
inline constexpr std::array standard_ops{OPDOCK_STANDARD_OPS(OPDOCK_DECLARATION)};
#undef OPDOCK_DECLARATION

} // namespace opdock::test
