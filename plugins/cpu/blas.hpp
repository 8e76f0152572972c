// OpenBLAS as the kernels here use it: single-threaded, and safe with fork.
#pragma once

#include <cstdint>

namespace cpu {

// Rows of f32 at a constant step.
struct Matrix {
    const float *data;
    int step;  // elements; at least 1 and at least the length of a row
    bool down; // the depth of a product runs down the rows, not along them
};

// sums[i * step + j] = (or, unless `first`, +=) the sum over p < depth of x(i, p) * w(j, p), where x(i, p) is element p
// of row i or, with the depth going down, element i of row p.
void multiply(const Matrix &x, int64_t rows, const Matrix &w, int64_t columns, int64_t depth, bool first, float *sums,
              int step);

} // namespace cpu
