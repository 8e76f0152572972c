// Rotation of pairs of dims: shared by the kernels of fused_rope_*, rope_*positions and qk_norm_rope.
//
// All are one rotation: out = x cosine + partner cross, where cross holds the sines, with their signs and, backward, in
// the places of the transpose. A thread computes the coefficients of its column once for all rows that it rotates. Rows
// need contiguous elements but no fixed strides: models have the sequence in the second dim, and pass views.
#pragma once

#include <cstdint>

#include "launch.hpp"
#include "numbers.cuh"
#include "tensors.hpp"

namespace gpu {

// Strides in elements between positions, batches and rows. If a single stride leads through
// all rows of all batches, the batches count as one.
struct Steps {
    int64_t position, batch, row;
};

// Offsets of a column's two vectors in a row.
template<int N, bool interleaved>
struct Places {
    int half; // distance of partners

    __device__ __forceinline__ int first_dim(int column) const { return (interleaved ? 2 : 1) * column * N; }
    __device__ __forceinline__ int second_dim(int column) const {
        return interleaved ? (2 * column + 1) * N : half + column * N;
    }
};

// True for angles in the range of the polynomials.
__device__ __forceinline__ bool is_small(float angle) {
    return fabsf(angle) < 40000.0f;
}

// Accurate to two units in the last place. Subtracts a multiple of pi / 2 in three parts, and evaluates the polynomials
// of Cephes (S. Moshier) for the remainder.
__device__ __forceinline__ void sine_and_cosine_of_small(float angle, float *sine, float *cosine) {
    const float quarters = rintf(angle * 0.636619772f);
    float x = fmaf(quarters, -1.57079601f, angle);
    x = fmaf(quarters, -3.13916473e-07f, x);
    x = fmaf(quarters, -5.39030253e-15f, x);
    const float square = x * x;
    float of_sine = fmaf(square, -1.9515295891e-4f, 8.3321608736e-3f);
    of_sine = fmaf(of_sine, square, -1.6666654611e-1f);
    of_sine = fmaf(of_sine * square, x, x);
    float of_cosine = fmaf(square, 2.443315711809948e-5f, -1.388731625493765e-3f);
    of_cosine = fmaf(of_cosine, square, 4.166664568298827e-2f);
    of_cosine = fmaf(of_cosine * square, square, fmaf(square, -0.5f, 1.0f));
    const int quarter = static_cast<int>(quarters);
    const float first = (quarter & 1) != 0 ? of_cosine : of_sine;
    const float second = (quarter & 1) != 0 ? of_sine : of_cosine;
    *sine = (quarter & 2) != 0 ? -first : first;
    *cosine = ((quarter + 1) & 2) != 0 ? -second : second;
}

// Uses the library's functions for other angles. Not inlined, since they need local memory.
inline __device__ __noinline__ float2 sine_and_cosine_of_any(float angle) {
    float sine, cosine;
    if (is_small(angle)) {
        sine_and_cosine_of_small(angle, &sine, &cosine);
    } else {
        sincosf(angle, &sine, &cosine);
    }
    return {sine, cosine};
}

// Computes all angles together, so that they do not wait for each other.
template<int N>
__device__ __forceinline__ void sines_and_cosines(const float (&angles)[N], float (&sines)[N], float (&cosines)[N]) {
    bool are_small = true;
#pragma unroll
    for (int k = 0; k < N; ++k) {
        are_small = are_small && is_small(angles[k]);
    }
    if (are_small) {
#pragma unroll
        for (int k = 0; k < N; ++k) {
            sine_and_cosine_of_small(angles[k], &sines[k], &cosines[k]);
        }
        return;
    }
#pragma unroll
    for (int k = 0; k < N; ++k) {
        const float2 both = sine_and_cosine_of_any(angles[k]);
        sines[k] = both.x;
        cosines[k] = both.y;
    }
}

// The coefficients of two partners, x first.
struct Coefficients {
    float cosine_x, cosine_y, cross_x, cross_y;
};

// Source of the coefficients for N pairs of dims (i, j): angles of each position and dim,
struct Angles {
    const float *freqs;
    int64_t step; // elements between positions

    __device__ __forceinline__ int64_t row_number(int64_t position) const { return position; }

    // `first` is the number of the first pair.
    template<int N, bool interleaved>
    __device__ __forceinline__ void read(int64_t number, int first, int half, bool transposed,
                                         Coefficients (&to)[N]) const {
        constexpr int between = interleaved ? 2 : 1;
        const float *const row_x = freqs + number * step + between * first;
        const float *const row_y = row_x + (interleaved ? 1 : half);
        float x[N], y[N], sine_x[N], sine_y[N], cosine_x[N], cosine_y[N];
        bool are_equal = true; // as in most models
#pragma unroll
        for (int k = 0; k < N; ++k) {
            x[k] = row_x[between * k];
            y[k] = row_y[between * k];
        }
#pragma unroll
        for (int k = 0; k < N; ++k) {
            are_equal = are_equal && x[k] == y[k];
        }
        sines_and_cosines(x, sine_x, cosine_x);
        if (!are_equal) {
            sines_and_cosines(y, sine_y, cosine_y);
        }
#pragma unroll
        for (int k = 0; k < N; ++k) {
            const float of_y = are_equal ? sine_x[k] : sine_y[k];
            to[k].cosine_x = cosine_x[k];
            to[k].cosine_y = are_equal ? cosine_x[k] : cosine_y[k];
            to[k].cross_x = transposed ? of_y : -sine_x[k];
            to[k].cross_y = transposed ? -sine_x[k] : of_y;
        }
    }
};

// or rows of tables of cosines and sines, indexed by the position of each token. A position out of range is clamped,
// since positions are on the device and cannot be checked by the host.
struct Tables {
    const void *positions; // of 8 or 4 bytes
    const float *cos, *sin;
    int64_t size, positions_step, cos_step, sin_step;
    bool has_wide_positions;
    bool has_vectors; // all rows are aligned to 16 bytes

    struct Row {
        const float *cos, *sin;
    };
    __device__ __forceinline__ int64_t row_number(int64_t token) const {
        const int64_t at = token * positions_step;
        return has_wide_positions ? static_cast<const int64_t *>(positions)[at]
                                  : static_cast<const int32_t *>(positions)[at];
    }
    __device__ __forceinline__ Row row(int64_t number) const {
        const int64_t position = number < 0 ? 0 : number < size ? number : size - 1;
        return {cos + position * cos_step, sin + position * sin_step};
    }
    template<int N, bool /*interleaved*/>
    __device__ __forceinline__ void read(int64_t number, int first, int /*half*/, bool transposed,
                                         Coefficients (&to)[N]) const {
        const Row at = row(number);
        float cosines[N], sines[N];
        if (N % 4 == 0 && has_vectors) {
            load<N>(at.cos + first, cosines);
            load<N>(at.sin + first, sines);
        } else {
#pragma unroll
            for (int k = 0; k < N; ++k) {
                cosines[k] = at.cos[first + k];
                sines[k] = at.sin[first + k];
            }
        }
#pragma unroll
        for (int k = 0; k < N; ++k) {
            const float cross = transposed ? sines[k] : -sines[k];
            to[k] = {cosines[k], cosines[k], cross, -cross};
        }
    }
};

// Division of numbers below 2^31 by multiplication.
struct Divisor {
    uint32_t divisor, factor;
    int shift;

    Divisor() = default;
    explicit Divisor(uint32_t by) : divisor(by), shift(31) {
        while (uint64_t(1) << (shift - 31) < by) {
            ++shift;
        }
        factor = static_cast<uint32_t>(((uint64_t(1) << shift) + by - 1) / by);
    }
    __device__ __forceinline__ uint32_t quotient(uint32_t number) const {
        return static_cast<uint32_t>(static_cast<uint64_t>(number) * factor >> shift);
    }
};

// A tensor to rotate.
template<class T>
struct Rotated {
    const T *input;
    T *output;
    Steps from, to;
    int64_t from_stride, to_stride; // of a lane: lanes times `row`
    int rows, lanes;                // per group
};

// A group is everything that one position of one batch has, in all tensors. Its rows are distributed over lanes, which
// have every lanes-th row of one tensor; lanes of the first tensor come first. A column is a thread's part of a row:
// two vectors of N elements whose dims are partners, or, past the rotated dims, one vector that is copied.
template<class T>
struct Rotation {
    Rotated<T> of[2];
    uint32_t first_group, groups; // of this launch
    uint32_t threads;             // their lanes times columns
    Divisor columns, lanes, positions;
    int rotated, pairs; // dims, and columns that are rotated
    bool transposed;    // backward
    bool has_batches;
};

// A thread's part of the work.
template<class T>
struct Stand {
    bool works;
    bool is_pair;
    int column;
    uint32_t position;
    int row, rows, lanes; // it has every lanes-th row from `row` on
    const T *from;        // first vector of the first row
    T *to;
    int64_t from_step, to_step; // elements to its next row
    int second;                 // elements from a vector to its partner
};

template<int N, bool interleaved, bool whole, class T>
__device__ __forceinline__ Stand<T> stand_by_parameters(const Rotation<T> &all) {
    const uint32_t thread = blockIdx.x * blockDim.x + threadIdx.x;
    const uint32_t of_all = all.columns.quotient(thread);
    const uint32_t of_launch = all.lanes.quotient(of_all);
    const uint32_t group = all.first_group + of_launch;
    const auto lane = static_cast<int>(of_all - of_launch * all.lanes.divisor);
    Stand<T> at;
    at.works = thread < all.threads;
    at.column = static_cast<int>(thread - of_all * all.columns.divisor);
    at.is_pair = whole || at.column < all.pairs;
    const bool is_second = lane >= all.of[0].lanes;
    const Rotated<T> &mine = all.of[is_second ? 1 : 0];
    at.row = is_second ? lane - all.of[0].lanes : lane;
    at.rows = mine.rows;
    at.lanes = mine.lanes;
    const uint32_t batch = all.has_batches ? all.positions.quotient(group) : 0;
    at.position = group - batch * all.positions.divisor;
    const Places<N, interleaved> places = {all.rotated / 2};
    const int first = at.is_pair ? places.first_dim(at.column) : all.rotated + (at.column - all.pairs) * N;
    at.second = interleaved ? N : all.rotated / 2;
    at.from = mine.input + at.position * mine.from.position + at.row * mine.from.row + first;
    at.to = mine.output + at.position * mine.to.position + at.row * mine.to.row + first;
    if (all.has_batches) {
        at.from += batch * mine.from.batch;
        at.to += batch * mine.to.batch;
    }
    at.from_step = mine.from_stride;
    at.to_step = mine.to_stride;
    return at;
}

// Like store(), which narrows fewer than eight elements one by one; this takes one instruction for two.
template<int N, class T>
__device__ __forceinline__ void store_pairs(T *p, const float (&from)[N]) {
#ifndef __HIP__
    if constexpr (sizeof(T) == 2 && N % 2 == 0) {
        using Pair = std::conditional_t<std::is_same_v<T, bf16>, __nv_bfloat162, __half2>;
        Vector<T, N> to;
#pragma unroll
        for (int k = 0; k < N; k += 2) {
            Pair pair;
            if constexpr (std::is_same_v<T, bf16>) {
                pair = __floats2bfloat162_rn(from[k], from[k + 1]);
            } else {
                pair = __floats2half2_rn(from[k], from[k + 1]);
            }
            reinterpret_cast<Pair *>(to.elements)[k / 2] = pair;
        }
        *reinterpret_cast<Vector<T, N> *>(p) = to;
        return;
    }
#endif
    store<N>(p, from);
}

// Rotates two vectors of a row.
template<int N, bool interleaved, class T>
__device__ __forceinline__ void rotate(const Vector<T, N> &first, const Vector<T, N> &second,
                                       const Coefficients (&coefficients)[N], T *to, int partner) {
    float x[2][N], turned[2][N];
    widen(first, x[0]);
    widen(second, x[1]);
#pragma unroll
    for (int k = 0; k < N; ++k) {
        const int i = interleaved ? 2 * k : k, j = interleaved ? 2 * k + 1 : N + k; // of 2 N elements
        const float x_i = x[i / N][i % N], x_j = x[j / N][j % N];
        turned[i / N][i % N] = fmaf(x_i, coefficients[k].cosine_x, x_j * coefficients[k].cross_x);
        turned[j / N][j % N] = fmaf(x_j, coefficients[k].cosine_y, x_i * coefficients[k].cross_y);
    }
    store_pairs<N>(to, turned[0]);
    store_pairs<N>(to + partner, turned[1]);
}

// A thread has up to `unroll` rows, and reads all of them before it writes the first. `whole`:
// all dims are rotated; the specialized code is faster for many rows, but slower for few.
template<class T, int N, int unroll, bool interleaved, bool whole, class Source>
__global__ void __launch_bounds__(512) rope_kernel(GPU_READ_ONLY const Rotation<T> all, const Source source) {
    const Stand<T> at = stand_by_parameters<N, interleaved, whole>(all);
    wait_for_earlier_kernels();
    if (!at.works) {
        return;
    }
    const int64_t number = source.row_number(at.position); // read before the elements, which do not wait for it
    Vector<T, N> first[unroll], second[unroll];
    const T *from = at.from;
#pragma unroll
    for (int u = 0; u < unroll; ++u) {
        if (at.row + u * at.lanes < at.rows) {
            first[u] = *reinterpret_cast<const Vector<T, N> *>(from);
            if (at.is_pair) {
                second[u] = *reinterpret_cast<const Vector<T, N> *>(from + at.second);
            }
        }
        from += at.from_step;
    }
    // Blocks of the next kernel compete with those that still compute, even though they only wait. With several rows
    // per thread that costs a tenth of the time; with one row an early start pays off.
    constexpr bool starts_early = unroll == 1;
    if (starts_early) {
        let_the_next_start(~0u);
    }
    Coefficients coefficients[N];
    if (at.is_pair) {
        source.template read<N, interleaved>(number, at.column * N, all.rotated / 2, all.transposed, coefficients);
    }
    if (!starts_early) {
        let_the_next_start(~0u);
    }
    T *to = at.to;
#pragma unroll
    for (int u = 0; u < unroll; ++u) {
        if (at.row + u * at.lanes >= at.rows) {
            return;
        }
        if (at.is_pair) {
            rotate<N, interleaved>(first[u], second[u], coefficients, to, at.second);
        } else {
            *reinterpret_cast<Vector<T, N> *>(to) = first[u];
        }
        to += at.to_step;
    }
}

} // namespace gpu
