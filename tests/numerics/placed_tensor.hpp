// A tensor with given strides in its own allocation, where all bytes outside of its elements are guarded.
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
    // Everything is initialized to NaN (-1 for integers): values read beside the elements spoil a kernel's results, and
    // elements that it forgets to write are noticed.
    PlacedTensor(std::uint32_t dtype, std::vector<std::int64_t> shape,
                 const std::optional<std::vector<std::int64_t>> &strides);

    PlacedTensor(const PlacedTensor &) = delete;
    PlacedTensor &operator=(const PlacedTensor &) = delete;

    const DLTensor *descriptor() const { return &descriptor_; }

    // Stores all elements, given in row-major order.
    void put(std::span<const std::byte> elements);
    // The elements in row-major order, as f64.
    std::vector<double> values() const;

    // True if every byte outside of the elements is unchanged.
    bool guards_intact() const;
    // All memory, for comparison.
    std::vector<std::byte> bytes() const { return {memory_.get(), memory_.get() + size_}; }

  private:
    struct Free {
        void operator()(std::byte *memory) const { ::operator delete(memory, alignment); }
    };
    // As a device's allocator provides, so that a contiguous tensor is aligned as in a framework.
    static constexpr std::align_val_t alignment{256};
    static constexpr std::size_t guard = 256;
    static constexpr std::byte fill{0xff};

    // Calls visit(pointer to element) for the elements in row-major order.
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
