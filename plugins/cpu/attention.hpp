// The arguments of the attention ops, and the distribution of their work over threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <new>
#include <vector>

#include "hwy/aligned_allocator.h"
#include "opdock/plugin.hpp"
#include "schedule.hpp"

namespace cpu {

using opdock::TensorView;

// Number of queries and keys processed at a time. A piece of scores, of keys and of values then stays in L2.
inline constexpr int64_t most_rows = 64;
inline constexpr int64_t most_keys = 256;

// Queries [query, query + queries) and keys [key, key + keys) of one batch that belong to one sequence.
struct Sequence {
    int64_t batch, query, queries, key, keys;
};

// Rows of one sequence and one head: queries [first, last), counted from the sequence's first query, or keys likewise.
struct Piece {
    const Sequence *sequence;
    int64_t first, last;
};

struct Attention {
    const opdock::Call *call;
    uint32_t first; // index of the query among the inputs; key and value follow
    float scale, soft_cap;
    bool causal;
    int64_t left, right;
    int64_t heads, key_heads, d, e;
    std::vector<Sequence> sequences;

    int64_t heads_per_key() const { return key_heads == 0 ? 1 : heads / key_heads; }
    // The keys that query i of a sequence sees: [begin, end).
    int64_t end(int64_t i, int64_t queries, int64_t keys) const {
        const int64_t position = i + keys - queries;
        int64_t end = causal ? std::min(keys, position + 1) : keys;
        // Adding a window larger than the sequence could overflow.
        if (right >= 0)
            end = std::min(end, position + std::min(right, queries + keys) + 1);
        return std::max<int64_t>(end, 0);
    }
    int64_t begin(int64_t i, int64_t queries, int64_t keys) const {
        const int64_t begin = left >= 0 ? std::max<int64_t>(i + keys - queries - std::min(left, queries + keys), 0) : 0;
        return std::min(begin, end(i, queries, keys));
    }
};

template<class T>
T *row_at(const TensorView<T> &tensor, int64_t i, int64_t j, int64_t k) {
    return tensor.data() == nullptr
               ? nullptr
               : tensor.data() + i * tensor.stride(0) + j * tensor.stride(1) + k * tensor.stride(2);
}

// Scratch memory of one task.
class Floats {
  public:
    explicit Floats(int64_t count)
        : memory_(hwy::AllocateAligned<float>(static_cast<size_t>(std::max<int64_t>(count, 1)))) {
        if (!memory_)
            throw std::bad_alloc();
    }
    float *data() const { return memory_.get(); }

  private:
    hwy::AlignedFreeUniquePtr<float[]> memory_;
};

// Reads the shapes of query, key and value (inputs `first` to `first` + 2) and the scale (attribute 0).
Attention attention_of(const opdock::Call &call, uint32_t first);
// The same, with all attributes of the ops over whole sequences.
Attention attention_of_sequences(const opdock::Call &call, uint32_t first);

// Finds the sequences: each batch is one, or inputs `starts` and `starts` + 1 give their starts.
opdock::Status find_sequences(const opdock::Call &call, uint32_t starts, Attention &a);

template<uint32_t starts>
opdock::Status check_sequences(const opdock::Problem &problem) {
    if (problem.has_input(starts) != problem.has_input(starts + 1))
        return opdock::invalid_argument("query_starts and key_starts: give both or neither");
    return {};
}

template<class T>
void clear(const TensorView<T> &tensor, int64_t batch, int64_t row, T value) {
    if (!tensor)
        return;
    for (int64_t h = 0; h < tensor.size(2); ++h)
        for (int64_t p = 0; p < tensor.size(3); ++p)
            tensor(batch, row, h, p) = value;
}

// Splits the queries, or the keys, of each sequence into pieces of at most `most`.
std::vector<Piece> pieces_of(const Attention &a, int64_t Sequence::*count, int64_t most);

// Calls work(piece, head) for each pair.
template<class Work>
void for_each_piece(const opdock::Call &call, const std::vector<Piece> &pieces, int64_t heads, int64_t bytes,
                    Work work) {
    const auto count = static_cast<int64_t>(pieces.size());
    in_chunks(count * heads, bytes, Knobs::of(call), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
            work(pieces[static_cast<size_t>(i % count)], i / count);
    });
}

// The cost of one piece, in bytes of data.
int64_t worth_of(const Attention &a, int64_t rows, int64_t others);
// The largest number of queries, or keys, of a sequence.
int64_t longest_of(const Attention &a, int64_t Sequence::*count);

} // namespace cpu
