// Normalizes and rotates heads: a group of threads per head, in one pass over memory.
#pragma once

#include "reduce.cuh"
#include "rope.cuh"

namespace gpu {

// The heads of the query or of the key.
template<class T, class U>
struct Heads {
    const T *grad, *input; // grad: only backward
    T *output;             // backward: the gradient of the input
    const U *weight;
    Steps of_grad, of_input, of_output; // batch: unused
    int count;                          // per token
};

struct HeadShape {
    int64_t tokens;
    int dims, rotated;
    int pairs, columns; // rotated vectors, without their partners; all columns
    int threads;        // per group, a power of two; at most a warp
    float eps, inverse; // inverse: 1 / dims
};

// A thread's column: two vectors of N elements whose dims are partners, or one vector that is copied.
template<int N, bool interleaved>
struct HeadColumn {
    int pair; // the first one
    int dims[2];
    bool is_pair;

    __device__ __forceinline__ HeadColumn(const HeadShape &shape, int column) : is_pair(column < shape.pairs) {
        const Places<N, interleaved> places = {shape.rotated / 2};
        pair = column * N;
        dims[0] = is_pair ? places.first_dim(column) : shape.rotated + (column - shape.pairs) * N;
        dims[1] = is_pair ? places.second_dim(column) : dims[0];
    }

    // Leaves the second vector unchanged (zero) if there is none.
    template<class V>
    __device__ __forceinline__ void load(const V *row, float (&to)[2][N]) const {
        gpu::load<N>(row + dims[0], to[0]);
        if (is_pair) {
            gpu::load<N>(row + dims[1], to[1]);
        }
    }
    template<class V>
    __device__ __forceinline__ void store(V *row, const float (&from)[2][N]) const {
        gpu::store<N>(row + dims[0], from[0]);
        if (is_pair) {
            gpu::store<N>(row + dims[1], from[1]);
        }
    }

    // Loads the elements, their gradients (rotated back), and the weights.
    template<class T, class U>
    __device__ __forceinline__ void load(const T *row, const T *grad, const U *weights, const Tables::Row &tables,
                                         float (&x)[2][N], float (&u)[2][N], float (&weight)[2][N]) const {
        load(row, x);
        load(grad, u);
        load(weights, weight);
        rotate(tables, -1.0f, u);
    }

    // `sign`: 1, or -1 for the transpose.
    __device__ __forceinline__ void rotate(const Tables::Row &row, float sign, float (&x)[2][N]) const {
        if (!is_pair) {
            return;
        }
        float cosines[N], sines[N];
        gpu::load<N>(row.cos + pair, cosines);
        gpu::load<N>(row.sin + pair, sines);
#pragma unroll
        for (int k = 0; k < N; ++k) {
            const int i = interleaved ? 2 * k : k, j = interleaved ? 2 * k + 1 : N + k; // of 2 N elements
            const float x_i = x[i / N][i % N], x_j = x[j / N][j % N], sine = sign * sines[k];
            x[i / N][i % N] = fmaf(x_i, cosines[k], -(x_j * sine));
            x[j / N][j % N] = fmaf(x_j, cosines[k], x_i * sine);
        }
    }
};

// The place of a thread's group in the block, and of the thread in it.
struct HeadPlace {
    int group, groups, lane;

    __device__ __forceinline__ explicit HeadPlace(int threads) {
        const int shift = 31 - __clz(threads);
        group = static_cast<int>(threadIdx.x) >> shift;
        groups = static_cast<int>(blockDim.x) >> shift;
        lane = static_cast<int>(threadIdx.x) - (group << shift);
    }
};

// Calls body(column) for the thread's columns; with `held` it has at most one.
template<bool held, class Body>
__device__ __forceinline__ void each_column(const HeadShape &shape, int lane, Body body) {
    if constexpr (held) {
        if (lane < shape.columns) {
            body(lane);
        }
    } else {
        for (int column = lane; column < shape.columns; column += shape.threads) {
            body(column);
        }
    }
}

// Adds the squares of a thread's elements, each element times `factor`, to `sum`.
template<int N>
__device__ __forceinline__ float sum_of_squares(const float (&x)[2][N], bool is_pair, float factor, float sum) {
#pragma unroll
    for (int k = 0; k < 2 * N; ++k) {
        if (k < N || is_pair) {
            const float element = x[k / N][k % N] * factor;
            sum = fmaf(element, element, sum);
        }
    }
    return sum;
}

// 1 / sqrt(mean + eps) from a head's sum of squares. If that exceeds the largest f32, squares_of(factor) has to return
// this thread's sum again, for elements scaled by `factor`. All threads of a warp take part.
template<class SquaresOf>
__device__ __forceinline__ float reciprocal_size(const HeadShape &shape, float sum, SquaresOf squares_of) {
    if (any_of_warp(isinf(sum))) {
        constexpr float factor = 0x1p-100f;
        float smaller[1] = {squares_of(factor)};
        reduce_lanes<Sum>(smaller, shape.threads);
        if (isinf(sum)) {
            return factor * rsqrtf(smaller[0] * shape.inverse);
        }
    }
    return rsqrtf(fmaf(sum, shape.inverse, shape.eps));
}

// The head of a thread's group.
template<class T, class U>
struct Head {
    int lane;
    uint32_t token;
    bool exists;
    const T *from;
    T *to;
    const U *weight;
};
template<class T, class U>
__device__ __forceinline__ Head<T, U> head_by_parameters(const HeadShape &shape, const Heads<T, U> &query,
                                                         const Heads<T, U> &key) {
    const HeadPlace at(shape.threads);
    const auto row =
        static_cast<uint32_t>(blockIdx.x) * static_cast<uint32_t>(at.groups) + static_cast<uint32_t>(at.group);
    const auto of_token = static_cast<uint32_t>(query.count + key.count);
    const uint32_t token = row / of_token;
    const int number = static_cast<int>(row - token * of_token);
    const Heads<T, U> &heads = number < query.count ? query : key;
    const int head = number < query.count ? number : number - query.count;
    return {at.lane,
            token,
            token < shape.tokens,
            heads.input + token * heads.of_input.position + head * heads.of_input.row,
            heads.output + token * heads.of_output.position + head * heads.of_output.row,
            heads.weight};
}

// `held`: a thread's column stays in registers; otherwise it is read again.
template<class T, class U, int N, bool interleaved, bool held>
__global__ void __launch_bounds__(256) qk_norm_rope_kernel(const HeadShape shape, GPU_READ_ONLY const Heads<T, U> query,
                                                           GPU_READ_ONLY const Heads<T, U> key, const Tables tables) {
    const Head<T, U> at = head_by_parameters(shape, query, key);
    wait_for_earlier_kernels();
    const int64_t row_number = at.exists ? tables.row_number(at.token) : 0; // the read overlaps those of the heads
    float x[2][N] = {};
    const auto squares_of = [&](float factor) {
        float sum = 0.0f;
        each_column<held>(shape, at.lane, [&](int c) {
            const HeadColumn<N, interleaved> column(shape, c);
            if (at.exists) {
                column.load(at.from, x);
            }
            sum = sum_of_squares(x, column.is_pair, factor, sum);
        });
        return sum;
    };
    float square[1] = {squares_of(1.0f)};
    reduce_lanes<Sum>(square, shape.threads);
    const float scale = reciprocal_size(shape, square[0], squares_of);
    if (!at.exists) {
        return;
    }
    const Tables::Row row_of_tables = tables.row(row_number);
    each_column<held>(shape, at.lane, [&](int c) {
        const HeadColumn<N, interleaved> column(shape, c);
        float weight[2][N];
        column.load(at.weight, weight);
        if constexpr (!held) {
            column.load(at.from, x);
        }
#pragma unroll
        for (int k = 0; k < N; ++k) {
            x[0][k] = x[0][k] * scale * weight[0][k];
            x[1][k] = column.is_pair ? x[1][k] * scale * weight[1][k] : 0.0f;
        }
        column.rotate(row_of_tables, 1.0f, x);
        let_the_next_start(~0u);
        column.store(at.to, x);
    });
}

// Adds a thread's products of gradients, weights and elements to `sum`.
template<int N>
__device__ __forceinline__ float sum_of_products(const float (&u)[2][N], const float (&weight)[2][N],
                                                 const float (&x)[2][N], bool is_pair, float sum) {
#pragma unroll
    for (int k = 0; k < 2 * N; ++k) {
        if (k < N || is_pair) {
            sum = fmaf(u[k / N][k % N] * weight[k / N][k % N], x[k / N][k % N], sum);
        }
    }
    return sum;
}

// Turns elements x into their gradients, from `u`, the gradients rotated back, and adds to the weight's gradient.
template<int N>
__device__ __forceinline__ void to_gradients(float (&x)[2][N], const float (&u)[2][N], const float (&weight)[2][N],
                                             float scale, float mean, float (&of_weight)[2][N]) {
#pragma unroll
    for (int k = 0; k < 2 * N; ++k) {
        const float y = x[k / N][k % N] * scale, turned = u[k / N][k % N];
        of_weight[k / N][k % N] = fmaf(turned, y, of_weight[k / N][k % N]);
        x[k / N][k % N] = scale * fmaf(-y, mean, turned * weight[k / N][k % N]);
    }
}

// Gradients of every gridDim.x * groups-th row; `sums` receives the group's sums for the weight.
template<class T, class U, int N, bool interleaved, bool held>
__device__ __forceinline__ void head_gradients(const HeadShape &shape, const Heads<T, U> &heads, const Tables &tables,
                                               const HeadPlace &at, float *sums) {
    float of_weight[2][N] = {};
    const auto rows = static_cast<uint32_t>(shape.tokens * heads.count);
    const auto step = static_cast<uint32_t>(gridDim.x) * static_cast<uint32_t>(at.groups);
    // All groups of a warp make the same number of iterations, since they reduce together.
    for (uint32_t first = blockIdx.x * static_cast<uint32_t>(at.groups); first < rows; first += step) {
        const uint32_t row = first + static_cast<uint32_t>(at.group);
        const bool exists = row < rows;
        const uint32_t token = exists ? row / static_cast<uint32_t>(heads.count) : 0;
        const auto head = static_cast<int>(row - token * static_cast<uint32_t>(heads.count));
        const T *from = heads.input + token * heads.of_input.position + head * heads.of_input.row;
        const T *grad = heads.grad + token * heads.of_grad.position + head * heads.of_grad.row;
        T *to = heads.output + token * heads.of_output.position + head * heads.of_output.row;
        const Tables::Row row_of_tables = tables.row(tables.row_number(token));
        float x[2][N] = {}, u[2][N] = {}, weight[2][N] = {}, of_row[2] = {0.0f, 0.0f};
        if (exists) {
            each_column<held>(shape, at.lane, [&](int c) {
                const HeadColumn<N, interleaved> column(shape, c);
                column.load(from, grad, heads.weight, row_of_tables, x, u, weight);
                of_row[0] = sum_of_squares(x, column.is_pair, 1.0f, of_row[0]);
                of_row[1] = sum_of_products(u, weight, x, column.is_pair, of_row[1]);
            });
        }
        reduce_lanes<Sum>(of_row, shape.threads);
        const float scale = reciprocal_size(shape, of_row[0], [&](float factor) {
            float sum = 0.0f;
            each_column<held>(shape, at.lane, [&](int c) {
                const HeadColumn<N, interleaved> column(shape, c);
                if (exists && !held) {
                    column.load(from, x);
                }
                sum = sum_of_squares(x, column.is_pair, factor, sum);
            });
            return sum;
        });
        if (!exists) {
            continue;
        }
        const float mean = of_row[1] * scale * shape.inverse;
        each_column<held>(shape, at.lane, [&](int c) {
            const HeadColumn<N, interleaved> column(shape, c);
            if constexpr (!held) {
                column.load(from, grad, heads.weight, row_of_tables, x, u, weight);
                column.load(sums, of_weight);
            }
            to_gradients(x, u, weight, scale, mean, of_weight);
            column.store(to, x);
            if constexpr (!held) {
                column.store(sums, of_weight);
            }
        });
    }
    if constexpr (held) {
        each_column<held>(shape, at.lane, [&](int c) { HeadColumn<N, interleaved>(shape, c).store(sums, of_weight); });
    }
}

// A block adds up its sums for the query's weight, then for the key's: parts[which][block][dim].
template<class T, class U, int N, bool interleaved, bool held>
__global__ void __launch_bounds__(256)
    qk_norm_rope_bwd_kernel(const HeadShape shape, GPU_READ_ONLY const Heads<T, U> query,
                            GPU_READ_ONLY const Heads<T, U> key, const Tables tables, float *parts) {
    wait_for_earlier_kernels();
    let_the_next_start(128);
    extern __shared__ float shared[]; // for each group, sums for all dims
    const HeadPlace at(shape.threads);
    for (int which = 0; which < 2; ++which) {
        for (int i = static_cast<int>(threadIdx.x); i < at.groups * shape.dims; i += static_cast<int>(blockDim.x)) {
            shared[i] = 0.0f;
        }
        __syncthreads();
        head_gradients<T, U, N, interleaved, held>(shape, which == 0 ? query : key, tables, at,
                                                   shared + at.group * shape.dims);
        __syncthreads();
        if (parts != nullptr) {
            float *const to = parts + (static_cast<int64_t>(which) * gridDim.x + blockIdx.x) * shape.dims;
            for (int i = static_cast<int>(threadIdx.x); i < shape.dims; i += static_cast<int>(blockDim.x)) {
                float sum = 0.0f;
                for (int group = 0; group < at.groups; ++group) {
                    sum += shared[group * shape.dims + i];
                }
                to[i] = sum;
            }
        }
        __syncthreads();
    }
}

} // namespace gpu
