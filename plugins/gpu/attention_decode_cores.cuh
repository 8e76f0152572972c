// The kernel of attention_decode on tensor cores, for f16 and bf16.
#pragma once

#include <cstdint>

#include "attention_decode.cuh"
#include "tensor_cores.cuh"

namespace gpu {

// Each warp goes through its own keys, one tile at a time, while the next tiles are being copied. The rows of the two
// products are keys and value columns; the columns of both are up to 8 N heads.
template<class T_, int D_, int N_>
struct DecodeTiles {
    using T = T_;
    static constexpr int D = D_, N = N_;
    static constexpr int warps = D == 256 ? 2 : 4;
    static constexpr int stages = D == 64 ? 4 : 3;
    static constexpr int elements = decode_tile * D; // in the keys of a tile; the values have as many
    static constexpr int bytes = warps * stages * 2 * elements * static_cast<int>(sizeof(T));
};

// The sums of a warp. Each thread has, of every 16 value columns, columns lane / 4 and lane / 4 + 8,
// and of every 8 heads, heads lane % 4 * 2 and the next one.
template<int D, int N>
struct DecodeSums {
    float of[N][D / 16][4] = {};
    float largest[N][2], total[N][2] = {}; // `largest` may be too small by as much as weigh_decoded() allows

    __device__ __forceinline__ DecodeSums() {
#pragma unroll
        for (int n = 0; n < N; ++n) {
            largest[n][0] = largest[n][1] = -INFINITY;
        }
    }
};

// Transposes 8 x 8 elements, of which each thread has two adjacent ones.
__device__ __forceinline__ uint32_t transposed(uint32_t block) {
    uint32_t to = 0;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(to) : "r"(block));
#endif
    return to;
}

// Two elements of a row of `width` elements, with 0 past its end.
template<class T>
__device__ __forceinline__ uint32_t pair_of(const T *row, int at, int width, bool vectors) {
    if (vectors) {
        return at < width ? *reinterpret_cast<const uint32_t *>(row + at) : 0;
    }
    return pack<T>(at < width ? to_f32(row[at]) : 0.0f, at + 1 < width ? to_f32(row[at + 1]) : 0.0f);
}

// Loads the B fragments of the block's queries directly from global memory; columns without a head are 0.
template<class T, int D, int N>
__device__ __forceinline__ void load_queries(const DecodeArguments<T> &a, const DecodePart &part,
                                             uint32_t (&query)[N][D / 16][2]) {
    const int lane = lane_of_warp();
#pragma unroll
    for (int n = 0; n < N; ++n) {
        const int head = n * 8 + lane / 4, width = head < part.heads ? a.d : 0;
        const T *row = a.query.row(part.sequence, 0, part.first_head + head);
#pragma unroll
        for (int i = 0; i < D / 8; ++i) {
            query[n][i / 2][i % 2] = pair_of(row, i * 8 + lane % 4 * 2, width, a.query.vectors);
        }
    }
}

// The place of this lane's token, which is token lane % 16 of a tile. `page` is the unchecked
// table entry, and its first use waits for the read.
struct TokenPlace {
    int page, place;
};
template<class T>
__device__ __forceinline__ TokenPlace place_of(const DecodeArguments<T> &a, const DecodePart &part, int first) {
    const auto token = static_cast<unsigned>(first + lane_of_warp() % decode_tile);
    const auto tokens = static_cast<unsigned>(a.tokens);
    if (token >= static_cast<unsigned>(part.keys.end)) {
        return {0, 0};
    }
    return {a.entry(part.sequence, token / tokens), static_cast<int>(token % tokens)};
}

// Starts to copy the rows of a tile, with zeros for rows that are not `shown`. `in_page`: all rows are in one page.
template<bool in_page, int D, class T>
__device__ __forceinline__ void stage_tile(const HeadRows<const T> &cache, int width, int head, TokenPlace token,
                                           KeyRange shown, T *tile) {
    constexpr int chunks = D / 8;
    const int lane = lane_of_warp(), chunk = lane % chunks;
    const bool has_columns = chunk * 8 < width;
    const int first_page = __shfl_sync(0xffffffffu, token.page, 0),
              first_place = __shfl_sync(0xffffffffu, token.place, 0);
    const T *from = cache.row(first_page, first_place + lane / chunks, head) + chunk * 8;
#pragma unroll
    for (int i = 0; i < chunks / 2; ++i) {
        const int row = i * (32 / chunks) + lane / chunks;
        if constexpr (!in_page) {
            const int page = __shfl_sync(0xffffffffu, token.page, row);
            from = cache.row(page, __shfl_sync(0xffffffffu, token.place, row), head) + chunk * 8;
        }
        copy_async_or_clear(chunk_of<D>(tile, row, chunk), reinterpret_cast<const Vector<T, 8> *>(from),
                            has_columns && row >= shown.begin && row < shown.end);
        from += 32 / chunks * cache.token;
    }
}
// The same for rows that are not aligned.
template<int D, class T>
__device__ __noinline__ void stage_elements(const HeadRows<const T> &cache, int width, int head, TokenPlace token,
                                            KeyRange shown, T *tile) {
    constexpr int chunks = D / 8;
#pragma unroll 1
    for (int i = lane_of_warp(); i < decode_tile * chunks; i += 32) {
        const int row = i / chunks;
        const int page = __shfl_sync(0xffffffffu, token.page, row);
        const T *from = cache.row(page, __shfl_sync(0xffffffffu, token.place, row), head);
        copy_chunk(chunk_of<D>(tile, row, i % chunks), row >= shown.begin && row < shown.end ? from : nullptr,
                   i % chunks * 8, width, false);
    }
}
template<int D, class T>
__device__ __forceinline__ void stage_tiles(const DecodeArguments<T> &a, int head, TokenPlace token, KeyRange shown,
                                            T *keys, T *values) {
    token.page = a.page_of(token.page);
    if (!a.key.vectors || !a.value.vectors) {
        stage_elements<D>(a.key, a.d, head, token, shown, keys);
        stage_elements<D>(a.value, a.e, head, token, shown, values);
    } else if (a.tokens % decode_tile == 0) {
        stage_tile<true, D>(a.key, a.d, head, token, shown, keys);
        stage_tile<true, D>(a.value, a.e, head, token, shown, values);
    } else {
        stage_tile<false, D>(a.key, a.d, head, token, shown, keys);
        stage_tile<false, D>(a.value, a.e, head, token, shown, values);
    }
}

// Turns dot products into scores.
template<class T, int N>
__device__ __forceinline__ void to_scores(float (&z)[N][4], const DecodeArguments<T> &a, KeyRange shown) {
    const bool caps = a.soft_cap > 0;
    if (caps) {
#pragma unroll
        for (int i = 0; i < N * 4; ++i) {
            z[i / 4][i % 4] = a.score(z[i / 4][i % 4]);
        }
    }
    const float factor = caps ? 1.0f : a.factor;
#pragma unroll
    for (int i = 0; i < N * 4; ++i) {
        const int row = lane_of_warp() / 4 + i % 4 / 2 * 8;
        z[i / 4][i % 4] = row >= shown.begin && row < shown.end ? z[i / 4][i % 4] * factor : -INFINITY;
    }
}

// Turns scores into weights. Their base is raised to the largest score only if that is at least 2^8 times the base:
// most tiles leave the sums so far unchanged, and no weight exceeds the range of f16.
template<int D, int N>
__device__ __forceinline__ void weigh_decoded(float (&z)[N][4], DecodeSums<D, N> &sums) {
    bool grows = false;
#pragma unroll
    for (int i = 0; i < N * 4; ++i) {
        grows = grows || z[i / 4][i % 4] > sums.largest[i / 4][i % 2] + 8.0f;
    }
    if (any_of_warp(grows)) {
#pragma unroll
        for (int i = 0; i < N * 2; ++i) {
            const int n = i / 2, k = i % 2;
            float next = fmaxf(sums.largest[n][k], fmaxf(z[n][k], z[n][k + 2]));
            for (int mask = 4; mask < 32; mask *= 2) {
                next = fmaxf(next, shuffle_xor(next, mask));
            }
            const float rescale = weight_of(sums.largest[n][k], next);
            sums.largest[n][k] = next;
            sums.total[n][k] *= rescale;
#pragma unroll
            for (int c = 0; c < D / 16; ++c) {
                sums.of[n][c][k] *= rescale;
                sums.of[n][c][k + 2] *= rescale;
            }
        }
    }
#pragma unroll
    for (int i = 0; i < N * 4; ++i) {
        float &one = z[i / 4][i % 4];
        one = weight_of(one, sums.largest[i / 4][i % 2]);
        sums.total[i / 4][i % 2] += one; // over the thread's keys
    }
}

// Adds a tile, of which the keys in `shown` are seen.
template<class T, int D, int N>
__device__ __forceinline__ void take_tile(const DecodeArguments<T> &a, const uint32_t (&query)[N][D / 16][2],
                                          KeyRange shown, SharedAddress key, SharedAddress value,
                                          DecodeSums<D, N> &sums) {
    float z[N][4] = {}, other[N][4] = {};
#pragma unroll
    for (int step = 0; step < D / 16; ++step) {
        uint32_t rows[4];
        load_blocks(rows, key ^ (step * 32));
#pragma unroll
        for (int n = 0; n < N; ++n) {
            multiply_add<T>(step % 2 == 0 ? z[n] : other[n], rows, query[n][step][0], query[n][step][1]);
        }
    }
#pragma unroll
    for (int i = 0; i < N * 4; ++i) {
        z[i / 4][i % 4] += other[i / 4][i % 4];
    }
    to_scores(z, a, shown);
    weigh_decoded(z, sums);
    uint32_t weights[N][2];
#pragma unroll
    for (int n = 0; n < N; ++n) {
        weights[n][0] = transposed(pack<T>(z[n][0], z[n][1]));
        weights[n][1] = transposed(pack<T>(z[n][2], z[n][3]));
    }
#pragma unroll
    for (int c = 0; c < D / 16; ++c) {
        uint32_t columns[4];
        load_transposed_blocks(columns, value ^ (c * 32));
#pragma unroll
        for (int n = 0; n < N; ++n) {
            multiply_add<T>(sums.of[n][c], columns, weights[n][0], weights[n][1]);
        }
    }
}

// Merges the sums of all warps into those of the block.
template<class Tiles>
__device__ __forceinline__ void merge_warps(const DecodeArguments<typename Tiles::T> &a, const DecodePart &part,
                                            DecodeSums<Tiles::D, Tiles::N> &sums, float *shared) {
    constexpr int D = Tiles::D, heads = 8 * Tiles::N, warps = Tiles::warps, pitch = D + 4;
    const int lane = lane_of_warp(), warp = static_cast<int>(threadIdx.x) / 32;
    float2 *states = reinterpret_cast<float2 *>(shared + warps * heads * pitch);
    __syncthreads(); // no warp reads its tiles any more
#pragma unroll
    for (int i = 0; i < Tiles::N * 2; ++i) {
        const int n = i / 2, k = i % 2, row = warp * heads + n * 8 + lane % 4 * 2 + k;
        for (int mask = 4; mask < 32; mask *= 2) {
            sums.total[n][k] += shuffle_xor(sums.total[n][k], mask);
        }
#pragma unroll
        for (int c = 0; c < D / 16; ++c) {
            shared[row * pitch + c * 16 + lane / 4] = sums.of[n][c][k];
            shared[row * pitch + c * 16 + lane / 4 + 8] = sums.of[n][c][k + 2];
        }
        if (lane < 4) {
            states[row] = {sums.largest[n][k], sums.total[n][k]};
        }
    }
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < part.heads * D; i += warps * 32) {
        const int row = i / D, column = i % D;
        float2 state = {-INFINITY, 0.0f};
        float sum = 0.0f;
        for (int w = 0; w < warps; ++w) {
            state.x = fmaxf(state.x, states[w * heads + row].x);
        }
        for (int w = 0; w < warps; ++w) {
            const float by = weight_of(states[w * heads + row].x, state.x);
            state.y = fmaf(states[w * heads + row].y, by, state.y);
            sum = fmaf(shared[(w * heads + row) * pitch + column], by, sum);
        }
        if (column < a.e) {
            put_decoded(a, part, part.first_head + row, column, sum, state);
        }
        if (column == 0) {
            put_state(a, part, part.first_head + row, state);
        }
    }
}

template<class Tiles>
__global__ void __launch_bounds__(Tiles::warps * 32)
    decode_kernel(GPU_READ_ONLY const DecodeArguments<typename Tiles::T> a) {
    wait_for_earlier_kernels();
    using T = typename Tiles::T;
    constexpr int D = Tiles::D, N = Tiles::N, elements = Tiles::elements, step = Tiles::warps * decode_tile;
    extern __shared__ __align__(1024) unsigned char shared_bytes[];
    const DecodePart part = decode_part(a, 8 * N);
    const int warp = static_cast<int>(threadIdx.x) / 32;
    T *tiles = reinterpret_cast<T *>(shared_bytes) + warp * Tiles::stages * 2 * elements;
    int next = part.keys.begin / decode_tile * decode_tile + warp * decode_tile; // next tile to copy
    TokenPlace token = place_of(a, part, next), later = place_of(a, part, next + step);
    const auto shown = [&](int at) { return KeyRange{part.keys.begin - at, part.keys.end - at}; };
    const auto stage = [&](int slot) {
        if (next < part.keys.end) {
            T *keys = tiles + slot * 2 * elements;
            stage_tiles<D>(a, part.key_head, token, shown(next), keys, keys + elements);
        }
        end_group_of_copies();
        next += step;
        token = later;
        later = place_of(a, part, next + step);
    };
    int at = next;
#pragma unroll 1
    for (int slot = 0; slot < Tiles::stages - 1; ++slot) {
        stage(slot);
    }
    uint32_t query[N][D / 16][2];
    load_queries<T, D, N>(a, part, query);
    DecodeSums<D, N> sums;
    for (int slot = 0; at < part.keys.end; at += step) {
        wait_for_copies_but<Tiles::stages - 2>();
        __syncwarp();
        const T *keys = tiles + slot * 2 * elements;
        stage(slot == 0 ? Tiles::stages - 1 : slot - 1); // the slot of the previous tile, which all threads have read
        take_tile<T, D, N>(a, query, shown(at), rows_address<D>(keys, 0), columns_address<D>(keys + elements, 0), sums);
        slot = slot + 1 == Tiles::stages ? 0 : slot + 1;
    }
    wait_for_copies_but<0>();
    merge_warps<Tiles>(a, part, sums, reinterpret_cast<float *>(shared_bytes));
}

template<class T, int D, int N>
struct CoreDecode {
    using Tiles = DecodeTiles<T, D, N>;
    static constexpr int heads = 8 * N, threads = Tiles::warps * 32;
    static constexpr int64_t shared_bytes = Tiles::bytes;
    static constexpr auto kernel = &decode_kernel<Tiles>;
};

} // namespace gpu
