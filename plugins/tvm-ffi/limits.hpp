// Limits of a manifest (`where`), and the check whether a call satisfies them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "contents.hpp"

namespace tvm_ffi {

// Returns the size of a dim; negative if the call leaves it unbound.
using DimOf = std::function<std::int64_t(const std::string &name)>;

// A limit that names an unbound dim holds; a limit whose arithmetic overflows does not.
bool holds(const Limit &limit, const DimOf &dim);

} // namespace tvm_ffi
