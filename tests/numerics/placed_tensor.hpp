// A tensor at given strides in memory of its own, where every byte that is no element is guarded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <vector>

#include <dlpack/dlpack.h>

namespace numerics {

class PlacedTensor {
  public:
    // Everything starts as NaN (-1 for integers): what a kernel reads beside its elements spoils its results, and what
    // it forgets to write is found.
    PlacedTensor(std::uint32_t dtype, std::vector<std::int64_t> shape,
                 const std::optional<std::vector<std::int64_t>> &strides);

    PlacedTensor(const PlacedTensor &) = delete;
    PlacedTensor &operator=(const PlacedTensor &) = delete;

    const DLTensor *descriptor() const { return &descriptor_; }

    // Row-major elements, as many as there are.
    void put(std::span<const std::byte> elements);
    // Row-major, as f64.
    std::vector<double> values() const;

    // Whether every byte that belongs to no element is as it was at first.
    bool guards_intact() const;
    // All memory, to be compared.
    std::vector<std::byte> bytes() const { return {memory_.get(), memory_.get() + size_}; }

  private:
    struct Free {
        void operator()(std::byte *memory) const { ::operator delete(memory, alignment); }
    };
    // What an allocator of a device gives, so that a contiguous tensor is as aligned as one of a framework.
    static constexpr std::align_val_t alignment{256};
    static constexpr std::size_t guard = 256;
    static constexpr std::byte fill{0xff};

    // Calls visit(pointer to element) in row-major order.
    template<class Visit>
    void for_each(Visit visit) const;

    std::uint32_t dtype_;
    std::vector<std::int64_t> shape_;
    std::vector<std::int64_t> strides_;
    std::size_t element_size_;
    std::size_t count_ = 1;
    std::size_t size_;
    std::unique_ptr<std::byte, Free> memory_;
    std::byte *first_ = nullptr; // the element at index 0
    DLTensor descriptor_{};
};

} // namespace numerics
