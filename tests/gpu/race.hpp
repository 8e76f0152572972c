// Alternative ways to do the same work, timed side by side.
#pragma once

#include <functional>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace gpu_tests {

struct Way {
    const char *name;
    std::function<double()> measure; // in microseconds
};

// Each way is timed once per round, and every round begins with a different one. Returns
// for each name the median time ("microseconds"), and the medians of the time beyond the
// first way's in the same round ("over_first") and of the ratio to it ("ratio").
nlohmann::json race(const std::vector<Way> &ways, int rounds);

// Measures with the host's clock.
double microseconds_of(const std::function<void()> &work);

} // namespace gpu_tests
