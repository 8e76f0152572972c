// Whether two indices of a strided tensor name the same element.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "opdock/opdock.h"

namespace opdock::core {

// The axes of a tensor that have more than one index, with strides in elements and without their signs.
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

// Exact for any rank as long as `steps` suffice; what is not decided by then is `unknown`. The span of all axes must
// fit into 64 bits.
enum class SelfOverlap { none, some, unknown };
SelfOverlap self_overlap(const Axes &axes, uint64_t steps);

// Views of dense tensors, permuted, sliced or padded, need none. About a millisecond.
inline constexpr uint64_t self_overlap_steps = 20000;

} // namespace opdock::core
