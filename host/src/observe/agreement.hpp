// Compares the results of two configs of one kernel, or of two implementations of one op, up to rounding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace opdock::core {

// Elements of one packed dtype, row-major without gaps, of the same size. Empty when they agree; else what differs.
//
// Floating point: infinities and NaNs in the same places, and, in units of the dtype's last place:
//   the relative norm of the difference at most 1024 of f32, whose sums may be taken in any order, 2 of f16, 1 of bf16,
//   1/2 of fp8; no element off by more than 16384 of f32, 16 of f16 and bf16, 2 of fp8, of itself plus the root mean
//   square.
// Everything else: equal.
std::string disagreement(uint32_t dtype, std::span<const std::byte> expected, std::span<const std::byte> found);

} // namespace opdock::core
