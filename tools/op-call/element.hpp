// Elements of a tensor as numbers, for any dtype.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace opdock::op_call {

double load_element(uint32_t dtype, const std::byte *elements, size_t index);

// Rounds to nearest even. Values past the range become infinities, or the largest number where fp8 is stored, as the
// standard ops saturate.
void store_element(uint32_t dtype, std::byte *elements, size_t index, double value);

// The same of many, in a fraction of the time.
std::vector<double> load_elements(uint32_t dtype, const std::byte *elements, size_t count);
void store_elements(uint32_t dtype, std::byte *elements, std::span<const double> values);

} // namespace opdock::op_call
