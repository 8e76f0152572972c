// OpenBLAS, as the kernels here use it: single-threaded, and safe to fork beside.
#pragma once

#include <cstdint>

namespace cpu {

// Rows of f32 that follow each other by one step.
struct Matrix {
    const float *data;
    int step; // elements, at least 1 and at least as many as a row has
};

// sums[i * step + j] = (or, unless `first`, +=) the dot product of row i of x and row j of w, over `depth` elements.
void multiply(const Matrix &x, int64_t rows, const Matrix &w, int64_t columns, int64_t depth, bool first, float *sums,
              int step);

} // namespace cpu
