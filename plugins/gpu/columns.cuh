// Sums over rows, without atomics: the rows are divided into parts, each part is summed, and then
// the parts are summed in order. The result depends only on the shape, the config and the device.
#pragma once

#include <cstdint>

#include "implementation.hpp"
#include "launch.hpp"
#include "numbers.cuh"
#include "tensors.hpp"

namespace gpu {

inline constexpr int sum_parts_block = 256; // threads

// to[c] = sum over p of from[p][c], for parts in the workspace; and_to is the sum of as many parts that follow those.
// Null outputs are skipped. A thread has N columns; `across` threads of a block lie along a row. N changes no result.
template<class U, int N>
__global__ void __launch_bounds__(sum_parts_block)
    sum_parts_kernel(const float *from, int64_t parts, int64_t n, int across, int64_t blocks_of_row, U *to, U *and_to) {
    wait_for_earlier_kernels();
    __shared__ Vector<float, N> shared[sum_parts_block];
    const bool is_second = blockIdx.x >= blocks_of_row;
    if ((is_second ? and_to : to) == nullptr) {
        return;
    }
    const int high = sum_parts_block / across;
    const int x = static_cast<int>(threadIdx.x) % across, y = static_cast<int>(threadIdx.x) / across;
    const int64_t c = ((blockIdx.x - (is_second ? blocks_of_row : 0)) * across + x) * N;
    const float *const column = from + (is_second ? parts * n : 0) + c;
    float sums[N] = {};
    if (c < n) {
#pragma unroll 8
        for (int64_t p = y; p < parts; p += high) {
            float values[N];
            load<N>(column + p * n, values);
#pragma unroll
            for (int k = 0; k < N; ++k) {
                sums[k] += values[k];
            }
        }
    }
    for (int distance = high / 2; distance > 0; distance /= 2) {
        if (y >= distance && y < 2 * distance) {
            store<N>(shared[threadIdx.x].elements, sums);
        }
        __syncthreads();
        if (y < distance) {
            float values[N];
            load<N>(shared[threadIdx.x + distance * across].elements, values);
#pragma unroll
            for (int k = 0; k < N; ++k) {
                sums[k] += values[k];
            }
        }
    }
    if (y == 0 && c < n) {
        store<N>((is_second ? and_to : to) + c, sums);
    }
}

// Fewer columns are spread over more blocks than their number requires; each block then adds more parts at once.
template<class U>
opdock::Status sum_parts(const opdock::Call &call, const float *from, int64_t parts, int64_t n, U *to,
                         U *and_to = nullptr) {
    const auto start = [&](auto width) {
        constexpr int N = decltype(width)::value;
        const int across = static_cast<int>(std::clamp<int64_t>(next_power_of_two(n / 512), 2, 32));
        const int64_t blocks_of_row = ceil_div(n, across * N);
        const Grid grid = {blocks_of_row * (and_to == nullptr ? 1 : 2), sum_parts_block};
        return launch(call, grid, sum_parts_kernel<U, N>, from, parts, n, across, blocks_of_row, to, and_to);
    };
    return n % 4 == 0 && all_aligned(to, and_to) ? start(Number<4>{}) : start(Number<1>{});
}

// Division of rows into parts where each thread has columns of its own: a block has `threads`
// vectors of `width` columns, and a part is a range of consecutive rows.
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
    // Enough parts for eight blocks on each unit, of at least 16 rows.
    const int64_t wanted = std::max<int64_t>(1, ceil_div(int64_t(8) * units, plan.blocks_of_row));
    plan.rows_of_part = std::max<int64_t>(16, ceil_div(std::max<int64_t>(rows, 1), wanted));
    plan.parts = std::max<int64_t>(1, ceil_div(rows, plan.rows_of_part));
    return plan;
}

// A thread's columns and rows in a ColumnPlan.
struct ColumnPlace {
    int64_t column;           // the first one of its vector; it may be past the end
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
