// Compares the results of two configs of one kernel, or of two implementations of one op, up to rounding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace opdock::core {

// Elements of one packed dtype, row-major, contiguous, of the same size. Empty if they agree, else the difference.
//
// Floating point: infinities and NaNs in the same places, and, in units of the dtype's last place:
//   the relative norm of the difference at most 1024 for f32, whose sums may be taken in any order, 2 for f16, 1 for
//   bf16, 1/2 for fp8; no element differs by more than 16384 for f32, 16 for f16 and bf16, 2 for fp8, relative to its
//   magnitude plus the root mean square.
// Everything else: equal.
std::string disagreement(uint32_t dtype, std::span<const std::byte> expected, std::span<const std::byte> found);

} // namespace opdock::core
