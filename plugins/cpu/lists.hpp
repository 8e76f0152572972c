// Lists of one-dimensional tensors, cut into chunks of elements that any thread may process.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "opdock/plugin.hpp"
#include "rows.hpp"
#include "schedule.hpp"

namespace cpu {

// Elements [begin, end) of one tensor of each list.
struct Chunk {
    uint32_t tensor;
    int64_t begin, end;
};

class Chunks {
  public:
    // 64 Ki elements: one large tensor keeps all threads busy, and a separate sum per chunk costs little.
    static constexpr int64_t size = int64_t(1) << 16;

    explicit Chunks(opdock::Range<const DLTensor *> tensors) : tensors_(tensors) {
        first_.reserve(tensors.size() + 1);
        first_.push_back(0);
        for (const DLTensor *tensor : tensors)
            first_.push_back(first_.back() + (tensor->shape[0] + size - 1) / size);
    }

    int64_t count() const { return first_.back(); }
    // Average number of elements per chunk.
    int64_t average() const {
        int64_t elements = 0;
        for (const DLTensor *tensor : tensors_)
            elements += tensor->shape[0];
        return count() > 0 ? elements / count() : 0;
    }
    Chunk operator[](int64_t i) const {
        const auto after = std::upper_bound(first_.begin(), first_.end(), i);
        const auto tensor = static_cast<uint32_t>(after - first_.begin() - 1);
        const int64_t begin = (i - first_[tensor]) * size;
        return {tensor, begin, std::min(begin + size, tensors_[tensor]->shape[0])};
    }

  private:
    opdock::Range<const DLTensor *> tensors_;
    std::vector<int64_t> first_; // index of each tensor's first chunk, then the number of chunks
};

// The elements of tensor `item` of list `list`, from `begin` on.
template<class T>
T *elements(const opdock::Call &call, uint32_t list, const Chunk &chunk) {
    return static_cast<T *>(call.call().data[call.c().tensor_offsets[list] + chunk.tensor]) + chunk.begin;
}

// Returns UNSUPPORTED with the reason if a tensor of one of the first inputs, lists with these names, has gaps.
opdock::Status check_lists(const opdock::Problem &problem, std::initializer_list<const char *> names);

// Calls work(index, chunk) for all chunks; `bytes` is the size of one element, summed over all lists.
template<class Work>
void for_each_chunk(const Chunks &chunks, int64_t bytes, const Knobs &knobs, const Work &work) {
    in_chunks(chunks.count(), chunks.average() * bytes, knobs, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
            work(i, chunks[i]);
    });
}

} // namespace cpu
