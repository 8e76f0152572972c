// The sum over all rows of a tensor, as the gradient of a bias is.
#pragma once

#include <cstdint>

#include "opdock/plugin.hpp"
#include "rows.hpp"
#include "schedule.hpp"

namespace cpu {

// Bytes that sum_columns needs.
uint64_t column_sums_workspace(const DLTensor &tensor);

// `out`, of the tensor's dtype, gets one sum for each element of a row. The same whoever computes what.
void sum_columns(const DLTensor &tensor, const Rows &rows, const Rows &out, float *workspace, const Knobs &knobs);

} // namespace cpu
