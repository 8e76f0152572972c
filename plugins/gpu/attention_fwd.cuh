// The kernels of attention_fwd. A block has some queries of one head and goes through the keys that they see, tile by
// tile, as in FlashAttention: sums so far are rescaled when a query's largest score grows.
#pragma once

#include <cstdint>
#include <type_traits>

#include "attention.cuh"
#include "attention_plain.cuh"
#include "launch.hpp"
#ifndef __HIP__
#include "attention_cores.cuh"
#endif

namespace gpu {

template<class T>
struct ForwardArguments {
    Attention attention;
    HeadRows<const T> query, key, value;
    HeadRows<T> output;
    HeadNumbers<const T> bias;
    HeadNumbers<float> lse;
};

// --- plain: in f32, for any device ---

// The sums of a thread's queries: G groups of 64 value columns.
template<int G>
struct PlainForwardSums {
    float of[G][4][4] = {}, total[4] = {};
    float largest[4] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
};

// Turns dot products with the keys from `first` on into weights, and rescales the sums.
template<class T, int G>
__device__ __forceinline__ void plain_weigh(const ForwardArguments<T> &all, const Tile &tile, int first,
                                            float (&z)[4][4], PlainForwardSums<G> &sums, PlainMemory &shared) {
    const Attention &a = all.attention;
    const Sequence &one = tile.sequence;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const int row = tile.first + plain_row() + i;
        const KeyRange seen = row < one.queries ? a.seen(one, row) : KeyRange{0, 0};
        float best[1] = {-INFINITY};
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            const int key = first + plain_column() + k;
            const bool sees = key >= seen.begin && key < seen.end;
            z[i][k] = sees ? a.score(z[i][k]) + bias_of(all.bias, one, tile.head, row, key) : -INFINITY;
            best[0] = fmaxf(best[0], z[i][k]);
        }
        reduce_lanes<Largest>(best, 16);
        const float next = fmaxf(sums.largest[i], best[0]);
        const float rescale = weight_of(sums.largest[i], next);
        float added = 0.0f;
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            const float weight = weight_of(z[i][k], next);
            added += weight;
            shared.weights[plain_column() + k][plain_row() + i] = weight;
        }
        sums.total[i] = fmaf(sums.total[i], rescale, added);
        sums.largest[i] = next;
#pragma unroll
        for (int g = 0; g < G; ++g) {
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                sums.of[g][i][k] *= rescale;
            }
        }
    }
}

template<class T, int G>
__global__ void __launch_bounds__(plain_threads) plain_forward_kernel(GPU_READ_ONLY const ForwardArguments<T> all) {
    wait_for_earlier_kernels();
    PlainMemory &shared = plain_memory();
    const Attention &a = all.attention;
    const Tile tile = tile_of(a, blockIdx.x, plain_rows, false);
    if (tile.count <= 0) {
        return;
    }
    const Sequence &one = tile.sequence;
    const int group = tile.head / a.heads_per_key;
    const auto query = plain_queries(all.query, tile, a.d);
    const KeyRange keys = a.seen(one, tile.first, tile.first + tile.count);
    PlainForwardSums<G> sums;
    for (int first = keys.begin; first < keys.end; first += plain_rows) {
        const int n = min(plain_rows, keys.end - first);
        float z[4][4] = {};
        plain_dots(z, query, plain_rows_of(all.key, one.batch, one.key + first, group, n, a.d), shared);
        plain_weigh(all, tile, first, z, sums, shared);
        plain_weighted(sums.of, plain_rows_of(all.value, one.batch, one.key + first, group, n, a.e), shared);
    }
    reduce_lanes<Sum>(sums.total, 16);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        if (plain_row() + i >= tile.count) {
            break;
        }
        const int row = one.query + tile.first + plain_row() + i;
        if (plain_column() == 0 && all.lse.data != nullptr) {
            all.lse.at(one.batch, tile.head, row) = log_sum(sums.largest[i], sums.total[i]);
        }
        const float by = sums.total[i] == 0.0f ? 0.0f : 1.0f / sums.total[i];
        put_plain_row<G>(all.output, one.batch, row, tile.head, a.e, sums.of, i, by);
    }
}

// --- on tensor cores ---

#ifndef __HIP__
template<class T, int D>
struct ForwardTiles {
    static constexpr int blocks = D == 256 ? 1 : 2; // of 16 queries, per warp
    static constexpr int rows = core_warps * 16 * blocks;
    static constexpr int keys = 64;
    static constexpr int bytes = (rows + 2 * keys) * D * static_cast<int>(sizeof(T));
};

// The sums of a warp's queries: a thread has rows lane / 4 and lane / 4 + 8 of each block.
template<int M, int D>
struct ForwardSums {
    float of[M][D / 8][4] = {};
    float largest[M][2], total[M][2] = {}; // `total` covers only the thread's keys

    __device__ __forceinline__ ForwardSums() {
#pragma unroll
        for (int m = 0; m < M; ++m) {
            largest[m][0] = largest[m][1] = -INFINITY;
        }
    }
};

// Turns scores into weights, and rescales the sums. Scores still have to be multiplied by `factor`, which is >= 0.
template<int M, int N, int D>
__device__ __forceinline__ void weigh(float (&z)[M][N][4], float factor, ForwardSums<M, D> &sums) {
    float rescale[M][2], best[M][2];
    bool is_far = false;
#pragma unroll
    for (int m = 0; m < M; ++m) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float largest[1] = {sums.largest[m][half]};
#pragma unroll
            for (int k = 0; k < 2 * N; ++k) {
                largest[0] = fmaxf(largest[0], z[m][k / 2][half * 2 + k % 2]);
            }
            reduce_lanes<Largest>(largest, 4);
            best[m][half] = largest[0] == -INFINITY ? 0.0f : largest[0];
            rescale[m][half] = exp2_of((sums.largest[m][half] - best[m][half]) * factor);
            sums.largest[m][half] = largest[0];
            is_far = is_far || !(fabsf(best[m][half] * factor) <= 1024.0f);
        }
    }
    // A fused multiply-subtract is exact enough if the largest score is small.
    const bool subtracts = any_of_warp(is_far);
#pragma unroll
    for (int m = 0; m < M; ++m) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const float before = subtracts ? best[m][half] : 0.0f;
            const float offset = subtracts ? 0.0f : best[m][half] * factor;
            float added = 0.0f;
#pragma unroll
            for (int k = 0; k < 2 * N; ++k) {
                float &one = z[m][k / 2][half * 2 + k % 2];
                one = exp2_of(fmaf(subtracts ? one - before : one, factor, -offset));
                added += one;
            }
            sums.total[m][half] = fmaf(sums.total[m][half], rescale[m][half], added);
#pragma unroll
            for (int c = 0; c < D / 8; ++c) {
                sums.of[m][c][half * 2] *= rescale[m][half];
                sums.of[m][c][half * 2 + 1] *= rescale[m][half];
            }
        }
    }
}

// Writes a warp's rows, of which `count` exist, through the warp's part of shared memory.
template<class T, int M, int D>
__device__ __forceinline__ void put_outputs(const ForwardArguments<T> &all, const Tile &tile, int first, int count,
                                            ForwardSums<M, D> &sums, T *shared) {
    const Sequence &one = tile.sequence;
    const int lane = lane_of_warp();
    float by[M][2];
#pragma unroll
    for (int m = 0; m < M; ++m) {
        reduce_lanes<Sum>(sums.total[m], 4);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const float total = sums.total[m][half];
            const int row = m * 16 + half * 8 + lane / 4;
            by[m][half] = total == 0.0f ? 0.0f : 1.0f / total;
            if (lane % 4 == 0 && row < count && all.lse.data != nullptr) {
                const float largest = has_plain_scores(all.attention, all.bias.data != nullptr)
                                          ? sums.largest[m][half] * all.attention.factor
                                          : sums.largest[m][half];
                all.lse.at(one.batch, tile.head, one.query + first + row) = log_sum(largest, total);
            }
        }
    }
    put_core_rows<D>(all.output, one.batch, one.query + first, tile.head, count, all.attention.e, sums.of, by, shared);
}

// Turns dot products with the keys from `first` on into weights, and rescales the sums.
template<class T, int M, int N, int D>
__device__ __forceinline__ void weigh_tile(const ForwardArguments<T> &all, const Tile &tile,
                                           const CoreRows<false> &rows, int first, bool is_plain, float (&z)[M][N][4],
                                           ForwardSums<M, D> &sums) {
    const Attention &a = all.attention;
    if (!is_plain) {
        to_scores(z, a, all.bias, tile.sequence, tile.head, rows.first, first);
    }
    if (!rows.go_with_all(first, 8 * N)) {
        rows.hide(z, -INFINITY, a, tile.sequence, first);
    }
    weigh(z, is_plain ? a.factor : 1.0f, sums);
}

template<class T, int D>
__global__ void __launch_bounds__(core_threads) forward_kernel(GPU_READ_ONLY const ForwardArguments<T> all) {
    wait_for_earlier_kernels();
    using Tiles = ForwardTiles<T, D>;
    constexpr int M = Tiles::blocks;
    extern __shared__ __align__(1024) unsigned char shared_bytes[];
    T *queries = reinterpret_cast<T *>(shared_bytes);
    T *keys = queries + Tiles::rows * D, *values = keys + Tiles::keys * D;
    const Attention &a = all.attention;
    const Tile tile = tile_of(a, blockIdx.x, Tiles::rows, false);
    if (tile.count <= 0) {
        return;
    }
    const CoreBlock<false, 16 * M> block(a, tile);
    const KeyRange range = block.others;
    stage_rows<D, Tiles::rows>(block.own(all.query, a.d), queries);
    if (range.begin < range.end) {
        stage_rows<D, Tiles::keys>(block.other(all.key, block.group, range.begin, a.d), keys);
    }
    end_group_of_copies();
    const SharedAddress left = rows_address<D>(queries, block.warp_row), right = columns_address<D>(keys, 0);
    const bool has_bias = all.bias.data != nullptr, is_plain = has_plain_scores(a, has_bias);
    ForwardSums<M, D> sums;
    for (int first = range.begin; first < range.end; first += Tiles::keys) {
        const CoreSource<T> value = block.other(all.value, block.group, first, a.e);
        wait_for_copies_but<0>();
        __syncthreads(); // the keys have arrived, and no thread still reads the previous values
        stage_rows<D, Tiles::keys>(value, values);
        end_group_of_copies();
        const bool takes_part = block.rows.go_with_any(first, Tiles::keys);
        float z[M][Tiles::keys / 8][4] = {};
        if (takes_part) {
            multiply_rows<T, D>(z, left, right);
        }
        wait_for_copies_but<0>();
        __syncthreads(); // the values have arrived, and no thread reads the keys any more
        if (first + Tiles::keys < range.end) {
            stage_rows<D, Tiles::keys>(block.other(all.key, block.group, first + Tiles::keys, a.d), keys);
        }
        end_group_of_copies();
        if (takes_part) {
            weigh_tile(all, tile, block.rows, first, is_plain, z, sums);
        }
        const bool may_hide = has_bias || !block.all_rows.go_with_all(first, Tiles::keys);
        multiply_seen<D, Tiles::keys>(sums.of, z, rows_address<D>(values, 0), takes_part, may_hide, value, values);
    }
    wait_for_copies_but<0>();
    __syncthreads();
    put_outputs<T>(all, tile, tile.first + block.warp_row, tile.count - block.warp_row, sums,
                   queries + block.warp_row * D);
}
#endif

// Launches for heads of up to D elements.
template<class T, int D>
struct PlainForward {
    static constexpr int threads = plain_threads, rows = plain_rows, bytes = sizeof(PlainMemory);
    static constexpr auto kernel = &plain_forward_kernel<T, D / 64>;
};
#ifdef __HIP__
template<class T, int D>
using Forward = PlainForward<T, D>;
#else
template<class T, int D>
struct CoreForward {
    static constexpr int threads = core_threads, rows = ForwardTiles<T, D>::rows, bytes = ForwardTiles<T, D>::bytes;
    static constexpr auto kernel = &forward_kernel<T, D>;
};
template<class T, int D>
using Forward = std::conditional_t<sizeof(T) == 2, CoreForward<T, D>, PlainForward<T, D>>;
#endif

} // namespace gpu
