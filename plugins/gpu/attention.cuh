// Shared by all attention kernels: where rows lie, which keys a query sees, and how scores become weights.
//
// Scores are in units of log2: z = factor * dot(query, key), so that weights are powers of 2.
#pragma once

#include <cmath>
#include <cstdint>

#include "exp_sum.cuh"
#include "numbers.cuh"

namespace gpu {

inline constexpr int most_dims = 256; // of a head
inline constexpr float ln_2 = 0.693147180559945309f;

// Rows [batch, token, head] of elements that lie beside each other; of a cache, [page, place, head].
template<class T>
struct HeadRows {
    T *data;
    int64_t batch, token, head; // elements from one to the next
    bool vectors;               // each row may be read and written 16 bytes at a time

    __device__ __forceinline__ T *row(int64_t b, int64_t t, int h) const {
        return data + b * batch + t * token + h * head;
    }
};

// Numbers of [batch, head, query] or [batch, head, query, key].
template<class T>
struct HeadNumbers {
    T *data; // null for none
    int64_t batch, head, query, key;

    __device__ __forceinline__ T &at(int64_t b, int h, int64_t i, int64_t j = 0) const {
        return data[b * batch + h * head + i * query + j * key];
    }
};

// Queries [query, query + queries) and keys [key, key + keys) of one batch that belong together.
struct Sequence {
    int batch, query, queries, key, keys;
};

// Keys [begin, end).
struct KeyRange {
    int begin, end;
};

struct Attention {
    int batches, heads, key_heads, heads_per_key;
    int queries, keys; // tokens of a batch
    int d, e;
    float factor;   // of a dot product: scale * log2(e); with a soft cap scale alone
    float soft_cap; // 0 for none
    int left, right;
    const int32_t *query_starts, *key_starts; // null where each batch is a sequence
    int64_t query_starts_step, key_starts_step;
    int starts;

    __host__ __device__ __forceinline__ int sequences() const { return query_starts != nullptr ? starts : 1; }

    // The keys that query i of a sequence sees.
    __device__ __forceinline__ KeyRange seen(const Sequence &one, int i) const {
        const int position = i + one.keys - one.queries;
        const int end = max(min(one.keys, position + right + 1), 0);
        return {min(max(position - left, 0), end), end};
    }
    // The keys that any of queries [first, last) sees. Ranges move on with the queries.
    __device__ __forceinline__ KeyRange seen(const Sequence &one, int first, int last) const {
        return {seen(one, first).begin, seen(one, last - 1).end};
    }
    // The queries that see any of keys [first, last); there may be some among them that see none.
    __device__ __forceinline__ KeyRange seeing(const Sequence &one, int first, int last) const {
        const int offset = one.keys - one.queries;
        return {min(max(first - offset - right, 0), one.queries), min(max(last + left - offset, 0), one.queries)};
    }
    // A score from a dot product, without the bias.
    __device__ __forceinline__ float score(float dot) const {
        return soft_cap > 0 ? soft_cap * log2_e * tanhf(dot * factor / soft_cap) : dot * factor;
    }

    // The sequence number i of the packed ones. The last one is what stands behind all others: its queries see no keys.
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
        return min(max(starts[i * step], 0), end); // never outside of the tensors
    }
};

// Some rows of one sequence and one head: `count` queries from `first` on, or keys.
struct Tile {
    Sequence sequence;
    int head, first, count;
};

// Blocks for the tiles of one head.
__host__ __device__ inline int tiles_of(const Attention &a, int tokens, int size) {
    return (tokens + size - 1) / size + (a.query_starts != nullptr ? a.starts : 0);
}

// The tile of up to `size` queries, or keys, of a block. Its count is not above 0 where there is none for it.
//
// Tiles of packed sequence i begin at number start / size + i, which leaves room for all of the one before. Late
// queries see more keys than early ones, and begin first.
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

// The weight of a score relative to the largest one, which is minus infinity where there is none yet.
__device__ __forceinline__ float weight_of(float z, float largest) {
    return exp2_of(z - (largest == -INFINITY ? 0.0f : largest));
}

// The natural log of a sum of powers of 2 relative to the largest one.
__device__ __forceinline__ float log_sum(float largest, float sum) {
    return sum == 0.0f ? -INFINITY : (largest + log2f(sum)) * ln_2;
}

} // namespace gpu
