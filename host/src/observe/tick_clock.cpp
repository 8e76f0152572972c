#include "observe/tick_clock.hpp"

#include <ctime>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace opdock::core {
namespace {

// True if the counter has the same rate in every state of the processor ("invariant TSC").
bool has_even_counter() {
#if defined(__x86_64__)
    constexpr unsigned leaf = 0x80000007, invariant = 1U << 8U;
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid(leaf, &a, &b, &c, &d) != 0 && (d & invariant) != 0;
#else
    return false;
#endif
}

uint64_t first_ticks() {
    static const bool is_even = has_even_counter();
    reads_counter.store(is_even, std::memory_order_relaxed);
    return ticks();
}

} // namespace

int64_t monotonic_nanoseconds() {
    timespec now = {};
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

TickClock::TickClock() : start_ticks_(first_ticks()), start_nanoseconds_(monotonic_nanoseconds()) {
    constexpr int64_t millisecond = 1'000'000;
    while (reads_counter.load(std::memory_order_relaxed) &&
           monotonic_nanoseconds() - start_nanoseconds_ < millisecond) {
    }
    compare();
}

void TickClock::compare() {
    if (!reads_counter.load(std::memory_order_relaxed)) {
        return; // a tick is a nanosecond
    }
    const int64_t passed = monotonic_nanoseconds() - start_nanoseconds_;
    const uint64_t counted = ticks() - start_ticks_;
    if (passed > 0 && counted > 0) {
        rate_.store(static_cast<double>(passed) / static_cast<double>(counted), std::memory_order_relaxed);
    }
}

} // namespace opdock::core
