// Time stamps of calls: the processor's counter if it has a constant rate, else the monotonic clock,
// which takes twice as long to read.
#pragma once

#include <atomic>
#include <cstdint>

namespace opdock::core {

int64_t monotonic_nanoseconds();

// Set permanently by the first TickClock.
inline std::atomic<bool> reads_counter{false};

// A raw time stamp, which a TickClock converts to nanoseconds.
inline uint64_t ticks() {
#if defined(__x86_64__)
    if (reads_counter.load(std::memory_order_relaxed)) [[likely]] {
        return __builtin_ia32_rdtsc();
    }
#endif
    return static_cast<uint64_t>(monotonic_nanoseconds());
}

// Safe to use from any thread.
class TickClock {
  public:
    TickClock(); // takes a millisecond to compare the counter with the monotonic clock

    uint64_t start_ticks() const { return start_ticks_; }
    int64_t start_nanoseconds() const { return start_nanoseconds_; }
    double nanoseconds_per_tick() const { return rate_.load(std::memory_order_relaxed); }
    // Converts a difference between two time stamps.
    uint64_t nanoseconds(uint64_t difference) const {
        return static_cast<uint64_t>(static_cast<double>(difference) * nanoseconds_per_tick());
    }
    // Compares again: the longer since the start, the more exact the rate.
    void compare();

  private:
    const uint64_t start_ticks_;
    const int64_t start_nanoseconds_;
    std::atomic<double> rate_{1};
};

} // namespace opdock::core
