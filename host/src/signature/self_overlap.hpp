// Detects whether two indices of a strided tensor refer to the same element.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "opdock/opdock.h"

namespace opdock::core {

// Axes of a tensor with more than one index; strides in elements, as absolute values.
struct Axis {
    uint64_t size;
    uint64_t stride;
};
struct Axes {
    std::array<Axis, OPDOCK_MAX_RANK> all;
    size_t count = 0;

    const Axis *begin() const { return all.data(); }
    const Axis *end() const { return all.data() + count; }
};

// Exact for any rank if `steps` suffice; otherwise `unknown`. The span of all axes must fit into 64
// bits.
enum class SelfOverlap { none, some, unknown };
SelfOverlap self_overlap(const Axes &axes, uint64_t steps);

// Permuted, sliced or padded views of dense tensors need no steps. About a millisecond.
inline constexpr uint64_t self_overlap_steps = 20000;

} // namespace opdock::core
