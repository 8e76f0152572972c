// The distinct calls that a host serves: their number, and the duration of some of them.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "observe/call_text.hpp"
#include "observe/latency.hpp"
#include "observe/trace_format.hpp"

namespace opdock::core {

// Times of some calls.
struct SampledTime {
    std::atomic<uint64_t> first{0}; // nanoseconds of the first call, which may be slower than all others
    std::atomic<uint64_t> count{0}; // number of the others
    std::atomic<uint64_t> sum{0};

    // Mean of one call; 0 if none was timed.
    double mean() const;
    void add(uint64_t nanoseconds, bool is_first);
    void clear();
};

// Times of an implementation of an op on a device.
struct ImplementationTimes {
    LatencyHistogram host;
    LatencyHistogram device;
};

struct CountedCall {
    CallText text;
    bool is_described = true; // false: stands for all calls that found no room, without arguments
    uint32_t trace_entry = undescribed_call;
    ImplementationTimes *times = nullptr;
    std::atomic<uint64_t> calls{0};
    SampledTime host;
    SampledTime device;

    // Nanoseconds of all calls, estimated from samples: by the device's clock if there is one.
    double total() const;

    // `counter` belongs to one attempt, and mostly to one thread. Returns the call's number among its calls. The
    // counter is added to `calls` one by one while it is small, and later in steps of `told_together`.
    uint64_t count(std::atomic<uint64_t> &counter) {
        const uint64_t number = counter.fetch_add(1, std::memory_order_relaxed);
        if (number < told_singly) {
            calls.fetch_add(1, std::memory_order_relaxed);
        } else if ((number + 1) % told_together == 0) {
            calls.fetch_add(told_together, std::memory_order_relaxed);
        }
        return number;
    }
    // Adds the rest of a counter that is about to go.
    void count_rest(const std::atomic<uint64_t> &counter) {
        if (const uint64_t number = counter.load(std::memory_order_relaxed); number > told_singly) {
            calls.fetch_add(number % told_together, std::memory_order_relaxed);
        }
    }
    static constexpr uint64_t told_together = 64;
    static constexpr uint64_t told_singly = 16 * told_together;

    // One in so many calls of an attempt is timed, and also the first one.
    static constexpr uint64_t sampling = 1000;
    static bool is_sampled(uint64_t number) { return number == 0 || number % sampling == 1; }
    // Adds the time of call `number`.
    void add_host_time(uint64_t number, uint64_t nanoseconds);
    void add_device_time(uint64_t number, uint64_t nanoseconds);
};

// Locked by its owner, except for the counters.
class CallTable {
  public:
    explicit CallTable(size_t most_calls) : most_calls_(most_calls) {}

    // Returns the call with these texts. A new call is added and passed to `added`. If the table is full,
    // returns the one that stands for all others of this implementation. Valid as long as the table.
    CountedCall &find(CallText text, const std::function<void(CountedCall &)> &added);

    // All calls that were made, sorted by total time, longest first.
    std::vector<const CountedCall *> by_time() const;
    std::vector<Latency> latencies() const;
    // Resets all counts to zero.
    void clear_counters();

  private:
    using ImplementationKey = std::tuple<std::string, std::string, std::string>; // op, impl_id, device

    ImplementationTimes &times_of(const CallText &text);

    const size_t most_calls_;
    size_t n_described_ = 0;
    std::map<std::string, std::unique_ptr<CountedCall>> calls_;
    std::map<ImplementationKey, std::unique_ptr<ImplementationTimes>> times_;
};

} // namespace opdock::core
