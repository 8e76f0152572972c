// The kernels of attention_decode, except those on tensor cores (attention_decode_cores.cuh).
//
// The keys of a sequence are split among blocks. The shapes determine the number of blocks; the sequence's
// length, which is on the device, determines the keys of each. Each block writes its sum of values, with
// the largest score and the sum of weights that belong to it, and a second kernel merges them. One block
// has several query heads of a key head, up to a limit, and reads the cache once for all of them.
#pragma once

#include <cstdint>

#include "attention.cuh"
#include "launch.hpp"
#include "reduce.cuh"

namespace gpu {

inline constexpr int decode_least_keys = 256;                     // per split
inline constexpr int decode_tile = 16;                            // keys that are copied together
inline constexpr int64_t decode_shared_bytes = int64_t(96) << 10; // limit per block

template<class T>
struct DecodeArguments {
    int sequences, heads, key_heads, heads_per_key, d, e;
    int pages, tokens; // pages in the cache, tokens in a page
    int most_keys;     // per sequence
    int left;
    float factor, soft_cap;
    HeadRows<const T> query, key, value;
    HeadRows<T> output;
    HeadNumbers<float> lse;
    const int32_t *table, *lengths;
    int64_t table_row, table_step, lengths_step;
    int packs, splits;
    float2 *partial_states; // for each split of a row, the largest score and the sum of weights; null for one split
    float *partial_outputs;

    __device__ __forceinline__ float score(float dot) const {
        return soft_cap > 0 ? soft_cap * log2_e * tanhf(dot * factor / soft_cap) : dot * factor;
    }
    // entry(): the table's entry for a page of a sequence. page_of(): an entry, clamped to the pages of the cache.
    __device__ __forceinline__ int entry(int sequence, unsigned page) const {
        return table[sequence * table_row + static_cast<int64_t>(page) * table_step];
    }
    __device__ __forceinline__ int page_of(int found) const { return min(max(found, 0), pages - 1); }
};

// A block's share of the work: some heads of one key head, and some keys.
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
    const int begin = max(length - 1 - a.left, 0), tile = begin / decode_tile * decode_tile;
    const int share = max((length - tile + a.splits - 1) / a.splits, a.splits == 1 ? 0 : decode_least_keys);
    const int each = (share + 63) / 64 * 64;
    const int64_t first = tile + static_cast<int64_t>(part.split) * each;
    part.keys.begin = static_cast<int>(min(max(first, static_cast<int64_t>(begin)), static_cast<int64_t>(length)));
    part.keys.end = static_cast<int>(min(first + each, static_cast<int64_t>(length)));
    return part;
}

// Finishes one element of a row: of the output, or of a partial one. `state` covers the block's keys, like `sum`.
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

inline constexpr int merge_groups = 8; // groups of 32 threads, or fewer, each with some of the splits

// One block per row of the output.
template<class T>
__global__ void __launch_bounds__(merge_groups * 32) merge_kernel(GPU_READ_ONLY const DecodeArguments<T> a) {
    wait_for_earlier_kernels();
    __shared__ float of_groups[merge_groups][most_dims];
    const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
    const int lane = thread % 32, group = thread / 32;
    const int head = static_cast<int>(blockIdx.x) % a.heads, sequence = static_cast<int>(blockIdx.x) / a.heads;
    const float2 *states = a.partial_states + static_cast<int64_t>(blockIdx.x) * a.splits;
    const float *parts = a.partial_outputs + static_cast<int64_t>(blockIdx.x) * a.splits * a.e;
    float largest[1] = {-INFINITY}, total[1] = {0.0f}, sums[most_dims / 32] = {};
    for (int split = lane; split < a.splits; split += 32) {
        largest[0] = fmaxf(largest[0], states[split].x);
    }
    reduce_lanes<Largest>(largest, 32);
    for (int split = lane; split < a.splits; split += 32) {
        total[0] = fmaf(states[split].y, weight_of(states[split].x, largest[0]), total[0]);
    }
    reduce_lanes<Sum>(total, 32);
#pragma unroll 4
    for (int split = group; split < a.splits; split += threads / 32) {
        const float weight = weight_of(states[split].x, largest[0]);
#pragma unroll
        for (int k = 0; k < most_dims / 32; ++k) {
            if (k * 32 + lane < a.e) {
                sums[k] = fmaf(parts[split * a.e + k * 32 + lane], weight, sums[k]);
            }
        }
    }
#pragma unroll
    for (int k = 0; k < most_dims / 32; ++k) {
        of_groups[group][k * 32 + lane] = sums[k];
    }
    __syncthreads();
    for (int column = thread; column < a.e; column += threads) {
        float sum = 0.0f;
        for (int i = 0; i < threads / 32; ++i) {
            sum += of_groups[i][column];
        }
        a.output.row(sequence, 0, head)[column] = from_f32<T>(total[0] == 0.0f ? 0.0f : sum / total[0]);
    }
    if (thread == 0 && a.lse.data != nullptr) {
        a.lse.at(sequence, head, 0) = log_sum(largest[0], total[0]);
    }
}

// --- plain ---

// 32 keys at a time are in shared memory, followed by their values.
// Each thread has scores of one key, and sums of two columns.
inline constexpr int plain_decode_keys = 32;
inline constexpr int plain_decode_heads = 4;
inline constexpr int plain_decode_pitch = most_dims + 1;

struct PlainDecodeMemory {
    float rows[plain_decode_keys][plain_decode_pitch];
    float query[plain_decode_heads][most_dims];
    float weights[plain_decode_heads][plain_decode_keys];
    float2 states[plain_decode_heads]; // over all keys so far
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
            const int page = a.page_of(a.entry(part.sequence, static_cast<unsigned>(token / a.tokens)));
            const T *from = cache.row(page, token % a.tokens, part.key_head);
            for (int i = lane; i < width; i += 32) {
                to[row][i] = to_f32(from[i]);
            }
        }
    }
}

// Turns a key's score into its weight for one head; the head's sums so far may be relative to another score.
__device__ __forceinline__ void weigh_key(float score, int head, int key, float2 &state, PlainDecodeMemory &shared) {
    float largest[1] = {score};
    reduce_lanes<Largest>(largest, plain_decode_keys);
    const float next = fmaxf(state.x, largest[0]);
    const float rescale = weight_of(state.x, next);
    float weight[1] = {weight_of(score, next)};
    shared.weights[head][key] = weight[0];
    shared.rescale[head] = rescale;
    reduce_lanes<Sum>(weight, plain_decode_keys);
    state = {next, fmaf(state.y, rescale, weight[0])};
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
    float2 state = {-INFINITY, 0.0f}; // for head `mine`
    for (int first = part.keys.begin; first < part.keys.end; first += plain_decode_keys) {
        __syncthreads();
        stage_cache(a, part, a.key, first, a.d, shared.rows);
        __syncthreads();
        float z = -INFINITY;
        if (mine < part.heads && first + lane < part.keys.end) {
            float dot = 0.0f;
            for (int i = 0; i < a.d; ++i) {
                dot = fmaf(shared.query[mine][i], shared.rows[lane][i], dot);
            }
            z = a.score(dot);
        }
        weigh_key(z, mine, lane, state, shared);
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

} // namespace gpu
