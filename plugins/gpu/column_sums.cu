#include "column_sums.hpp"

#include <algorithm>

#include "implementation.hpp"
#include "launch.hpp"
#include "numbers.cuh"
#include "tensors.hpp"

namespace gpu {
namespace {

constexpr int lanes = 32, lines = 8; // threads of a block: along a row, and over rows

// A block sums tile blockIdx.x % tiles of the columns over part blockIdx.x / tiles of the rows.
template<class T, int N>
__global__ void __launch_bounds__(lanes *lines)
    column_sums_kernel(ColumnSums shape, int64_t tiles, const T *matrix, float *parts, bool adds) {
    wait_for_earlier_kernels();
    __shared__ float shared[lines][lanes * N];
    const int lane = static_cast<int>(threadIdx.x) % lanes, line = static_cast<int>(threadIdx.x) / lanes;
    const int64_t part = static_cast<int64_t>(blockIdx.x) / tiles;
    const int64_t first_column = static_cast<int64_t>(blockIdx.x) % tiles * lanes * N;
    const int64_t column = first_column + lane * N;
    const int64_t end = min((part + 1) * shape.rows_of_part, shape.rows);
    float sums[N] = {};
    if (column < shape.n) {
#pragma unroll 4
        for (int64_t row = part * shape.rows_of_part + line; row < end; row += lines) {
            float values[N];
            load<N>(matrix + row * shape.step + column, values);
#pragma unroll
            for (int k = 0; k < N; ++k) {
                sums[k] += values[k];
            }
        }
    }
#pragma unroll
    for (int k = 0; k < N; ++k) {
        shared[line][lane * N + k] = sums[k];
    }
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < lanes * N && first_column + i < shape.n; i += lanes * lines) {
        float *const to = parts + part * shape.n + first_column + i;
        float sum = adds ? *to : 0;
#pragma unroll
        for (int l = 0; l < lines; ++l) {
            sum += shared[l][i];
        }
        *to = sum;
    }
}

template<class T>
__global__ void __launch_bounds__(128) add_parts_kernel(ColumnSums shape, const float *parts, T *sums) {
    wait_for_earlier_kernels();
    const int64_t column = static_cast<int64_t>(blockIdx.x) * 128 + threadIdx.x;
    if (column >= shape.n) {
        return;
    }
    float sum = 0;
#pragma unroll 8
    for (int64_t part = 0; part < shape.parts; ++part) {
        sum += parts[part * shape.n + column];
    }
    sums[column] = from_f32<T>(sum);
}

} // namespace

// Makes four blocks per compute unit, with at least eight rows per thread. Both steps take
// time, so there are at most 256 parts for the second step.
ColumnSums::ColumnSums(const opdock::Problem &problem, DLDataType matrix_dtype, int64_t matrix_rows, int64_t matrix_n,
                       int64_t matrix_step)
    : dtype(matrix_dtype), rows(matrix_rows), n(matrix_n), step(matrix_step) {
    const int64_t tiles = std::max<int64_t>(1, ceil_div(n, lanes * (16 / (dtype.bits / 8))));
    const int64_t wanted = ceil_div(4 * compute_units(problem), tiles);
    const int64_t most = std::min<int64_t>(256, std::max<int64_t>(1, ceil_div(rows, lines * 8)));
    rows_of_part = std::max<int64_t>(1, ceil_div(rows, std::min(wanted, most)));
    parts = ceil_div(rows, rows_of_part);
}

opdock::Status sum_columns(const opdock::Call &call, const ColumnSums &shape, const void *matrix, float *parts,
                           bool adds) {
    return visit_floating(shape.dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        const auto start = [&](auto width) {
            constexpr int N = decltype(width)::value;
            const int64_t tiles = ceil_div(shape.n, lanes * N);
            return launch(call, {tiles * shape.parts, lanes * lines}, column_sums_kernel<T, N>, shape, tiles,
                          static_cast<const T *>(matrix), parts, adds);
        };
        const bool vectors = shape.n % wide<T> == 0 && shape.step % wide<T> == 0 && aligned(matrix);
        return vectors ? start(Number<wide<T>>{}) : start(Number<1>{});
    });
}

opdock::Status add_parts(const opdock::Call &call, const ColumnSums &shape, const float *parts, void *sums) {
    return visit_floating(shape.dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        return launch(call, {ceil_div(shape.n, 128), 128}, add_parts_kernel<T>, shape, parts, static_cast<T *>(sums));
    });
}

} // namespace gpu
