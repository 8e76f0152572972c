// The sum over all rows of a tensor, as the gradient of a bias is.
#pragma once

#include <cstdint>

#include "opdock/plugin.hpp"
#include "rows.hpp"
#include "schedule.hpp"

namespace cpu {

// `out`, of the tensor's dtype, gets one sum for each element of a row. The workspace has block_sums_bytes
// (row_blocks.hpp).
void sum_columns(const DLTensor &tensor, const Rows &rows, const Rows &out, float *workspace, const Knobs &knobs);

} // namespace cpu
