// The kernels of attention_decode.
//
// The keys of a sequence are split among blocks: how many blocks follows from the shapes, which keys each has from the
// sequence's length, that is on the device. Each leaves its sum of values and the largest score and the sum of weights
// that go with it, and a second kernel merges them. The query heads of a key head are in one block, up to a number of
// them, and read the cache once.
#pragma once

#include <cstdint>

#include "attention.cuh"
#include "launch.hpp"
#include "reduce.cuh"
#ifndef __HIP__
#include "tensor_cores.cuh"
#endif

namespace gpu {

inline constexpr int decode_least_keys = 256;                     // of a split
inline constexpr int64_t decode_shared_bytes = int64_t(96) << 10; // the most of a block

template<class T>
struct DecodeArguments {
    int sequences, heads, key_heads, heads_per_key, d, e;
    int pages, tokens; // of the cache, and of a page
    int most_keys;     // of a sequence
    int left;
    float factor, soft_cap;
    HeadRows<const T> query, key, value;
    HeadRows<T> output;
    HeadNumbers<float> lse;
    const int32_t *table, *lengths;
    int64_t table_row, table_step, lengths_step;
    int packs, splits;
    float2 *partial_states; // of a row's splits: the largest score and the sum of weights. Null for one split
    float *partial_outputs;

    __device__ __forceinline__ float score(float dot) const {
        return soft_cap > 0 ? soft_cap * log2_e * tanhf(dot * factor / soft_cap) : dot * factor;
    }
    // The page of a sequence's token; one of the cache, whatever the table says.
    __device__ __forceinline__ int page_of(int sequence, int token) const {
        return min(max(table[sequence * table_row + token / tokens * table_step], 0), pages - 1);
    }
};

// What a block has: some heads of one key head, and some keys.
struct DecodePart {
    int sequence, key_head, first_head, heads, split;
    KeyRange keys;
};

template<class T>
__device__ __forceinline__ DecodePart decode_part(const DecodeArguments<T> &a, int heads_of_pack) {
    const int block = static_cast<int>(blockIdx.x);
    DecodePart part = {};
    part.split = block % a.splits;
    const int pack = block / a.splits % a.packs;
    const int group = block / a.splits / a.packs;
    part.key_head = group % a.key_heads;
    part.sequence = group / a.key_heads;
    part.first_head = part.key_head * a.heads_per_key + pack * heads_of_pack;
    part.heads = min(heads_of_pack, a.heads_per_key - pack * heads_of_pack);
    const int length = min(max(a.lengths[part.sequence * a.lengths_step], 0), a.most_keys);
    const int begin = max(length - 1 - a.left, 0);
    const int share = max((length - begin + a.splits - 1) / a.splits, a.splits == 1 ? 0 : decode_least_keys);
    const int each = (share + 63) / 64 * 64;
    part.keys.begin =
        static_cast<int>(min(begin + static_cast<int64_t>(part.split) * each, static_cast<int64_t>(length)));
    part.keys.end = min(part.keys.begin + each, length);
    return part;
}

// The end of one element of a row: the output, or a part of it. `state` is of the block's keys, `sum` relative to it.
template<class T>
__device__ __forceinline__ void put_decoded(const DecodeArguments<T> &a, const DecodePart &part, int head, int column,
                                            float sum, float2 state) {
    if (a.splits == 1) {
        a.output.row(part.sequence, 0, head)[column] = from_f32<T>(state.y == 0.0f ? 0.0f : sum / state.y);
    } else {
        const int64_t row = (static_cast<int64_t>(part.sequence) * a.heads + head) * a.splits + part.split;
        a.partial_outputs[row * a.e + column] = sum;
    }
}
template<class T>
__device__ __forceinline__ void put_state(const DecodeArguments<T> &a, const DecodePart &part, int head, float2 state) {
    if (a.splits != 1) {
        a.partial_states[(static_cast<int64_t>(part.sequence) * a.heads + head) * a.splits + part.split] = state;
    } else if (a.lse.data != nullptr) {
        a.lse.at(part.sequence, head, 0) = log_sum(state.x, state.y);
    }
}

// A block for each row of the output.
template<class T>
__global__ void __launch_bounds__(64) merge_kernel(GPU_READ_ONLY const DecodeArguments<T> a) {
    wait_for_earlier_kernels();
    const int head = static_cast<int>(blockIdx.x) % a.heads, sequence = static_cast<int>(blockIdx.x) / a.heads;
    const float2 *states = a.partial_states + static_cast<int64_t>(blockIdx.x) * a.splits;
    float largest = -INFINITY, total = 0.0f;
    for (int split = 0; split < a.splits; ++split) {
        largest = fmaxf(largest, states[split].x);
    }
    for (int split = 0; split < a.splits; ++split) {
        total = fmaf(states[split].y, weight_of(states[split].x, largest), total);
    }
    const float *parts = a.partial_outputs + static_cast<int64_t>(blockIdx.x) * a.splits * a.e;
    for (int column = static_cast<int>(threadIdx.x); column < a.e; column += static_cast<int>(blockDim.x)) {
        float sum = 0.0f;
#pragma unroll 4
        for (int split = 0; split < a.splits; ++split) {
            sum = fmaf(parts[split * a.e + column], weight_of(states[split].x, largest), sum);
        }
        a.output.row(sequence, 0, head)[column] = from_f32<T>(total == 0.0f ? 0.0f : sum / total);
    }
    if (threadIdx.x == 0 && a.lse.data != nullptr) {
        a.lse.at(sequence, head, 0) = log_sum(largest, total);
    }
}

// --- plain ---

// 32 keys at a time in shared memory, first these and then their values. Each thread has scores of one key, and sums of
// two columns.
inline constexpr int plain_decode_keys = 32;
inline constexpr int plain_decode_heads = 4;
inline constexpr int plain_decode_pitch = most_dims + 1;

struct PlainDecodeMemory {
    float rows[plain_decode_keys][plain_decode_pitch];
    float query[plain_decode_heads][most_dims];
    float weights[plain_decode_heads][plain_decode_keys];
    float2 states[plain_decode_heads]; // of all keys before
    float rescale[plain_decode_heads];
};

template<class T>
__device__ __forceinline__ void stage_cache(const DecodeArguments<T> &a, const DecodePart &part,
                                            const HeadRows<const T> &cache, int first, int width,
                                            float (&to)[plain_decode_keys][plain_decode_pitch]) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    for (int row = static_cast<int>(threadIdx.x) / 32; row < plain_decode_keys; row += 4) {
        const int token = first + row;
        if (token < part.keys.end) {
            const T *from = cache.row(a.page_of(part.sequence, token), token % a.tokens, part.key_head);
            for (int i = lane; i < width; i += 32) {
                to[row][i] = to_f32(from[i]);
            }
        }
    }
}

template<class T>
__global__ void __launch_bounds__(128) plain_decode_kernel(GPU_READ_ONLY const DecodeArguments<T> a) {
    wait_for_earlier_kernels();
    extern __shared__ __align__(1024) unsigned char shared_bytes[];
    auto &shared = *reinterpret_cast<PlainDecodeMemory *>(shared_bytes);
    const DecodePart part = decode_part(a, plain_decode_heads);
    const int thread = static_cast<int>(threadIdx.x), lane = thread % plain_decode_keys,
              mine = thread / plain_decode_keys;
    for (int i = thread; i < part.heads * a.d; i += 128) {
        shared.query[i / a.d][i % a.d] = to_f32(a.query.row(part.sequence, 0, part.first_head + i / a.d)[i % a.d]);
    }
    float sums[plain_decode_heads][2] = {};
    float2 state = {-INFINITY, 0.0f}; // of head `mine`
    for (int first = part.keys.begin; first < part.keys.end; first += plain_decode_keys) {
        __syncthreads();
        stage_cache(a, part, a.key, first, a.d, shared.rows);
        __syncthreads();
        float z[1] = {-INFINITY};
        if (mine < part.heads && first + lane < part.keys.end) {
            float dot = 0.0f;
            for (int i = 0; i < a.d; ++i) {
                dot = fmaf(shared.query[mine][i], shared.rows[lane][i], dot);
            }
            z[0] = a.score(dot);
        }
        float largest[1] = {z[0]};
        reduce_lanes<Largest>(largest, plain_decode_keys);
        const float next = fmaxf(state.x, largest[0]);
        const float rescale = weight_of(state.x, next);
        float weight[1] = {weight_of(z[0], next)};
        shared.weights[mine][lane] = weight[0];
        shared.rescale[mine] = rescale;
        reduce_lanes<Sum>(weight, plain_decode_keys);
        state = {next, fmaf(state.y, rescale, weight[0])};
        __syncthreads();
        stage_cache(a, part, a.value, first, a.e, shared.rows);
        __syncthreads();
        const int keys = min(plain_decode_keys, part.keys.end - first);
#pragma unroll
        for (int h = 0; h < plain_decode_heads; ++h) {
#pragma unroll
            for (int c = 0; c < 2; ++c) {
                float sum = sums[h][c] * shared.rescale[h];
                for (int j = 0; j < keys; ++j) {
                    sum = fmaf(shared.weights[h][j], shared.rows[j][min(thread + c * 128, most_dims - 1)], sum);
                }
                sums[h][c] = sum;
            }
        }
    }
    shared.states[mine] = state;
    __syncthreads();
    for (int h = 0; h < plain_decode_heads; ++h) {
        for (int c = 0; c < 2; ++c) {
            if (h < part.heads && thread + c * 128 < a.e) {
                put_decoded(a, part, part.first_head + h, thread + c * 128, sums[h][c], shared.states[h]);
            }
        }
    }
    if (thread < part.heads) {
        put_state(a, part, part.first_head + thread, shared.states[thread]);
    }
}

template<class T>
struct PlainDecode {
    static constexpr int heads = plain_decode_heads, threads = 128;
    static constexpr int64_t shared_bytes = sizeof(PlainDecodeMemory);
    static constexpr auto kernel = &plain_decode_kernel<T>;
};

// --- on tensor cores ---

#ifndef __HIP__
// Each warp goes through keys of its own, 16 at a time, and has some such tiles under way.
template<class T, int D>
struct DecodeTiles {
    static constexpr int warps = D == 256 ? 2 : 4;
    static constexpr int stages = D == 64 ? 4 : 3;
    static constexpr int warp_elements = stages * 2 * 16 * D;
    static constexpr int bytes = warps * warp_elements * static_cast<int>(sizeof(T));
};

// The sums of a warp, of head lane / 4 and of the one eight further on.
template<int D>
struct DecodeSums {
    float of[1][D / 8][4] = {};
    float largest[2] = {-INFINITY, -INFINITY}, total[2] = {0.0f, 0.0f};
};

// The A fragments of the block's queries, straight from memory: rows without a head are 0.
template<class T, int D>
__device__ __forceinline__ void load_queries(const DecodeArguments<T> &a, const DecodePart &part,
                                             uint32_t (&query)[D / 16][4]) {
    const int lane = lane_of_warp();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int head = lane / 4 + half * 8;
        const T *row = head < part.heads ? a.query.row(part.sequence, 0, part.first_head + head) : nullptr;
#pragma unroll
        for (int i = 0; i < D / 8; ++i) {
            const int at = i * 8 + lane % 4 * 2;
            uint32_t pair = 0;
            if (row != nullptr && at < a.d) {
                if (a.query.vectors) {
                    pair = *reinterpret_cast<const uint32_t *>(row + at);
                } else {
                    pair = pack<T>(to_f32(row[at]), at + 1 < a.d ? to_f32(row[at + 1]) : 0.0f);
                }
            }
            query[i / 2][i % 2 * 2 + half] = pair;
        }
    }
}

// Starts to copy the keys and values of tokens from `first` on. `page` is that of token first + lane % 16.
template<class T, int D>
__device__ __forceinline__ void stage_tokens(const DecodeArguments<T> &a, const DecodePart &part, int first, int page,
                                             T *keys, T *values) {
    constexpr int chunks = D / 8;
    const int lane = lane_of_warp();
    const int token = first + lane % 16;
    const int place = token % a.tokens;
    const int64_t key = page * a.key.batch + place * a.key.token + part.key_head * a.key.head;
    const int64_t value = page * a.value.batch + place * a.value.token + part.key_head * a.value.head;
#pragma unroll
    for (int i = 0; i < chunks / 2; ++i) {
        const int row = (i * 32 + lane) / chunks, chunk = (i * 32 + lane) % chunks;
        const int64_t key_at = __shfl_sync(0xffffffffu, static_cast<long long>(key), row);
        const int64_t value_at = __shfl_sync(0xffffffffu, static_cast<long long>(value), row);
        const bool exists = first + row < part.keys.end;
        copy_chunk(chunk_of<D>(keys, row, chunk), exists ? a.key.data + key_at : nullptr, chunk * 8, a.d,
                   a.key.vectors);
        copy_chunk(chunk_of<D>(values, row, chunk), exists ? a.value.data + value_at : nullptr, chunk * 8, a.e,
                   a.value.vectors);
    }
}

// Takes in a tile of 16 keys.
template<class T, int D>
__device__ __forceinline__ void decode_tile(const DecodeArguments<T> &a, const uint32_t (&query)[D / 16][4], int keys,
                                            SharedAddress key, SharedAddress value, DecodeSums<D> &sums) {
    float z[1][2][4] = {};
#pragma unroll
    for (int step = 0; step < D / 16; ++step) {
        uint32_t b[4];
        load_blocks(b, key ^ (step * 32));
        multiply_add<T>(z[0][0], query[step], b[0], b[1]);
        multiply_add<T>(z[0][1], query[step], b[2], b[3]);
    }
    const int column = lane_of_warp() % 4 * 2;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        float best[1] = {-INFINITY};
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            float &one = z[0][k / 2][half * 2 + k % 2];
            one = k / 2 * 8 + column + k % 2 < keys ? a.score(one) : -INFINITY;
            best[0] = fmaxf(best[0], one);
        }
        reduce_lanes<Largest>(best, 4);
        const float next = fmaxf(sums.largest[half], best[0]);
        const float rescale = weight_of(sums.largest[half], next);
        float total = 0.0f;
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            float &one = z[0][k / 2][half * 2 + k % 2];
            one = weight_of(one, next);
            total += one;
        }
        sums.total[half] = fmaf(sums.total[half], rescale, total); // of the thread's keys
        sums.largest[half] = next;
#pragma unroll
        for (int c = 0; c < D / 8; ++c) {
            sums.of[0][c][half * 2] *= rescale;
            sums.of[0][c][half * 2 + 1] *= rescale;
        }
    }
    multiply_weights<T, D>(sums.of, z, value);
}

// The sums of all warps become those of the block.
template<class T, int D>
__device__ __forceinline__ void merge_warps(const DecodeArguments<T> &a, const DecodePart &part, DecodeSums<D> &sums,
                                            float *shared) {
    constexpr int warps = DecodeTiles<T, D>::warps;
    const int lane = lane_of_warp(), warp = static_cast<int>(threadIdx.x) / 32;
    float2 *states = reinterpret_cast<float2 *>(shared + warps * 16 * D);
    reduce_lanes<Sum>(sums.total, 4);
    __syncthreads(); // no warp reads its tiles any more
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int row = warp * 16 + lane / 4 + half * 8;
#pragma unroll
        for (int c = 0; c < D / 8; ++c) {
            *reinterpret_cast<float2 *>(shared + row * D + c * 8 + lane % 4 * 2) = {sums.of[0][c][half * 2],
                                                                                    sums.of[0][c][half * 2 + 1]};
        }
        states[row] = {sums.largest[half], sums.total[half]};
    }
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < part.heads * D; i += warps * 32) {
        const int row = i / D, column = i % D;
        float2 state = {-INFINITY, 0.0f};
        float sum = 0.0f;
        for (int w = 0; w < warps; ++w) {
            state.x = fmaxf(state.x, states[w * 16 + row].x);
        }
        for (int w = 0; w < warps; ++w) {
            const float by = weight_of(states[w * 16 + row].x, state.x);
            state.y = fmaf(states[w * 16 + row].y, by, state.y);
            sum = fmaf(shared[(w * 16 + row) * D + column], by, sum);
        }
        if (column < a.e) {
            put_decoded(a, part, part.first_head + row, column, sum, state);
        }
        if (column == 0) {
            put_state(a, part, part.first_head + row, state);
        }
    }
}

template<class T, int D>
__global__ void __launch_bounds__(DecodeTiles<T, D>::warps * 32)
    decode_kernel(GPU_READ_ONLY const DecodeArguments<T> a) {
    wait_for_earlier_kernels();
    using Tiles = DecodeTiles<T, D>;
    extern __shared__ __align__(1024) unsigned char shared_bytes[];
    const DecodePart part = decode_part(a, 16);
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = lane_of_warp();
    T *tiles = reinterpret_cast<T *>(shared_bytes) + warp * Tiles::warp_elements;
    constexpr int step = Tiles::warps * 16;
    const int first = part.keys.begin + warp * 16;
    int page = 0; // of the next tile to copy
    const auto look_up = [&](int at) {
        page = at + lane % 16 < part.keys.end ? a.page_of(part.sequence, at + lane % 16) : 0;
    };
    int next = first;
    const auto stage = [&](int slot) {
        if (next < part.keys.end) {
            stage_tokens<T, D>(a, part, next, page, tiles + slot * 32 * D, tiles + slot * 32 * D + 16 * D);
        }
        end_group_of_copies();
        next += step;
        look_up(next);
    };
    look_up(first);
#pragma unroll
    for (int slot = 0; slot < Tiles::stages - 1; ++slot) {
        stage(slot);
    }
    uint32_t query[D / 16][4];
    load_queries<T, D>(a, part, query);
    DecodeSums<D> sums;
    int slot = 0;
    for (int at = first; at < part.keys.end; at += step) {
        wait_for_copies_but<Tiles::stages - 2>();
        __syncwarp();
        const T *keys = tiles + slot * 32 * D;
        stage(slot == 0 ? Tiles::stages - 1 : slot - 1); // the tile before, which all threads have read
        decode_tile<T, D>(a, query, part.keys.end - at, columns_address<D>(keys, 0), rows_address<D>(keys + 16 * D, 0),
                          sums);
        slot = slot + 1 == Tiles::stages ? 0 : slot + 1;
    }
    wait_for_copies_but<0>();
    merge_warps<T, D>(a, part, sums, reinterpret_cast<float *>(shared_bytes));
}

template<class T, int D>
struct CoreDecode {
    static constexpr int heads = 16, threads = DecodeTiles<T, D>::warps * 32;
    static constexpr int64_t shared_bytes = DecodeTiles<T, D>::bytes;
    static constexpr auto kernel = &decode_kernel<T, D>;
};
#endif

} // namespace gpu
