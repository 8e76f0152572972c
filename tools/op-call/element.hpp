// The values of a tensor as numbers, for any dtype. A pair of 4-bit values counts as two values: counts and indices
// refer to values, not to elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "opdock/abi/dtype.h"

namespace opdock::op_call {

// The number of values in an element.
inline size_t values_in_element(uint32_t dtype) {
    return opdock_dtype_unpack(dtype).lanes;
}

// True for a dtype of whole numbers, bool included.
bool is_integer(uint32_t dtype);

// The half-open range of whole numbers of such a dtype, as far as a double is exact.
std::pair<double, double> integers_of(uint32_t dtype);

double load_element(uint32_t dtype, const std::byte *elements, size_t index);

// Rounds to nearest even. Out-of-range values become infinities, or the largest number where fp8 or fp4 is stored,
// because the standard ops saturate.
void store_element(uint32_t dtype, std::byte *elements, size_t index, double value);

// The same for many values at once, in a fraction of the time.
std::vector<double> load_elements(uint32_t dtype, const std::byte *elements, size_t count);
void store_elements(uint32_t dtype, std::byte *elements, std::span<const double> values);

} // namespace opdock::op_call
