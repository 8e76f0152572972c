// Sums over rows (gradients of a weight or bias) that do not depend on the assignment of rows to threads.
//
// The number of rows alone determines the blocks. Each block accumulates into its own row of f32 in the workspace, in
// order, and the blocks are added in f64.
#pragma once

#include <algorithm>
#include <cstdint>

#include "opdock/plugin.hpp"
#include "rows.hpp"
#include "schedule.hpp"

namespace cpu {

struct RowBlocks {
    int64_t rows;
    int64_t rows_per_block;
    int64_t count;

    // At most 256 rows keep the f32 sums short and cost 1/256 of the traffic. With few rows, 64 blocks suffice for many
    // threads, and 16 rows per block make a separate sum worthwhile.
    explicit RowBlocks(int64_t n_rows)
        : rows(n_rows), rows_per_block(std::clamp<int64_t>((n_rows + 63) / 64, 16, 256)),
          count((n_rows + rows_per_block - 1) / rows_per_block) {}

    int64_t begin(int64_t block) const { return block * rows_per_block; }
    int64_t end(int64_t block) const { return std::min(rows, begin(block) + rows_per_block); }
    // Number of elements in the sums of all blocks, for rows of n elements.
    int64_t sums(int64_t n) const { return count * n; }
};

// Size in bytes of the sums of all blocks, for one sum over the rows of a tensor.
inline uint64_t block_sums_bytes(const DLTensor &tensor) {
    return static_cast<uint64_t>(RowBlocks(row_count(tensor)).sums(row_size(tensor))) * sizeof(float);
}

// out[j] = the sum over blocks b of sums[b * n + j]. `dtype` is the dtype of `out`; without blocks, writes zeros.
void add_blocks(const float *sums, const RowBlocks &blocks, int64_t n, DLDataType dtype, const Rows &out,
                const Knobs &knobs);

} // namespace cpu
