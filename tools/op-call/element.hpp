// One element of a tensor as a number, for any dtype.
#pragma once

#include <cstddef>
#include <cstdint>

namespace opdock::op_call {

double load_element(uint32_t dtype, const std::byte *elements, size_t index);

// Rounds to nearest even. Values past the range become infinities, or the largest number where fp8 is stored, as the
// standard ops saturate.
void store_element(uint32_t dtype, std::byte *elements, size_t index, double value);

} // namespace opdock::op_call
