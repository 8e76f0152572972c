// Clocks and medians for benchmarks.
#pragma once

#include <algorithm>
#include <ctime>
#include <vector>

namespace opdock::bench {

// Elapsed time, and processor time summed over all processors. On a busy machine the latter is steadier.
struct Cost {
    double wall, cpu;
};

inline double now(clockid_t clock) {
    timespec time;
    clock_gettime(clock, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

template<class Function>
Cost cost_of(Function function) {
    const double wall = now(CLOCK_MONOTONIC), cpu = now(CLOCK_PROCESS_CPUTIME_ID);
    function();
    return {now(CLOCK_MONOTONIC) - wall, now(CLOCK_PROCESS_CPUTIME_ID) - cpu};
}

inline double median(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

} // namespace opdock::bench
