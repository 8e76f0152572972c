// A tensor in which every byte that is not an element is watched: in host memory it begins or ends at an inaccessible
// page, on a device it lies between red zones.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "cases.hpp"
#include "op-call/call.hpp"

namespace opdock::plugin_check {

struct Where {
    opdock_host *runtime;
    DLDevice device;
};

struct Placing {
    bool at_end = true; // against the page after it; false: against the page before it
    Layout layout = Layout::contiguous;
    size_t alignment = 0; // of the first element, in bytes; 0: the dtype's size
};

// In elements. Tensors of fewer than two dims have no rows to separate.
std::vector<int64_t> strides_for(const std::vector<int64_t> &shape, Layout layout);

class PlacedTensor {
  public:
    // `name` identifies the tensor in messages. Throws op_call::NoMemory and opdock::Error.
    PlacedTensor(const Where &where, std::string name, uint32_t dtype, std::vector<int64_t> shape,
                 const Placing &placing);
    ~PlacedTensor();
    PlacedTensor(const PlacedTensor &) = delete;
    PlacedTensor &operator=(const PlacedTensor &) = delete;

    op_call::Operand operand() const;
    const std::string &name() const { return name_; }
    uint32_t dtype() const { return dtype_; }
    const std::vector<int64_t> &shape() const { return shape_; }
    size_t count() const { return count_; }

    // Sets every byte, elements and others.
    void fill(std::byte value);
    // Writes all elements, given in row-major order; the bytes between them become `between`.
    void put(const std::byte *elements, std::byte between);
    // Returns the elements in row-major order.
    std::vector<std::byte> elements() const;
    // True if every byte that is not an element still is what fill or put left.
    bool rest_is(std::byte value) const;

  private:
    bool is_on_device() const { return where_.device.device_type != kDLCPU; }
    // True if it is too large to look at every byte between its elements.
    bool is_sparse() const { return size_ > (size_t{1} << 30); }
    // Copies between a device's memory and its image: all bytes, or only the elements of a sparse tensor.
    void transfer(bool to_device) const;
    // The bytes in host memory; for a tensor on a device, after a transfer.
    std::byte *image() const;
    void upload() const;
    template<class Visit>
    void for_each(Visit visit) const; // visit(offset of an element in bytes), in row-major order

    Where where_;
    std::string name_;
    uint32_t dtype_;
    std::vector<int64_t> shape_;
    std::vector<int64_t> strides_;
    size_t element_size_;
    size_t count_ = 1;
    size_t size_ = 0;             // of the watched memory, in bytes
    size_t first_ = 0;            // offset of the element at index 0
    std::byte *memory_ = nullptr; // `size_` bytes, on the device or in the host
    std::byte *mapping_ = nullptr;
    size_t mapping_size_ = 0;
    void *device_memory_ = nullptr;
    struct Free {
        void operator()(std::byte *memory) const { std::free(memory); }
    };
    std::unique_ptr<std::byte[], Free> image_; // of a device's memory
};

// The tensor whose guard contains an address; for a signal handler. `name` is null if there is none.
struct GuardHit {
    const char *name;
    bool is_before;  // it is before the first element
    size_t distance; // in bytes, from the first element or past the last byte
};
GuardHit find_guard(const void *address);

} // namespace opdock::plugin_check
