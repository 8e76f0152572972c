// Sums over the rows of a matrix, in two steps with a fixed order: each block sums a tile of the columns over a part of
// the rows, and then each thread adds up the parts of one column.
#pragma once

#include <cstdint>

#include "opdock/plugin.hpp"

namespace gpu {

// Distribution over blocks of a matrix of `rows` rows of n elements; rows are `step` elements apart.
struct ColumnSums {
    DLDataType dtype;
    int64_t rows, n, step;
    int64_t parts, rows_of_part;

    ColumnSums(const opdock::Problem &problem, DLDataType matrix_dtype, int64_t matrix_rows, int64_t matrix_n,
               int64_t matrix_step);
    uint64_t bytes() const { return static_cast<uint64_t>(parts * n) * sizeof(float); } // for all parts
};

// `adds`: adds to the present contents of `parts`.
opdock::Status sum_columns(const opdock::Call &call, const ColumnSums &shape, const void *matrix, float *parts,
                           bool adds = false);
opdock::Status add_parts(const opdock::Call &call, const ColumnSums &shape, const float *parts, void *sums);

} // namespace gpu
