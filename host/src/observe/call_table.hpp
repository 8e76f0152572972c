// The distinct calls that a host serves: how often, and how long some of them take.
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
    std::atomic<uint64_t> first{0}; // nanoseconds of the first call, which may have been slower than all others
    std::atomic<uint64_t> count{0}; // of the others
    std::atomic<uint64_t> sum{0};

    // Of one call; 0 where none was timed.
    double mean() const;
    void add(uint64_t nanoseconds, bool is_first);
    void clear();
};

// Of an implementation of an op on a device.
struct ImplementationTimes {
    LatencyHistogram host;
    LatencyHistogram device;
};

struct CountedCall {
    CallText text;
    bool is_described = true; // false: it stands for all calls that found no room, without their arguments
    uint32_t trace_entry = undescribed_call;
    ImplementationTimes *times = nullptr;
    std::atomic<uint64_t> calls{0};
    SampledTime host;
    SampledTime device;

    // Nanoseconds that all calls took, as far as samples tell: by the device's clock where there is one.
    double total() const;

    // `counter` is of one attempt, and mostly of one thread. Returns the number of the call among its calls. What it
    // counted is told here call by call while it is small, and then by so many.
    uint64_t count(std::atomic<uint64_t> &counter) {
        const uint64_t number = counter.fetch_add(1, std::memory_order_relaxed);
        if (number < told_singly) {
            calls.fetch_add(1, std::memory_order_relaxed);
        } else if ((number + 1) % told_together == 0) {
            calls.fetch_add(told_together, std::memory_order_relaxed);
        }
        return number;
    }
    // The counter goes.
    void count_rest(const std::atomic<uint64_t> &counter) {
        if (const uint64_t number = counter.load(std::memory_order_relaxed); number > told_singly) {
            calls.fetch_add(number % told_together, std::memory_order_relaxed);
        }
    }
    static constexpr uint64_t told_together = 64;
    static constexpr uint64_t told_singly = 16 * told_together;

    // One call of an attempt in so many is timed, and the first one besides.
    static constexpr uint64_t sampling = 1000;
    static bool is_sampled(uint64_t number) { return number == 0 || number % sampling == 1; }
    // Call `number` took so long.
    void add_host_time(uint64_t number, uint64_t nanoseconds);
    void add_device_time(uint64_t number, uint64_t nanoseconds);
};

// Locked by its owner, but for the counters.
class CallTable {
  public:
    explicit CallTable(size_t most_calls) : most_calls_(most_calls) {}

    // The call of these texts, added where it is new: `added` is called with it then. Where the table is full, the one
    // that stands for all others of this implementation. Valid as long as the table.
    CountedCall &find(CallText text, const std::function<void(CountedCall &)> &added);

    // Those that were made, whatever else; the ones that took most time come first.
    std::vector<const CountedCall *> by_time() const;
    std::vector<Latency> latencies() const;
    // Nothing was called yet.
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
