// Clocks and medians of benchmarks.
#pragma once

#include <algorithm>
#include <ctime>
#include <vector>

namespace opdock::bench {

// What something took: by the clock, and of all processors together. On a busy machine the second is the steadier one.
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
