// Sums over rows, without atomics: each of a number of parts sums the rows it has, and then the parts are summed in
// their order, so that the result depends on the shape, the config and the device alone.
#pragma once

#include <cstdint>

#include "launch.hpp"
#include "numbers.cuh"
#include "tensors.hpp"

namespace gpu {

inline constexpr int sum_columns_block = 1024, sum_columns_wide = 32; // threads, of them along a row

// to[c] = sum over p of from[p][c], for parts in the workspace.
template<class U>
__global__ void __launch_bounds__(sum_columns_block)
    sum_parts_kernel(const float *from, int64_t parts, int64_t n, U *to) {
    constexpr int high = sum_columns_block / sum_columns_wide;
    __shared__ float sums[high][sum_columns_wide + 1];
    const int x = static_cast<int>(threadIdx.x) % sum_columns_wide,
              y = static_cast<int>(threadIdx.x) / sum_columns_wide;
    const int64_t c = static_cast<int64_t>(blockIdx.x) * sum_columns_wide + x;
    float sum = 0;
    if (c < n) {
#pragma unroll 8
        for (int64_t p = y; p < parts; p += high) {
            sum += from[p * n + c];
        }
    }
    sums[y][x] = sum;
    __syncthreads();
    if (y == 0 && c < n) {
#pragma unroll
        for (int i = 1; i < high; ++i) {
            sum += sums[i][x];
        }
        to[c] = from_f32<U>(sum);
    }
}

template<class U>
opdock::Status sum_parts(const opdock::Call &call, const float *from, int64_t parts, int64_t n, U *to) {
    return launch(call, {ceil_div(n, sum_columns_wide), sum_columns_block}, sum_parts_kernel<U>, from, parts, n, to);
}

// How rows are cut into parts where each thread has columns of its own: a block has `threads` vectors of `width`
// columns, and a part is a stretch of rows.
struct ColumnPlan {
    int width;
    int threads;
    int64_t blocks_of_row;
    int64_t parts;
    int64_t rows_of_part;

    Grid grid() const { return {blocks_of_row * parts, threads}; }
};

inline ColumnPlan plan_columns(int64_t rows, int64_t n, int width, int units) {
    ColumnPlan plan;
    plan.width = width;
    const int64_t vectors = ceil_div(std::max<int64_t>(n, 1), width);
    plan.threads = static_cast<int>(std::clamp<int64_t>(next_power_of_two(vectors), 32, 256));
    plan.blocks_of_row = ceil_div(vectors, plan.threads);
    // Enough blocks for eight on each unit, of at least 16 rows.
    const int64_t wanted = std::max<int64_t>(1, ceil_div(int64_t(8) * units, plan.blocks_of_row));
    plan.rows_of_part = std::max<int64_t>(16, ceil_div(std::max<int64_t>(rows, 1), wanted));
    plan.parts = std::max<int64_t>(1, ceil_div(rows, plan.rows_of_part));
    return plan;
}

// Where a thread of a ColumnPlan stands.
struct ColumnPlace {
    int64_t column;           // the first of its vector; it may be past the end
    int64_t part, begin, end; // rows
};

__device__ __forceinline__ ColumnPlace column_place(const ColumnPlan &plan, int64_t rows) {
    const int64_t part = blockIdx.x / plan.blocks_of_row;
    const int64_t block = blockIdx.x - part * plan.blocks_of_row;
    const int64_t begin = part * plan.rows_of_part;
    const int64_t end = begin + plan.rows_of_part;
    return {(block * blockDim.x + threadIdx.x) * plan.width, part, begin, end < rows ? end : rows};
}

} // namespace gpu
