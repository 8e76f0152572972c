// Products of bf16 in the tiles of Intel's AMX, which multiply blocks of 16 x 32 and 32 x 16 numbers at once.
//
// Products are exact and sums are f32, as everywhere here. The tiles flush subnormal numbers to 0, whatever the
// thread's MXCSR says: subnormal factors, and sums that become subnormal, count as 0.
#pragma once

#include <cstddef>
#include <cstdint>

#include "product.hpp"

namespace cpu {

// True if the processor has the tiles and the system lets this process use them. The first call requests permission.
// From then on, signal stacks of the process must have room for the tiles (8 KiB).
bool amx_available();

// Receives `count` sums of a row of the output, from column `first` on.
using FinishRow = void (*)(const Product &a, int64_t row, int64_t first, size_t count, const float *sums);

// Computes the sums of one block of a product of bf16 and passes them to `finish` row by row. Requires AMX.
void multiply_in_tiles(const Product &a, const Block &block, FinishRow finish);

} // namespace cpu
