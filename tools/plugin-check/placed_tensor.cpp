#include "placed_tensor.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

#include <sys/mman.h>
#include <unistd.h>

#include "op-call/tensor.hpp"
#include "tensor_files.hpp"

namespace opdock::plugin_check {
namespace {

constexpr size_t red_zone = 4096;                     // bytes on each side, on a device
constexpr size_t host_margin = 64;                    // canaries on the side without a guard page
constexpr int64_t distance = (int64_t{1} << 31) + 11; // elements; too many for an int32

// The data that the signal handler may read: written before the memory is used, read on a crash.
struct Guarded {
    std::atomic<const char *> name{nullptr};
    std::atomic<const std::byte *> mapping{nullptr};
    std::atomic<size_t> mapping_size{0};
    std::atomic<const std::byte *> begin{nullptr};
    std::atomic<size_t> size{0};
};
std::array<Guarded, 512> guarded;

void watch(const char *name, const std::byte *mapping, size_t mapping_size, const std::byte *begin, size_t size) {
    for (Guarded &slot : guarded) {
        const std::byte *nobody = nullptr;
        if (slot.mapping.compare_exchange_strong(nobody, mapping)) {
            slot.mapping_size = mapping_size;
            slot.begin = begin;
            slot.size = size;
            slot.name = name;
            return;
        }
    }
}

void forget(const std::byte *mapping) {
    for (Guarded &slot : guarded) {
        if (slot.mapping == mapping) {
            slot.name = nullptr;
            slot.mapping = nullptr;
            return;
        }
    }
}

size_t page_size() {
    static const auto size = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    return size;
}

size_t up_to(size_t value, size_t unit) {
    return (value + unit - 1) / unit * unit;
}

std::vector<int64_t> packed_strides(const std::vector<int64_t> &shape, int64_t last_gap) {
    std::vector<int64_t> strides(shape.size(), 1);
    int64_t extent = 1;
    for (size_t d = shape.size(); d-- > 0;) {
        strides[d] = extent;
        extent *= std::max<int64_t>(shape[d], 1);
        extent += d + 1 == shape.size() ? last_gap : 0;
    }
    return strides;
}

} // namespace

std::vector<int64_t> strides_for(const std::vector<int64_t> &shape, Layout layout) {
    std::vector<int64_t> strides = packed_strides(shape, layout == Layout::padded && shape.size() > 1 ? 3 : 0);
    if (layout == Layout::transposed && shape.size() > 1) {
        std::vector<int64_t> swapped = shape;
        std::swap(swapped[shape.size() - 1], swapped[shape.size() - 2]);
        strides = packed_strides(swapped, 0);
        std::swap(strides[shape.size() - 1], strides[shape.size() - 2]);
    }
    if (layout == Layout::scattered) {
        for (int64_t &stride : strides) {
            stride *= 3;
        }
    }
    if (layout == Layout::distant) {
        for (size_t d = 0; d < shape.size(); ++d) {
            if (shape[d] > 1) {
                strides[d] = std::max(strides[d], distance / (shape[d] - 1) + 1);
                // The dims before it have size 1.
                break;
            }
        }
    }
    return strides;
}

PlacedTensor::PlacedTensor(const Where &where, std::string name, uint32_t dtype, std::vector<int64_t> shape,
                           const Placing &placing)
    : where_(where), name_(std::move(name)), dtype_(dtype), shape_(std::move(shape)),
      strides_(strides_for(shape_, placing.layout)), element_size_(files::element_size(dtype)) {
    int64_t highest = 0;
    for (size_t d = 0; d < shape_.size(); ++d) {
        count_ *= static_cast<size_t>(shape_[d]);
        highest += (shape_[d] - 1) * strides_[d];
    }
    const size_t span = count_ == 0 ? 0 : (static_cast<size_t>(highest) + 1) * element_size_;
    const size_t alignment = std::max(placing.alignment, element_size_);
    const size_t shift = placing.layout == Layout::misaligned ? element_size_ : 0;

    if (is_on_device()) {
        first_ = red_zone + shift;
        size_ = first_ + span + red_zone;
        detail::check(opdock_device_allocate(where_.runtime, where_.device, nullptr, size_, &device_memory_));
        memory_ = static_cast<std::byte *>(device_memory_);
        image_.reset(static_cast<std::byte *>(std::calloc(size_, 1))); // pages that are never written take no memory
        if (image_ == nullptr) {
            opdock_device_free(where_.runtime, where_.device, nullptr, device_memory_);
            throw op_call::NoMemory("not enough memory for " + op_call::type_text(dtype_, shape_));
        }
        return;
    }
    // At the end: canaries, elements, at most alignment - 1 canaries, a page. At the beginning: a page, the shift,
    // elements, canaries.
    const size_t rest = up_to(span, alignment) - span;
    size_ = placing.at_end ? up_to(host_margin, alignment) + span + rest : shift + span + host_margin;
    first_ = placing.at_end ? up_to(host_margin, alignment) : shift;
    mapping_size_ = up_to(size_, page_size()) + 2 * page_size();
    void *mapping =
        mmap(nullptr, mapping_size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping == MAP_FAILED) {
        throw op_call::NoMemory("not enough memory for " + op_call::type_text(dtype_, shape_));
    }
    mapping_ = static_cast<std::byte *>(mapping);
    std::byte *last_page = mapping_ + mapping_size_ - page_size();
    if (mprotect(mapping_, page_size(), PROT_NONE) != 0 || mprotect(last_page, page_size(), PROT_NONE) != 0) {
        munmap(mapping_, mapping_size_);
        throw op_call::NoMemory("the system has no more guard pages");
    }
    memory_ = placing.at_end ? last_page - size_ : mapping_ + page_size();
    watch(name_.c_str(), mapping_, mapping_size_, memory_ + first_, span);
}

PlacedTensor::~PlacedTensor() {
    if (device_memory_ != nullptr) {
        opdock_device_free(where_.runtime, where_.device, nullptr, device_memory_);
    }
    if (mapping_ != nullptr) {
        forget(mapping_);
        munmap(mapping_, mapping_size_);
    }
}

op_call::Operand PlacedTensor::operand() const {
    return {count_ == 0 ? nullptr : memory_ + first_, dtype_, shape_, where_.device, strides_};
}

template<class Visit>
void PlacedTensor::for_each(Visit visit) const {
    // The innermost dims that are contiguous form one run.
    size_t outer = shape_.size();
    int64_t run = 1;
    for (; outer > 0 && strides_[outer - 1] == run; --outer) {
        run *= shape_[outer - 1];
    }
    std::vector<int64_t> index(outer, 0);
    for (size_t done = 0; done < count_; done += static_cast<size_t>(run)) {
        int64_t offset = 0;
        for (size_t d = 0; d < outer; ++d) {
            offset += index[d] * strides_[d];
        }
        visit(first_ + static_cast<size_t>(offset) * element_size_, static_cast<size_t>(run) * element_size_);
        for (size_t d = outer; d-- > 0 && ++index[d] == shape_[d];) {
            index[d] = 0;
        }
    }
}

void PlacedTensor::transfer(bool to_device) const {
    const auto copy = [&](size_t offset, size_t bytes) {
        std::byte *here = image_.get() + offset;
        std::byte *there = memory_ + offset;
        detail::check(to_device ? opdock_device_copy(where_.runtime, there, where_.device, here, cpu, bytes, nullptr)
                                : opdock_device_copy(where_.runtime, here, cpu, there, where_.device, bytes, nullptr));
    };
    if (is_sparse()) {
        for_each(copy);
    } else {
        copy(0, size_);
    }
    detail::check(opdock_device_synchronize(where_.runtime, where_.device, nullptr));
}

std::byte *PlacedTensor::image() const {
    if (!is_on_device()) {
        return memory_;
    }
    transfer(false);
    return image_.get();
}

void PlacedTensor::upload() const {
    if (is_on_device()) {
        transfer(true);
    }
}

void PlacedTensor::fill(std::byte value) {
    std::byte *to = is_on_device() ? image_.get() : memory_;
    if (is_sparse()) {
        for_each([&](size_t offset, size_t bytes) { std::memset(to + offset, static_cast<int>(value), bytes); });
    } else {
        std::memset(to, static_cast<int>(value), size_);
    }
    upload();
}

void PlacedTensor::put(const std::byte *elements, std::byte between) {
    std::byte *to = is_on_device() ? image_.get() : memory_;
    if (!is_sparse()) {
        std::memset(to, static_cast<int>(between), size_);
    }
    for_each([&](size_t offset, size_t bytes) {
        std::memcpy(to + offset, elements, bytes);
        elements += bytes;
    });
    upload();
}

std::vector<std::byte> PlacedTensor::elements() const {
    const std::byte *from = image();
    std::vector<std::byte> elements(count_ * element_size_);
    std::byte *to = elements.data();
    for_each([&](size_t offset, size_t bytes) {
        std::memcpy(to, from + offset, bytes);
        to += bytes;
    });
    return elements;
}

bool PlacedTensor::rest_is(std::byte value) const {
    if (is_sparse()) {
        return true;
    }
    const std::byte *from = image();
    std::vector<std::byte> rest(from, from + size_);
    for_each([&](size_t offset, size_t bytes) { std::memset(rest.data() + offset, static_cast<int>(value), bytes); });
    // Each byte equals the next, and the first is the value.
    return rest.empty() || (rest.front() == value && std::memcmp(rest.data(), rest.data() + 1, rest.size() - 1) == 0);
}

GuardHit find_guard(const void *address) {
    const auto *at = static_cast<const std::byte *>(address);
    for (const Guarded &slot : guarded) {
        const std::byte *mapping = slot.mapping;
        const char *name = slot.name;
        if (mapping == nullptr || name == nullptr || at < mapping || at >= mapping + slot.mapping_size) {
            continue;
        }
        const std::byte *begin = slot.begin;
        const std::byte *end = begin + slot.size;
        return at < begin ? GuardHit{name, true, static_cast<size_t>(begin - at)}
                          : GuardHit{name, false, static_cast<size_t>(at - end)};
    }
    return {nullptr, false, 0};
}

} // namespace opdock::plugin_check
