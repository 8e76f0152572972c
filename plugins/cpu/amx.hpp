// Products of bf16 in the tiles of Intel's AMX, which multiply blocks of 16 x 32 and 32 x 16 numbers at once.
//
// Products are exact and sums are f32, as everywhere here. But the tiles know no subnormal numbers, whatever the
// thread's MXCSR says: those of the factors, and sums that become one, count as 0.
#pragma once

#include <cstddef>
#include <cstdint>

#include "product.hpp"

namespace cpu {

// Whether the processor has the tiles and the system lets this process use them, for which the first call asks. Signal
// stacks of the process must have room for them (8 KiB) from then on.
bool amx_available();

// Takes `count` sums of a row of the output, from column `first` on.
using FinishRow = void (*)(const Product &a, int64_t row, int64_t first, size_t count, const float *sums);

// The sums of one block of a product of bf16, handed row by row to `finish`. Only where AMX is available.
void multiply_in_tiles(const Product &a, const Block &block, FinishRow finish);

} // namespace cpu
