#include "signature/overlap.hpp"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "signature/dtype.hpp"
#include "signature/self_overlap.hpp"

namespace opdock::core {

namespace {

uint64_t magnitude(int64_t value) {
    return value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
}

Axes axes_of(const DLTensor &tensor) {
    Axes axes;
    uint64_t contiguous = 1;
    for (int32_t axis = tensor.ndim - 1; axis >= 0; --axis) {
        const auto size = static_cast<uint64_t>(tensor.shape[axis]);
        if (size != 1) {
            axes.all[axes.count++] = {size, tensor.strides == nullptr ? contiguous : magnitude(tensor.strides[axis])};
        }
        contiguous *= size;
    }
    return axes;
}

void check_self_overlap(const Signature &signature, ArgumentPlace place, const DLTensor &tensor) {
    const SelfOverlap found = self_overlap(axes_of(tensor), self_overlap_steps);
    if (found != SelfOverlap::none) {
        fail(signature, place,
             fmt::format("of shape [{}] and strides [{}] {}, so it cannot be written; pass a tensor of its own",
                         fmt::join(tensor.shape, tensor.shape + tensor.ndim, ", "),
                         fmt::join(tensor.strides, tensor.strides + tensor.ndim, ", "),
                         found == SelfOverlap::some
                             ? "has several indices for one element"
                             : "may have several indices for one element, which takes too long to rule out"));
    }
}

// Bytes that the strides reach below and above the first element. False if they do not fit into 64 bits.
bool reach(const DLTensor &tensor, int64_t *below, int64_t *above) {
    *below = *above = 0;
    const auto item = static_cast<int64_t>(bytes_of(tensor.dtype));
    bool overflow = false;
    int64_t elements = 1;
    for (int32_t axis = tensor.ndim - 1; axis >= 0; --axis) {
        const int64_t stride = tensor.strides == nullptr ? elements : tensor.strides[axis];
        overflow |= __builtin_mul_overflow(elements, tensor.shape[axis], &elements);
        int64_t bytes = 0;
        overflow |= __builtin_mul_overflow(tensor.shape[axis] - 1, stride, &bytes);
        overflow |= __builtin_mul_overflow(bytes, item, &bytes);
        int64_t &side = *(bytes < 0 ? below : above);
        overflow |= __builtin_add_overflow(side, bytes, &side);
    }
    overflow |= __builtin_mul_overflow(elements, item, &elements);
    return !overflow;
}

// Size of a non-empty contiguous tensor, the common case; 0 for all others.
uint64_t contiguous_bytes(const DLTensor &tensor) {
    int64_t elements = 1;
    bool usual = true;
    for (int32_t axis = tensor.ndim - 1; axis >= 0; --axis) {
        const int64_t size = tensor.shape[axis];
        usual &= tensor.strides == nullptr || size == 1 || tensor.strides[axis] == elements;
        usual &= !__builtin_mul_overflow(elements, size, &elements);
    }
    usual &= !__builtin_mul_overflow(elements, static_cast<int64_t>(bytes_of(tensor.dtype)), &elements);
    return usual ? static_cast<uint64_t>(elements) : 0;
}

[[noreturn, gnu::cold]] void fail_size(const Signature &signature, const Extent &extent) {
    const DLTensor &tensor = *extent.tensor;
    fail(signature, extent.place,
         fmt::format("of shape [{}] at {:#x} + {} is larger than 64 bits can address",
                     fmt::join(tensor.shape, tensor.shape + tensor.ndim, ", "),
                     reinterpret_cast<uintptr_t>(tensor.data), tensor.byte_offset));
}

// Not inlined: its registers would slow down the common case.
[[gnu::noinline]] void measure_unusual(const Signature &signature, Extent &extent, uint64_t *below, uint64_t *bytes) {
    const DLTensor &tensor = *extent.tensor;
    *below = *bytes = 0;
    if (!has_elements(tensor)) {
        return;
    }
    int64_t lowest = 0;
    int64_t highest = 0;
    if (!reach(tensor, &lowest, &highest)) {
        fail_size(signature, extent);
    }
    if (extent.written) {
        check_self_overlap(signature, extent.place, tensor);
    }
    *below = magnitude(lowest);
    *bytes = static_cast<uint64_t>(highest) + *below + bytes_of(tensor.dtype);
}

bool same_device(const Extent &a, const Extent &b) {
    return std::memcmp(&a.tensor->device, &b.tensor->device, sizeof(DLDevice)) == 0;
}

// Considers addresses modulo `period` bytes: axes whose stride is a multiple of the period vanish; the remaining ranges
// must be disjoint on a circle.
bool apart(const Extent &a, const Extent &b, uint64_t period) {
    const auto width = [period](const Extent &extent) {
        const uint64_t item = bytes_of(extent.tensor->dtype);
        uint64_t bytes = item;
        for (const Axis &axis : axes_of(*extent.tensor)) {
            bytes += axis.stride * item % period == 0 ? 0 : (axis.size - 1) * axis.stride * item;
        }
        return bytes;
    };
    const uint64_t distance =
        b.begin >= a.begin ? (b.begin - a.begin) % period : (period - (a.begin - b.begin) % period) % period;
    const uint64_t width_b = width(b);
    return width(a) <= distance && width_b <= period && distance <= period - width_b;
}

bool interleave(const Extent &a, const Extent &b) {
    for (const Extent *extent : {&a, &b}) {
        for (const Axis &axis : axes_of(*extent->tensor)) {
            if (axis.stride != 0 && apart(a, b, axis.stride * bytes_of(extent->tensor->dtype))) {
                return true;
            }
        }
    }
    return false;
}

[[noreturn]] void fail_overlap(const Signature &signature, const Extent &a, const Extent &b) {
    const Extent &written = a.written && a.place.parameter >= b.place.parameter ? a : b.written ? b : a;
    const Extent &other = &written == &a ? b : a;
    fail(signature, written.place,
         fmt::format("is written and overlaps {} in memory; only 'output ~ input' may share, and then as the same view",
                     describe(signature, other.place)));
}

void check_pair(const Signature &signature, const Extent &a, const Extent &b) {
    if ((a.written || b.written) && overlap(a, b)) {
        fail_overlap(signature, a, b);
    }
}

// For lists of thousands: in address order, compares each tensor only with those that have not ended yet.
void sweep(const Signature &signature, std::vector<Extent> &extents) {
    std::sort(extents.begin(), extents.end(), [](const Extent &a, const Extent &b) { return a.begin < b.begin; });
    std::vector<const Extent *> written;
    std::vector<const Extent *> read;
    for (const Extent &extent : extents) {
        const auto ended = [&extent](const Extent *other) { return other->end <= extent.begin; };
        std::erase_if(written, ended);
        for (const Extent *other : written) {
            check_pair(signature, *other, extent);
        }
        if (extent.written) {
            std::erase_if(read, ended);
            for (const Extent *other : read) {
                check_pair(signature, *other, extent);
            }
        }
        (extent.written ? written : read).push_back(&extent);
    }
}

} // namespace

bool has_elements(const DLTensor &tensor) {
    return std::find(tensor.shape, tensor.shape + tensor.ndim, 0) == tensor.shape + tensor.ndim;
}

void *first_element(const DLTensor *tensor) {
    const bool any = tensor != nullptr && tensor->data != nullptr && has_elements(*tensor);
    return any ? static_cast<char *>(tensor->data) + tensor->byte_offset : nullptr;
}

void measure(const Signature &signature, Extent &extent) {
    const DLTensor &tensor = *extent.tensor;
    uint64_t below = 0;
    uint64_t bytes = contiguous_bytes(tensor);
    if (bytes == 0) {
        measure_unusual(signature, extent, &below, &bytes);
    }
    extent.begin = extent.end = 0;
    if (tensor.data == nullptr || bytes == 0) {
        return;
    }
    const auto data = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(tensor.data));
    const bool wraps = __builtin_add_overflow(data, tensor.byte_offset, &extent.begin) ||
                       __builtin_sub_overflow(extent.begin, below, &extent.begin) ||
                       __builtin_add_overflow(extent.begin, bytes, &extent.end);
    if (wraps) {
        fail_size(signature, extent);
    }
}

bool overlap(const Extent &a, const Extent &b) {
    return a.begin < b.end && b.begin < a.end && same_device(a, b) && !interleave(a, b);
}

bool identical(const Extent &a, const Extent &b) {
    if (a.begin != b.begin || a.end != b.end || a.tensor->ndim != b.tensor->ndim) {
        return false;
    }
    const auto stride = [](const DLTensor &tensor, int32_t axis, int64_t contiguous) {
        return tensor.strides == nullptr ? contiguous : tensor.strides[axis];
    };
    int64_t contiguous = 1;
    for (int32_t axis = a.tensor->ndim - 1; axis >= 0; --axis) {
        const int64_t size = a.tensor->shape[axis];
        if (size != b.tensor->shape[axis] ||
            (size != 1 && stride(*a.tensor, axis, contiguous) != stride(*b.tensor, axis, contiguous))) {
            return false;
        }
        contiguous *= size;
    }
    return true;
}

void check_overlaps(const Signature &signature, std::vector<Extent> &extents) {
    constexpr size_t few = 24; // up to here comparing all pairs is faster than sorting
    if (extents.size() > few) {
        std::erase_if(extents, [](const Extent &extent) { return extent.empty(); });
        sweep(signature, extents);
        return;
    }
    for (size_t i = 0; i < extents.size(); ++i) {
        for (size_t j = i + 1; j < extents.size(); ++j) {
            check_pair(signature, extents[i], extents[j]);
        }
    }
}

} // namespace opdock::core
