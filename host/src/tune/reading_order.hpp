// The order in which things that read each other are evaluated.
#pragma once

#include <cstddef>
#include <vector>

namespace opdock::core {

struct ReadingOrder {
    std::vector<size_t> order;                // what is read comes before what reads it
    std::vector<std::vector<size_t>> circles; // what reads itself, perhaps by way of others; none of it is in the order
};

// `reads[i]`: the things that thing i reads. Takes the things in their order as far as they allow it.
ReadingOrder reading_order(const std::vector<std::vector<size_t>> &reads);

} // namespace opdock::core
