// A table of what serves each op now, and the reason.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace opdock::core {

// An op on devices of one type.
struct ServedCalls {
    std::string op, device;
    std::string impl_id; // serves calls of most dtypes; "nothing" if none is left
    std::string rule;    // put it first, or dropped one if none is left
    std::string others;  // "f64: reference.cpp", for dtypes that others serve
};

std::string serving_table(std::span<const ServedCalls> served);

} // namespace opdock::core
