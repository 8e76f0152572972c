// Where the tensors of a call lie in memory, and which of them share it.
#pragma once

#include <cstdint>
#include <vector>

#include "signature/signature.hpp"
#include "signature/solve.hpp"

namespace opdock::core {

// The bytes from a tensor's first to its last element, gaps of its strides included.
struct Extent {
    const DLTensor *tensor;
    ArgumentPlace place;
    bool written;
    uint64_t begin; // an address; begin == end when there are no elements or no pointer
    uint64_t end;

    bool empty() const { return begin == end; }
};

bool has_elements(const DLTensor &tensor);
// Null for a tensor that is absent, has no elements or points to none yet.
void *first_element(const DLTensor *tensor);

// Fills in begin and end from the rest. Throws when the tensor's size does not fit into 64 bits, or when it is written
// and two of its indices name the same element.
void measure(const Signature &signature, Extent &extent);

// Throws when something written shares memory with anything else. The test is by ranges of bytes; views that interleave
// without touching (two halves of each row of a buffer) are told apart where their strides have a common period.
// Sorts `extents`.
void check_overlaps(const Signature &signature, std::vector<Extent> &extents);

bool overlap(const Extent &a, const Extent &b);
// The same elements in the same order.
bool identical(const Extent &a, const Extent &b);

} // namespace opdock::core
