// Durations of calls: a histogram with fixed buckets, each twice as wide as the one before.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>

namespace opdock::core {

inline constexpr uint64_t first_latency_bound = 256; // nanoseconds
inline constexpr size_t n_latency_bounds = 26;       // the last one is 8.6 seconds

// Upper bound of bucket `i` in nanoseconds. The bucket after the last bound has no limit.
constexpr uint64_t latency_bound(size_t i) {
    return first_latency_bound << i;
}

constexpr size_t latency_bucket(uint64_t nanoseconds) {
    size_t bucket = 0;
    while (bucket < n_latency_bounds && nanoseconds > latency_bound(bucket)) {
        ++bucket;
    }
    return bucket;
}

// Written and read by any thread.
class LatencyHistogram {
  public:
    void add(uint64_t nanoseconds) {
        counts_.at(latency_bucket(nanoseconds)).fetch_add(1, std::memory_order_relaxed);
        sum_.fetch_add(nanoseconds, std::memory_order_relaxed);
    }
    uint64_t count(size_t bucket) const { return counts_.at(bucket).load(std::memory_order_relaxed); }
    uint64_t sum() const { return sum_.load(std::memory_order_relaxed); }
    void clear() {
        for (auto &count : counts_) {
            count.store(0, std::memory_order_relaxed);
        }
        sum_.store(0, std::memory_order_relaxed);
    }

  private:
    std::array<std::atomic<uint64_t>, n_latency_bounds + 1> counts_{};
    std::atomic<uint64_t> sum_{0};
};

// A snapshot of a histogram.
struct Latency {
    std::string op;
    std::string impl_id;
    std::string device;     // "cuda:0"
    bool on_device = false; // timed by the device; else by the host's clock, around the kernel
    std::array<uint64_t, n_latency_bounds + 1> counts{}; // of each bucket, not cumulative
    uint64_t sum = 0;                                    // nanoseconds
};

} // namespace opdock::core
