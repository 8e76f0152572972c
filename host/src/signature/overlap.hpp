// Memory ranges of a call's tensors, and detection of shared memory.
#pragma once

#include <cstdint>
#include <vector>

#include "signature/signature.hpp"
#include "signature/solve.hpp"

namespace opdock::core {

// Byte range from a tensor's first to its last element, including gaps of its strides.
struct Extent {
    const DLTensor *tensor;
    ArgumentPlace place;
    bool written;
    uint64_t begin; // an address; begin == end if there are no elements or no pointer
    uint64_t end;

    bool empty() const { return begin == end; }
};

bool has_elements(const DLTensor &tensor);
// Null if the tensor is absent, has no elements or has no data pointer yet.
void *first_element(const DLTensor *tensor);

// Computes begin and end from the other members. Throws if the tensor's size does not fit into 64 bits, or if it is
// written and two of its indices refer to the same element.
void measure(const Signature &signature, Extent &extent);

// Throws if a written tensor shares memory with any other. Compares byte ranges; views that interleave without
// touching (two halves of each row of a buffer) are recognized if their strides have a common period. Sorts
// `extents`.
void check_overlaps(const Signature &signature, std::vector<Extent> &extents);

bool overlap(const Extent &a, const Extent &b);
// True for the same elements in the same order.
bool identical(const Extent &a, const Extent &b);

} // namespace opdock::core
