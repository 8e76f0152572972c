// The order of evaluation of things that read each other.
#pragma once

#include <cstddef>
#include <vector>

namespace opdock::core {

struct ReadingOrder {
    std::vector<size_t> order;                // a thing comes after those that it reads
    std::vector<std::vector<size_t>> circles; // things that read themselves, perhaps indirectly; never in `order`
};

// `reads[i]`: the things that thing i reads. Keeps the given order as far as possible.
ReadingOrder reading_order(const std::vector<std::vector<size_t>> &reads);

} // namespace opdock::core
