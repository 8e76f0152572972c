// Shared by all attention kernels: the layout of rows, the keys that a query sees, and the weights of scores.
//
// Scores are in units of log2: z = factor * dot(query, key), so that weights are powers of 2.
#pragma once

#include <cmath>
#include <cstdint>

#include "exp_sum.cuh"
#include "numbers.cuh"

namespace gpu {

inline constexpr int most_dims = 256; // per head
inline constexpr float ln_2 = 0.693147180559945309f;

// Rows of contiguous elements, indexed by [batch, token, head]; in a cache, by [page, place, head].
template<class T>
struct HeadRows {
    T *data;
    int64_t batch, token, head; // strides in elements
    bool vectors;               // each row may be read and written 16 bytes at a time

    __device__ __forceinline__ T *row(int64_t b, int64_t t, int h) const {
        return data + b * batch + t * token + h * head;
    }
};

// Numbers indexed by [batch, head, query] or [batch, head, query, key].
template<class T>
struct HeadNumbers {
    T *data; // null if absent
    int64_t batch, head, query, key;

    __device__ __forceinline__ T &at(int64_t b, int h, int64_t i, int64_t j = 0) const {
        return data[b * batch + h * head + i * query + j * key];
    }
};

// A sequence of one batch: queries [query, query + queries), which see keys [key, key + keys) at most.
struct Sequence {
    int batch, query, queries, key, keys;
};

// Keys [begin, end).
struct KeyRange {
    int begin, end;
};

struct Attention {
    int batches, heads, key_heads, heads_per_key;
    int queries, keys; // tokens per batch
    int d, e;
    float factor;   // factor of a dot product: scale * log2(e); with a soft cap, scale alone
    float soft_cap; // 0 for none
    int left, right;
    const int32_t *query_starts, *key_starts; // null if each batch is one sequence
    int64_t query_starts_step, key_starts_step;
    int starts;

    __host__ __device__ __forceinline__ int sequences() const { return query_starts != nullptr ? starts : 1; }

    // The keys that query i of a sequence sees.
    __device__ __forceinline__ KeyRange seen(const Sequence &one, int i) const {
        const int position = i + one.keys - one.queries;
        const int end = max(min(one.keys, position + right + 1), 0);
        return {min(max(position - left, 0), end), end};
    }
    // The keys that at least one of queries [first, last) sees. Both ends of the range grow with the query.
    __device__ __forceinline__ KeyRange seen(const Sequence &one, int first, int last) const {
        return {seen(one, first).begin, seen(one, last - 1).end};
    }
    // The range of queries that see keys [first, last). Some queries in it may see none of them.
    __device__ __forceinline__ KeyRange seeing(const Sequence &one, int first, int last) const {
        const int offset = one.keys - one.queries;
        return {min(max(first - offset - right, 0), one.queries), min(max(last + left - offset, 0), one.queries)};
    }
    // A score from a dot product, without the bias.
    __device__ __forceinline__ float score(float dot) const {
        return soft_cap > 0 ? soft_cap * log2_e * tanhf(dot * factor / soft_cap) : dot * factor;
    }

    // Packed sequence number i. The last one stands for all tokens behind the others: its queries see no keys.
    __device__ __forceinline__ Sequence packed(int i, bool of_keys) const {
        Sequence one = {0, start(query_starts, query_starts_step, i, queries), 0,
                        start(key_starts, key_starts_step, i, keys), 0};
        const bool is_rest = i + 1 == starts;
        one.queries = is_rest ? (of_keys ? 0 : queries - one.query)
                              : max(start(query_starts, query_starts_step, i + 1, queries) - one.query, 0);
        one.keys = is_rest ? (of_keys ? keys - one.key : 0)
                           : max(start(key_starts, key_starts_step, i + 1, keys) - one.key, 0);
        return one;
    }
    static __device__ __forceinline__ int start(const int32_t *starts, int64_t step, int i, int end) {
        return min(max(starts[i * step], 0), end); // never outside the tensors
    }
};

// Rows of one sequence and one head: `count` queries, or keys, from `first` on.
struct Tile {
    Sequence sequence;
    int head, first, count;
};

// Number of blocks for the tiles of one head.
__host__ __device__ inline int tiles_of(const Attention &a, int tokens, int size) {
    return (tokens + size - 1) / size + (a.query_starts != nullptr ? a.starts : 0);
}

// Returns a block's tile of up to `size` queries, or keys. Its count is 0 or less if there is no tile for the block.
//
// Tiles of packed sequence i begin at number start / size + i, which leaves room for all tiles of the sequence before
// it. Late queries see more keys than early ones, so they begin first.
__device__ inline Tile tile_of(const Attention &a, unsigned block, int size, bool of_keys) {
    const auto tiles = static_cast<unsigned>(tiles_of(a, of_keys ? a.keys : a.queries, size));
    const auto heads = static_cast<unsigned>(of_keys ? a.key_heads : a.heads);
    const unsigned place = block % tiles, of_batch = block / tiles;
    const auto number = static_cast<int>(of_keys ? place : tiles - 1 - place);
    Tile tile = {{static_cast<int>(of_batch / heads), 0, a.queries, 0, a.keys},
                 static_cast<int>(of_batch % heads),
                 number * size,
                 0};
    if (a.query_starts == nullptr) {
        tile.count = min(size, (of_keys ? a.keys : a.queries) - tile.first);
        return tile;
    }
    const int32_t *starts = of_keys ? a.key_starts : a.query_starts;
    const int64_t step = of_keys ? a.key_starts_step : a.query_starts_step;
    const auto first_tile = [&](int i) {
        return Attention::start(starts, step, i, of_keys ? a.keys : a.queries) / size + i;
    };
    int low = 0, high = a.starts - 1; // the last sequence whose tiles begin here or before
    while (low < high) {
        const int middle = (low + high + 1) / 2;
        if (first_tile(middle) <= number) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    tile.sequence = a.packed(low, of_keys);
    tile.first = (number - first_tile(low)) * size;
    tile.count = min(size, (of_keys ? tile.sequence.keys : tile.sequence.queries) - tile.first);
    return tile;
}

// The weight of a score relative to the largest score, which is minus infinity if there is none yet.
__device__ __forceinline__ float weight_of(float z, float largest) {
    return exp2_of(z - (largest == -INFINITY ? 0.0f : largest));
}

// The natural logarithm of a sum of powers of 2 relative to the largest score.
__device__ __forceinline__ float log_sum(float largest, float sum) {
    return sum == 0.0f ? -INFINITY : (largest + log2f(sum)) * ln_2;
}

} // namespace gpu
