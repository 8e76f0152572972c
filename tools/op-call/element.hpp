// The values of a tensor as numbers, for any dtype. A pair of 4-bit values counts as two, so that counts and indices
// are of values, not of elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "opdock/abi/dtype.h"

namespace opdock::op_call {

// How many values an element has.
inline size_t values_in_element(uint32_t dtype) {
    return opdock_dtype_unpack(dtype).lanes;
}

// Whether a dtype is one of whole numbers, bool included.
bool is_integer(uint32_t dtype);

// The first whole number of such a dtype and the one past its last, as far as a double is exact.
std::pair<double, double> integers_of(uint32_t dtype);

double load_element(uint32_t dtype, const std::byte *elements, size_t index);

// Rounds to nearest even. Values past the range become infinities, or the largest number where fp8 or fp4 is stored, as
// the standard ops saturate.
void store_element(uint32_t dtype, std::byte *elements, size_t index, double value);

// The same of many, in a fraction of the time.
std::vector<double> load_elements(uint32_t dtype, const std::byte *elements, size_t count);
void store_elements(uint32_t dtype, std::byte *elements, std::span<const double> values);

} // namespace opdock::op_call
