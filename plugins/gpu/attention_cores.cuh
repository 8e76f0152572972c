// Attention tiles on tensor cores: blocks of four warps, each with 16 or 32 rows of its own.
#pragma once

#include <cstdint>
#include <type_traits>

#include "attention.cuh"
#include "tensor_cores.cuh"

namespace gpu {

inline constexpr int core_warps = 4;
inline constexpr int core_threads = core_warps * 32;

// Rows of one head: `count` rows of `width` elements, from `token` on.
template<class T>
struct CoreSource {
    HeadRows<const T> rows;
    int batch, token, head, count, width;
};

// Starts to copy the source into a tile of `rows` rows.
template<int D, int rows, class T>
__device__ __forceinline__ void stage_rows(const CoreSource<T> &from, T *tile) {
    constexpr int chunks = D / 8, at_once = core_threads / chunks;
    const int first = static_cast<int>(threadIdx.x) / chunks, chunk = static_cast<int>(threadIdx.x) % chunks;
    const T *begin = from.rows.row(from.batch, from.token + first, from.head);
#pragma unroll
    for (int i = 0; i < rows / at_once; ++i) {
        const int row = first + i * at_once;
        copy_chunk(chunk_of<D>(tile, row, chunk), row < from.count ? begin + i * at_once * from.rows.token : nullptr,
                   chunk * 8, from.width, from.rows.vectors);
    }
}

// tanh with an error of at most 3e-7.
__device__ __forceinline__ float tanh_of(float x) {
    const float square = x * x;
    const float series =
        fmaf(fmaf(fmaf(-17.0f / 315.0f, square, 2.0f / 15.0f), square, -1.0f / 3.0f), square, 1.0f) * x;
    const float other = 1.0f - __fdividef(2.0f, 1.0f + exp2_of(x * (2.0f * log2_e)));
    return square < 0.0625f ? series : other;
}

// True if scores are dot products times a positive factor, and nothing else.
__device__ __forceinline__ bool has_plain_scores(const Attention &a, bool has_bias) {
    return !has_bias && a.soft_cap == 0.0f && a.factor > 0x1p-20f;
}

// A warp's rows from `first` on (queries or keys), and the rows of the other side that they are paired with.
template<bool of_keys>
struct CoreRows {
    int first;
    KeyRange any, all; // paired with at least one of the rows, and with all of them

    static __device__ __forceinline__ KeyRange range(const Attention &a, const Sequence &one, int row) {
        return of_keys ? a.seeing(one, row, row + 1) : a.seen(one, row);
    }
    __device__ __forceinline__ CoreRows(const Attention &a, const Sequence &one, int row, int count)
        : first(row), any{0, 0}, all{0, 0} {
        if (count > 0) {
            const KeyRange early = range(a, one, row), late = range(a, one, row + count - 1);
            any = {early.begin, late.end};
            all = {late.begin, early.end};
        }
    }
    __device__ __forceinline__ bool go_with_any(int from, int count) const {
        return from < any.end && from + count > any.begin;
    }
    __device__ __forceinline__ bool go_with_all(int from, int count) const {
        return from >= all.begin && from + count <= all.end;
    }

    // Sets the elements of pairs that do not see each other to `value`.
    template<int M, int N>
    __device__ __forceinline__ void hide(float (&z)[M][N][4], float value, const Attention &a, const Sequence &one,
                                         int from) const {
        const int lane = lane_of_warp();
#pragma unroll
        for (int m = 0; m < M; ++m) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const KeyRange seen = range(a, one, first + m * 16 + half * 8 + lane / 4);
                const int begin = seen.begin - from - lane % 4 * 2, end = seen.end - from - lane % 4 * 2;
#pragma unroll
                for (int k = 0; k < 2 * N; ++k) {
                    const int at = k / 2 * 8 + k % 2;
                    float &score = z[m][k / 2][half * 2 + k % 2];
                    score = at >= begin && at < end ? score : value;
                }
            }
        }
    }
};

// A block's rows of one head (queries or keys), some for each warp, and the rows of the other side.
template<bool of_keys, int warp_rows>
struct CoreBlock {
    Tile tile;
    int group;       // the key head
    KeyRange others; // paired with at least one of the rows
    int warp_row;    // first row of the warp in the tile
    CoreRows<of_keys> all_rows, rows;

    __device__ __forceinline__ CoreBlock(const Attention &a, const Tile &of)
        : tile(of), group(of_keys ? of.head : of.head / a.heads_per_key),
          others(of_keys ? a.seeing(of.sequence, of.first, of.first + of.count)
                         : a.seen(of.sequence, of.first, of.first + of.count)),
          warp_row(static_cast<int>(threadIdx.x) / 32 * warp_rows), all_rows(a, of.sequence, of.first, of.count),
          rows(a, of.sequence, of.first + warp_row, min(warp_rows, of.count - warp_row)) {}

    // own(): all rows of the block. other(): the rows of the other side from `first` on.
    template<class T>
    __device__ __forceinline__ CoreSource<T> own(const HeadRows<const T> &from, int width) const {
        const int start = of_keys ? tile.sequence.key : tile.sequence.query;
        return {from, tile.sequence.batch, start + tile.first, tile.head, tile.count, width};
    }
    template<class T>
    __device__ __forceinline__ CoreSource<T> other(const HeadRows<const T> &from, int head, int first,
                                                   int width) const {
        const int start = of_keys ? tile.sequence.query : tile.sequence.key;
        return {from, tile.sequence.batch, start + first, head, others.end - first, width};
    }
};

// Turns the dot products of queries from `query` on and keys from `key` on into scores.
template<class T, int M, int N>
__device__ __forceinline__ void to_scores(float (&z)[M][N][4], const Attention &a, const HeadNumbers<const T> &bias,
                                          const Sequence &one, int head, int query, int key) {
    const int lane = lane_of_warp();
    const float inverse = a.soft_cap > 0 ? a.factor / a.soft_cap : 0.0f, cap = a.soft_cap * log2_e;
#pragma unroll
    for (int m = 0; m < M; ++m) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int row = query + m * 16 + half * 8 + lane / 4;
#pragma unroll
            for (int k = 0; k < 2 * N; ++k) {
                const int column = key + k / 2 * 8 + lane % 4 * 2 + k % 2;
                float &score = z[m][k / 2][half * 2 + k % 2];
                score = a.soft_cap > 0 ? cap * tanh_of(score * inverse) : score * a.factor;
                if (bias.data != nullptr && row < one.queries && column < one.keys) {
                    score += to_f32(bias.at(one.batch, head, one.query + row, one.key + column)) * log2_e;
                }
            }
        }
    }
}

// --- weights of 0 ---
//
// Hidden rows have a weight of 0 and must not reach the sums, even if they hold infinities or NaN. A tile with such
// numbers is multiplied in three passes. The first replaces them by 0. In the others, nonzero weights are 2^100, and so
// are infinities of one sign, and NaN: the product is infinite, and NaN once both signs are summed.

// True if a tile has a number that is not finite. All threads of the block have to call it.
template<int D, int rows, class T>
__device__ __forceinline__ bool has_infinite(const T *tile) {
    constexpr uint32_t exponent = std::is_same_v<T, bf16> ? 0x7f80u : 0x7c00u;
    bool found = false;
#pragma unroll 4
    for (int i = static_cast<int>(threadIdx.x); i < rows * D / 8; i += core_threads) {
        const uint4 four = reinterpret_cast<const uint4 *>(tile)[i];
        const uint32_t words[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            found = found || (words[k] & exponent) == exponent || (words[k] >> 16 & exponent) == exponent;
        }
    }
    return any_of_block(found);
}

// Copies rows as one of the passes needs them.
template<int D, int rows, class T>
__device__ __noinline__ void stage_pass(CoreSource<T> from, int pass, T *tile) {
    constexpr uint16_t infinity = std::is_same_v<T, bf16> ? 0x7f80u : 0x7c00u;
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < rows * D; i += core_threads) {
        const int row = i / D, column = i % D;
        uint16_t bits = 0;
        if (row < from.count && column < from.width) {
            bits = *reinterpret_cast<const uint16_t *>(from.rows.row(from.batch, from.token + row, from.head) + column);
        }
        const bool is_finite = (bits & infinity) != infinity, is_nan = !is_finite && (bits & 0x7fffu) != infinity;
        if (pass == 0) {
            bits = is_finite ? bits : uint16_t(0);
        } else {
            const bool counts = !is_finite && (is_nan || (bits >> 15) == pass - 1);
            bits = !counts ? uint16_t(0) : pass == 1 ? uint16_t(0x7180u) : uint16_t(0xf180u); // 2^100 as bf16
        }
        reinterpret_cast<uint16_t *>(chunk_of<D>(tile, row, column / 8))[column % 8] = bits;
    }
}

// sums += weights times the rows of a tile; `address` is the thread's place in it. All threads of the block call it,
// but only warps that take part have weights. `may_hide`: some weights may be 0 because rows are hidden.
template<int D, int rows, class T, int M, int N, int C>
__device__ __forceinline__ void multiply_seen(float (&sums)[M][C][4], float (&weights)[M][N][4], SharedAddress address,
                                              bool takes_part, bool may_hide, const CoreSource<T> &from, T *tile) {
    const int passes = may_hide && has_infinite<D, rows>(tile) ? 3 : 1;
#pragma unroll 1
    for (int pass = 0; pass < passes; ++pass) {
        if (passes > 1) {
            __syncthreads();
            stage_pass<D, rows>(from, pass, tile);
            __syncthreads();
        }
        if (!takes_part) {
            continue;
        }
        if (pass == 1) {
#pragma unroll
            for (int i = 0; i < M * N * 4; ++i) {
                float &weight = weights[i / 4 / N][i / 4 % N][i % 4];
                weight = weight == 0.0f ? 0.0f : 0x1p100f;
            }
        }
        if (std::is_same_v<T, bf16> || pass > 0) {
            multiply_weights<bf16, D>(sums, weights, address);
        } else {
            multiply_weights<T, D>(sums, weights, address);
        }
    }
}

// Writes `count` rows of a warp, through a tile of shared memory that the warp owns.
template<int D, class T, int M>
__device__ __forceinline__ void put_core_rows(const HeadRows<T> &to, int batch, int token, int head, int count,
                                              int width, const float (&sums)[M][D / 8][4], const float (&by)[M][2],
                                              T *tile) {
    const int lane = lane_of_warp();
#pragma unroll
    for (int m = 0; m < M; ++m) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
#pragma unroll
            for (int c = 0; c < D / 8; ++c) {
                reinterpret_cast<uint32_t *>(chunk_of<D>(tile, m * 16 + half * 8 + lane / 4, c))[lane % 4] =
                    pack<T>(sums[m][c][half * 2] * by[m][half], sums[m][c][half * 2 + 1] * by[m][half]);
            }
        }
    }
    __syncwarp();
    constexpr int chunks = D / 8;
    for (int i = lane; i < 16 * M * chunks; i += 32) {
        const int row = i / chunks, at = i % chunks * 8;
        if (row < count && at < width) {
            const Vector<T, 8> values = *chunk_of<D>(tile, row, i % chunks);
            T *place = to.row(batch, token + row, head) + at;
            if (to.vectors) {
                *reinterpret_cast<Vector<T, 8> *>(place) = values;
            } else {
#pragma unroll
                for (int k = 0; k < 8; ++k) {
                    if (at + k < width) {
                        place[k] = values.elements[k];
                    }
                }
            }
        }
    }
}

} // namespace gpu
