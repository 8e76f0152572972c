// The sum over all rows of a tensor, such as the gradient of a bias.
#pragma once

#include <cstdint>

#include "opdock/plugin.hpp"
#include "rows.hpp"
#include "schedule.hpp"

namespace cpu {

// Writes one sum per column to `out`, which has the tensor's dtype. The workspace has block_sums_bytes
// (row_blocks.hpp).
void sum_columns(const DLTensor &tensor, const Rows &rows, const Rows &out, float *workspace, const Knobs &knobs);

} // namespace cpu
