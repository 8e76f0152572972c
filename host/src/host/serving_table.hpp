// What serves each op now, and what decided that, as a table.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace opdock::core {

// An op on devices of a type.
struct ServedCalls {
    std::string op, device;
    std::string impl_id; // that serves calls of most dtypes; "nothing": none is left
    std::string rule;    // that put it first, or that dropped one where none is left
    std::string others;  // "f64: reference.cpp", for dtypes that others serve
};

std::string serving_table(std::span<const ServedCalls> served);

} // namespace opdock::core
