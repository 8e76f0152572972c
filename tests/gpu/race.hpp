// Ways of doing the same, timed side by side.
#pragma once

#include <functional>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace gpu_tests {

struct Way {
    const char *name;
    std::function<double()> measure; // microseconds of one
};

// Each is timed once in every round, and every round begins with another one. For each name "microseconds", the median
// over the rounds, and the medians of what it took more than the first way in the same round ("over_first"), and of how
// many times as long ("ratio").
nlohmann::json race(const std::vector<Way> &ways, int rounds);

// On the host's clock.
double microseconds_of(const std::function<void()> &work);

} // namespace gpu_tests
