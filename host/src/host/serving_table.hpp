// What serves each op now, and what decided that, as a table.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace opdock::core {

// Calls of an op on devices of a type that are served alike.
struct ServedCalls {
    std::string op, device;
    std::string dtypes;  // "bf16 f32", a tuple after the other; "all": of all that are served
    std::string impl_id; // "nothing": none is left
    std::string rule;    // that put it first, or that dropped the last
};

std::string serving_table(std::span<const ServedCalls> served);

} // namespace opdock::core
