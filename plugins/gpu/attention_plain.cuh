// Attention tiles without tensor cores: a block of 256 threads has 64 x 64 f32 numbers, each thread 4 x 4 of them.
#pragma once

#include <cstdint>

#include "attention.cuh"
#include "reduce.cuh"

namespace gpu {

inline constexpr int plain_rows = 64; // and columns
inline constexpr int plain_threads = 256;
inline constexpr int plain_depth = 16; // per step of a product
inline constexpr int plain_pitch = plain_rows + 4;

struct PlainMemory {
    float left[plain_depth][plain_pitch], right[plain_depth][plain_pitch];
    float weights[plain_rows][plain_pitch]; // [summed index][row]
    float slopes[plain_rows][plain_pitch];  // backward: the same layout
};

// The block's shared memory.
__device__ __forceinline__ PlainMemory &plain_memory() {
    extern __shared__ __align__(1024) unsigned char shared_bytes[];
    return *reinterpret_cast<PlainMemory *>(shared_bytes);
}

// plain_row(), plain_column(): the first of this thread's four rows, or columns.
__device__ __forceinline__ int plain_row() {
    return static_cast<int>(threadIdx.x) / 16 * 4;
}
__device__ __forceinline__ int plain_column() {
    return static_cast<int>(threadIdx.x) % 16 * 4;
}

// Up to 64 rows of `width` elements.
template<class T>
struct PlainRows {
    const T *first;
    int64_t step;
    int count, width;

    __device__ __forceinline__ float at(int row, int column) const {
        return row < count && column < width ? to_f32(first[row * step + column]) : 0.0f;
    }
};

template<class T>
__device__ __forceinline__ PlainRows<T> plain_rows_of(const HeadRows<const T> &rows, int batch, int token, int head,
                                                      int count, int width) {
    return {rows.row(batch, token, head), rows.token, count, width};
}

// plain_queries(): the queries, or gradients, of a block's tile. plain_keys(): the keys, or values, of its tile.
template<class T>
__device__ __forceinline__ PlainRows<T> plain_queries(const HeadRows<const T> &rows, const Tile &tile, int width) {
    const Sequence &one = tile.sequence;
    return plain_rows_of(rows, one.batch, one.query + tile.first, tile.head, tile.count, width);
}
template<class T>
__device__ __forceinline__ PlainRows<T> plain_keys(const HeadRows<const T> &rows, const Tile &tile, int width) {
    const Sequence &one = tile.sequence;
    return plain_rows_of(rows, one.batch, one.key + tile.first, tile.head, tile.count, width);
}

// The bias in units of the scores; 0 if there is none.
template<class T>
__device__ __forceinline__ float bias_of(const HeadNumbers<const T> &bias, const Sequence &one, int head, int query,
                                         int key) {
    return bias.data == nullptr ? 0.0f : to_f32(bias.at(one.batch, head, one.query + query, one.key + key)) * log2_e;
}

// `skips`: where a left factor is 0, nothing is added, whatever the right factor is.
template<bool skips>
__device__ __forceinline__ void plain_multiply(float (&sums)[4][4], const float *left, const float *right) {
    const float4 a = *reinterpret_cast<const float4 *>(left), b = *reinterpret_cast<const float4 *>(right);
    const float rows[4] = {a.x, a.y, a.z, a.w}, columns[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            if (!skips || rows[i] != 0.0f) {
                sums[i][k] = fmaf(rows[i], columns[k], sums[i][k]);
            }
        }
    }
}

// sums += dot products of the rows of `left` and `right`. The block synchronizes before it begins.
template<class T>
__device__ __forceinline__ void plain_dots(float (&sums)[4][4], const PlainRows<T> &left, const PlainRows<T> &right,
                                           PlainMemory &shared) {
    const int row = static_cast<int>(threadIdx.x) / 4, at = static_cast<int>(threadIdx.x) % 4 * 4;
    for (int first = 0; first < left.width; first += plain_depth) {
        __syncthreads();
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            shared.left[at + k][row] = left.at(row, first + at + k);
            shared.right[at + k][row] = right.at(row, first + at + k);
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < plain_depth; ++k) {
            plain_multiply<false>(sums, &shared.left[k][plain_row()], &shared.right[k][plain_column()]);
        }
    }
}

// sums += weights[summed][row] times the rows, one row per summed index: G groups of 64 of their columns.
template<class T, int G>
__device__ __forceinline__ void plain_add(float (&sums)[G][4][4], const float (&weights)[plain_rows][plain_pitch],
                                          const PlainRows<T> &rows, PlainMemory &shared) {
    const int row = static_cast<int>(threadIdx.x) / 16;
    for (int first = 0; first < rows.count; first += plain_depth) {
#pragma unroll
        for (int g = 0; g < G; ++g) {
            if (g * 64 < rows.width) {
                __syncthreads();
#pragma unroll
                for (int k = 0; k < 4; ++k) {
                    shared.right[row][plain_column() + k] = rows.at(first + row, g * 64 + plain_column() + k);
                }
                __syncthreads();
#pragma unroll
                for (int k = 0; k < plain_depth; ++k) {
                    plain_multiply<true>(sums[g], &weights[first + k][plain_row()], &shared.right[k][plain_column()]);
                }
            }
        }
    }
}
template<class T, int G>
__device__ __forceinline__ void plain_weighted(float (&sums)[G][4][4], const PlainRows<T> &rows, PlainMemory &shared) {
    plain_add(sums, shared.weights, rows, shared);
}

// Writes row i of this thread's rows.
template<int G, class T>
__device__ __forceinline__ void put_plain_row(const HeadRows<T> &to, int batch, int token, int head, int width,
                                              const float (&sums)[G][4][4], int i, float by) {
    T *row = to.row(batch, token, head);
#pragma unroll
    for (int g = 0; g < G; ++g) {
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            const int column = g * 64 + plain_column() + k;
            if (column < width) {
                row[column] = from_f32<T>(sums[g][i][k] * by);
            }
        }
    }
}

} // namespace gpu
