// Rotating pairs of dims: what the kernels of fused_rope_* and rope_*positions share, and those kernels.
//
// All are one rotation: out = x cosine + partner cross, where cross holds the sines with the signs and, backward, the
// places of the transpose. A block computes the coefficients of its positions once, for the rows (batch and heads) that
// it has of them; of few rows each thread computes its own. Rows may lie anywhere, their elements beside each other:
// models have the sequence in the second dim, and give views.
#pragma once

#include <cstdint>

#include "launch.hpp"
#include "numbers.cuh"
#include "tensors.hpp"

namespace gpu {

// Where the rows of a tensor are: elements from one position to the next, and its heads, of all batches.
struct Layout {
    int64_t position;
    RowSteps heads;
};

// A column is what a thread has of a row: two vectors of N elements whose dims are partners, or, past the rotated dims,
// one vector that is copied.
struct Rope {
    Layout input, output;
    int64_t positions, rows; // rows of each position
    int dims, rotated;
    int pairs, columns; // columns that are rotated, and all
    bool transposed;    // backward

    // A block works on `width` columns of `lanes` rows at once. It has several positions where these have few rows; a
    // position with many rows has several blocks.
    int width, lanes;
    uint32_t width_inverse; // times the number of a thread, without its last inverse_bits, is that by `width`
    int positions_of_block;
    uint32_t slices; // blocks for the rows of a position
    uint32_t tiles;  // blocks for the columns of a row
};

// Enough for numbers and divisors up to 1024.
constexpr int inverse_bits = 20;

// A tensor to rotate. The first blocks of a kernel have the first task, those behind them the second one.
template<class T>
struct Task {
    Rope shape;
    const T *input;
    T *output;
};
template<class T, int tensors>
struct Tasks {
    Task<T> of[tensors];
    uint32_t blocks_of_first;
};

// Where the two vectors of a column are in a row, and, by its number in the block, among the block's coefficients:
// there all first vectors come before the second ones, or, interleaved, they are in the order of the dims.
template<int N, bool interleaved>
struct Places {
    int half;  // dims between partners
    int width; // columns of the block

    __device__ __forceinline__ int first_dim(int column) const { return (interleaved ? 2 : 1) * column * N; }
    __device__ __forceinline__ int second_dim(int column) const {
        return interleaved ? (2 * column + 1) * N : half + column * N;
    }
    __device__ __forceinline__ int first_coefficient(int column) const { return first_dim(column); }
    __device__ __forceinline__ int second_coefficient(int column) const {
        return interleaved ? second_dim(column) : (width + column) * N;
    }
};

// The library's, which for large angles needs memory of the thread's own: called, so that nobody else pays for it.
inline __device__ __noinline__ float2 sine_and_cosine_of_large(float angle) {
    float sine, cosine;
    sincosf(angle, &sine, &cosine);
    return {sine, cosine};
}

// Within two units in the last place: what is left of the angle without multiples of pi / 2, which are taken off in
// three parts, goes into the polynomials of Cephes (S. Moshier).
__device__ __forceinline__ void sine_and_cosine(float angle, float *sine, float *cosine) {
    if (!(fabsf(angle) < 40000.0f)) {
        const float2 both = sine_and_cosine_of_large(angle);
        *sine = both.x;
        *cosine = both.y;
        return;
    }
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

// The coefficients of two partners, x first.
struct Coefficients {
    float cosine_x, cosine_y, cross_x, cross_y;
};
__device__ __forceinline__ Coefficients coefficients_of(float angle_x, float angle_y, bool transposed) {
    Coefficients found;
    float sine_x, sine_y;
    sine_and_cosine(angle_x, &sine_x, &found.cosine_x);
    sine_and_cosine(angle_y, &sine_y, &found.cosine_y);
    found.cross_x = transposed ? sine_y : -sine_x;
    found.cross_y = transposed ? -sine_x : sine_y;
    return found;
}

// Two numbers from which the coefficients of a pair of dims (i, j) come, number `pair` of all.
struct PairNumbers {
    float first, second;
};

// Where they come from: angles of each position and dim,
struct Angles {
    const float *freqs;
    int64_t step; // elements from a position to the next

    __device__ __forceinline__ const float *row(int64_t position) const { return freqs + position * step; }
    static __device__ __forceinline__ PairNumbers read(const float *row, int i, int j, int /*pair*/) {
        return {row[i], row[j]};
    }
    static __device__ __forceinline__ Coefficients coefficients(PairNumbers angles, bool transposed) {
        return coefficients_of(angles.first, angles.second, transposed);
    }
};

// or rows of tables of cosines and sines, which the position of each token names. One that is none is taken for the
// nearest that is: what is on the device nobody checks.
struct Tables {
    const void *positions; // of 8 bytes, or of 4
    const float *cos, *sin;
    int64_t size, positions_step, cos_step, sin_step;
    bool has_wide_positions;

    struct Row {
        const float *cos, *sin;
    };
    __device__ __forceinline__ Row row(int64_t token) const {
        const int64_t at = token * positions_step;
        const int64_t named = has_wide_positions ? static_cast<const int64_t *>(positions)[at]
                                                 : static_cast<const int32_t *>(positions)[at];
        const int64_t position = named < 0 ? 0 : named < size ? named : size - 1;
        return {cos + position * cos_step, sin + position * sin_step};
    }
    static __device__ __forceinline__ PairNumbers read(Row row, int /*i*/, int /*j*/, int pair) {
        return {row.cos[pair], row.sin[pair]};
    }
    static __device__ __forceinline__ Coefficients coefficients(PairNumbers numbers, bool transposed) {
        const float cross = transposed ? numbers.second : -numbers.second;
        return {numbers.first, numbers.first, cross, -cross};
    }
};

// Where a thread stands: its column, and its first row.
struct Stand {
    int64_t first_position; // of the block
    int position_of_block;
    int64_t row;
    int first_column; // of the block
    int column_of_block;
    bool works; // as there is that column, row and position

    __device__ __forceinline__ int64_t position() const { return first_position + position_of_block; }
    __device__ __forceinline__ int column() const { return first_column + column_of_block; }
};

// Divisions are in 32 bits and left out where they can be: of few rows they are a good part of the time.
__device__ __forceinline__ Stand stand_of(const Rope &shape, uint32_t block) {
    const uint32_t slices = shape.tiles == 1 ? block : block / shape.tiles;
    const uint32_t tile = block - slices * shape.tiles;
    const uint32_t group = shape.slices == 1 ? slices : slices / shape.slices;
    const uint32_t slice = slices - group * shape.slices;
    const int lane = static_cast<int>(threadIdx.x * shape.width_inverse >> inverse_bits);
    Stand at;
    at.first_position = static_cast<int64_t>(group) * shape.positions_of_block;
    at.first_column = static_cast<int>(tile) * shape.width;
    at.column_of_block = static_cast<int>(threadIdx.x) - lane * shape.width;
    at.position_of_block = 0;
    at.row = static_cast<int64_t>(slice) * shape.lanes + lane;
    if (shape.positions_of_block > 1) {
        at.position_of_block = lane / static_cast<int>(shape.rows);
        at.row = lane - at.position_of_block * shape.rows;
    }
    at.works = at.column() < shape.columns && lane < shape.lanes && at.position_of_block < shape.positions_of_block &&
               at.position() < shape.positions;
    return at;
}

// The block's task, and its number among that task's blocks.
template<class T, int tensors>
struct Part {
    const Task<T> &task;
    uint32_t block;
};
template<class T, int tensors>
__device__ __forceinline__ Part<T, tensors> part_of(const Tasks<T, tensors> &tasks) {
    const bool is_second = tensors == 2 && blockIdx.x >= tasks.blocks_of_first;
    return {tasks.of[is_second ? tensors - 1 : 0], blockIdx.x - (is_second ? tasks.blocks_of_first : 0)};
}

// For few rows, when what counts is how soon the first thread is done: each has one row of one column, and computes the
// coefficients itself.
template<class T, int N, bool interleaved, int tensors, class Source>
__global__ void __launch_bounds__(512)
    few_rows_kernel(GPU_READ_ONLY const Tasks<T, tensors> tasks, const Source source) {
    wait_for_earlier_kernels();
    let_the_next_start(1024);
    const Part<T, tensors> part = part_of(tasks);
    const Rope &shape = part.task.shape;
    const Stand at = stand_of(shape, part.block);
    if (!at.works || at.row >= shape.rows) {
        return;
    }
    const T *from = part.task.input + at.position() * shape.input.position + shape.input.heads.row(at.row);
    T *to = part.task.output + at.position() * shape.output.position + shape.output.heads.row(at.row);
    if (at.column() >= shape.pairs) {
        const int there = shape.rotated + (at.column() - shape.pairs) * N;
        *reinterpret_cast<Vector<T, N> *>(to + there) = *reinterpret_cast<const Vector<T, N> *>(from + there);
        return;
    }
    const Places<N, interleaved> places = {shape.rotated / 2, shape.width};
    const int starts[2] = {places.first_dim(at.column()), places.second_dim(at.column())};
    float x[2][N], new_x[2][N];
    PairNumbers numbers[N];
    load<N>(from + starts[0], x[0]);
    load<N>(from + starts[1], x[1]);
    const auto row = source.row(at.position());
    // Of 2 N elements.
    const auto first_of = [](int pair) { return interleaved ? 2 * pair : pair; };
    const auto second_of = [](int pair) { return interleaved ? 2 * pair + 1 : N + pair; };
#pragma unroll
    for (int pair = 0; pair < N; ++pair) {
        const int i = first_of(pair), j = second_of(pair);
        numbers[pair] = Source::read(row, starts[i / N] + i % N, starts[j / N] + j % N, at.column() * N + pair);
    }
#pragma unroll
    for (int pair = 0; pair < N; ++pair) {
        const int i = first_of(pair), j = second_of(pair);
        const float x_i = x[i / N][i % N], x_j = x[j / N][j % N];
        const Coefficients found = Source::coefficients(numbers[pair], shape.transposed);
        new_x[i / N][i % N] = fmaf(x_i, found.cosine_x, x_j * found.cross_x);
        new_x[j / N][j % N] = fmaf(x_j, found.cosine_y, x_i * found.cross_y);
    }
    store<N>(to + starts[0], new_x[0]);
    store<N>(to + starts[1], new_x[1]);
}

// What a block multiplies elements by: of each position cosines and then cross terms, of each pair's dims.
template<int N, bool interleaved, class Source>
__device__ __forceinline__ void make_coefficients(const Rope &shape, const Stand &at, const Source &source,
                                                  float *coefficients) {
    const int pairs_of_position = N * shape.width;
    for (int e = static_cast<int>(threadIdx.x); e < shape.positions_of_block * pairs_of_position;
         e += static_cast<int>(blockDim.x)) {
        const int p = shape.positions_of_block == 1 ? 0 : e / pairs_of_position;
        const int in_position = e - p * pairs_of_position;
        const int pair = at.first_column * N + in_position;
        if (pair < shape.pairs * N && at.first_position + p < shape.positions) {
            const int i = interleaved ? 2 * pair : pair;
            const int j = interleaved ? 2 * pair + 1 : pair + shape.rotated / 2;
            const auto numbers = Source::read(source.row(at.first_position + p), i, j, pair);
            const Coefficients found = Source::coefficients(numbers, shape.transposed);
            float *cosine = coefficients + p * 4 * pairs_of_position;
            float *cross = cosine + 2 * pairs_of_position;
            const int at_i = interleaved ? 2 * in_position : in_position;
            const int at_j = interleaved ? 2 * in_position + 1 : in_position + pairs_of_position;
            cosine[at_i] = found.cosine_x;
            cosine[at_j] = found.cosine_y;
            cross[at_i] = found.cross_x;
            cross[at_j] = found.cross_y;
        }
    }
}

// Rotates two vectors of a row, which end up at to[first] and to[second]. Cosines and cross terms are those of the
// row's position, `column` the thread's in its block.
template<int N, bool interleaved, class T>
__device__ __forceinline__ void rotate(const Vector<T, N> &here, const Vector<T, N> &there,
                                       const Places<N, interleaved> &places, int column, const float *cosine,
                                       const float *cross, T *to, int first, int second) {
    asm volatile("" ::: "memory"); // the coefficients stay in shared memory: registers are for rows on their way
    float x[N], y[N], new_x[N], new_y[N];
    float cosine_x[N], cosine_y[N], cross_x[N], cross_y[N];
    load<N>(cosine + places.first_coefficient(column), cosine_x);
    load<N>(cosine + places.second_coefficient(column), cosine_y);
    load<N>(cross + places.first_coefficient(column), cross_x);
    load<N>(cross + places.second_coefficient(column), cross_y);
    widen(here, x);
    widen(there, y);
#pragma unroll
    for (int k = 0; k < N; ++k) {
        constexpr bool within = interleaved && N > 1; // partners are in one vector
        new_x[k] = fmaf(x[k], cosine_x[k], (within ? x[k ^ 1] : y[k]) * cross_x[k]);
        new_y[k] = fmaf(y[k], cosine_y[k], (within ? y[k ^ 1] : x[k]) * cross_y[k]);
    }
    store<N>(to + first, new_x);
    store<N>(to + second, new_y);
}

template<class T, int N, int unroll, bool interleaved, int tensors, class Source>
__global__ void __launch_bounds__(512, 2)
    rope_kernel(GPU_READ_ONLY const Tasks<T, tensors> tasks, const Source source) {
    wait_for_earlier_kernels();
    extern __shared__ float coefficients[];
    const Part<T, tensors> part = part_of(tasks);
    const Rope &shape = part.task.shape;
    const Stand at = stand_of(shape, part.block);
    const Places<N, interleaved> places = {shape.rotated / 2, shape.width};
    const int of_position = 2 * N * shape.width; // coefficients of each kind

    // This thread's rows: every lanes-th one.
    int64_t row = at.row;
    const int64_t rows_step = static_cast<int64_t>(shape.lanes) * shape.slices;
    const int column = at.column();
    const bool is_pair = column < shape.pairs;
    const int first_at = is_pair ? places.first_dim(column) : shape.rotated + (column - shape.pairs) * N;
    const int second_at = is_pair ? places.second_dim(column) : first_at;

    // Elements are on their way while the sines are computed, and later while rows before them are rotated.
    Vector<T, N> first[unroll], second[unroll];
    const auto fetch = [&](int u, int64_t r) {
        if (at.works && r < shape.rows) {
            const T *from = part.task.input + at.position() * shape.input.position + shape.input.heads.row(r);
            first[u] = *reinterpret_cast<const Vector<T, N> *>(from + first_at);
            if (is_pair) {
                second[u] = *reinterpret_cast<const Vector<T, N> *>(from + second_at);
            }
        }
    };
#pragma unroll
    for (int u = 0; u < unroll; ++u) {
        fetch(u, row + u * rows_step);
    }

    make_coefficients<N, interleaved>(shape, at, source, coefficients);
    __syncthreads();
    if (!at.works) {
        return;
    }

    const float *cosine = coefficients + at.position_of_block * 2 * of_position;
    const float *cross = cosine + of_position;
    for (; row < shape.rows; row += unroll * rows_step) {
#pragma unroll
        for (int u = 0; u < unroll; ++u) {
            const int64_t r = row + u * rows_step;
            if (r >= shape.rows) {
                return;
            }
            T *to = part.task.output + at.position() * shape.output.position + shape.output.heads.row(r);
            const Vector<T, N> here = first[u], there = second[u];
            fetch(u, r + unroll * rows_step);
            if (!is_pair) {
                *reinterpret_cast<Vector<T, N> *>(to + first_at) = here;
                continue;
            }
            rotate<N, interleaved>(here, there, places, at.column_of_block, cosine, cross, to, first_at, second_at);
        }
    }
}

} // namespace gpu
