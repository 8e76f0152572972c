// Limits of a manifest (`where`): whether a call is within them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "contents.hpp"

namespace tvm_ffi {

// The size of a dim; negative for one that the call leaves unbound.
using DimOf = std::function<std::int64_t(const std::string &name)>;

// A limit that names an unbound dim holds; one whose numbers are too large does not.
bool holds(const Limit &limit, const DimOf &dim);

} // namespace tvm_ffi
