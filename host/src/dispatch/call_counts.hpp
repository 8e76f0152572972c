// Counts of the calls that an implementation served, declined and failed.
//
// Each thread writes numbers of its own: no instruction that locks, and no cache line that another thread writes. They
// belong to the host and to the number of the thread, which a later thread gets when this one has ended and goes on
// counting from there: a sum over all rows is exact, and nothing has to be saved when a thread ends.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "opdock/opdock.h"

namespace opdock::core {

struct Implementation;

enum class Count : uint8_t {
    served,   // OPDOCK_OK, runs of prepared calls too
    declined, // OPDOCK_UNSUPPORTED, from its kernel or from what is asked before
    failed,   // another status
    // Served as the fallback: the outcome of the implementation that was tried first.
    after_declined,
    after_failed,
    after_running, // which called this op, and must not call itself
    // Served on copies on the CPU (fallback_to_cpu): the status on the device.
    after_all_dropped,
    after_all_failed,
};
inline constexpr size_t n_counts = 8;
inline constexpr Count first_fallback = Count::after_declined;

// "served"; of fallbacks the reason, such as "all_dropped".
std::string_view count_name(Count count);

// What became of a call that should have a shadow (dispatch/shadow.hpp).
enum class ShadowCount : uint8_t {
    agreed,
    disagreed,
    left_out, // nothing was compared
};
inline constexpr size_t n_shadow_counts = 3;

inline Count outcome_of(opdock_status status) {
    return status == OPDOCK_OK ? Count::served : status == OPDOCK_UNSUPPORTED ? Count::declined : Count::failed;
}
// Why the next one is tried after one that left this.
inline Count fallback_after(Count outcome) {
    return outcome == Count::declined ? Count::after_declined : Count::after_failed;
}

// The counts of one implementation on one thread, as a cache line of their own.
struct alignas(64) CountRow {
    std::array<std::atomic<uint64_t>, n_counts> counts{};

    std::atomic<uint64_t> &of(Count count) { return counts[static_cast<size_t>(count)]; }
    // By the thread whose row it is: one writer needs no atomic addition.
    void add(Count count) {
        std::atomic<uint64_t> &one = of(count);
        one.store(one.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    }
};
static_assert(sizeof(CountRow) == 64);

// The counts of one implementation in one host. No locks, which a forked child could find held.
class CallCounts {
  public:
    CallCounts(const Implementation &of, CallCounts *older);
    ~CallCounts();
    CallCounts(const CallCounts &) = delete;
    CallCounts &operator=(const CallCounts &) = delete;

    const Implementation &implementation() const { return implementation_; }
    CallCounts *older() const { return older_; }

    // Of the thread with this number.
    CountRow &row(uint32_t thread);
    // Those of the threads with the numbers below this are there from the beginning, and lie side by side.
    static constexpr uint32_t n_first = 32;
    CountRow *first_rows() const { return blocks_[0].load(std::memory_order_relaxed); }
    // By a thread that has no memory for a row: exact too, and slower.
    void add_without_row(Count count) { shared_.of(count).fetch_add(1, std::memory_order_relaxed); }

    // Of calls with a shadow, which are few.
    void add(ShadowCount count) { shadows_[static_cast<size_t>(count)].fetch_add(1, std::memory_order_relaxed); }

    std::array<uint64_t, n_counts> sums() const;
    std::array<uint64_t, n_shadow_counts> shadows() const;
    // In a forked child, which has made no call yet.
    void start_over_in_child();

  private:
    template<class Visit>
    void each_row(Visit visit) const;

    const Implementation &implementation_;
    CallCounts *const older_;
    // Each has twice as many rows as the one before, so that rows never move.
    std::array<std::atomic<CountRow *>, 28> blocks_{};
    mutable CountRow shared_;
    std::array<std::atomic<uint64_t>, n_shadow_counts> shadows_{};
};

struct CountedImplementation {
    std::string op, impl_id, plugin, vendor;
    std::array<uint64_t, n_counts> counts{};
    std::array<uint64_t, n_shadow_counts> shadows{};

    uint64_t of(Count count) const { return counts[static_cast<size_t>(count)]; }
    uint64_t of(ShadowCount count) const { return shadows[static_cast<size_t>(count)]; }
};

// The counts of all implementations that a host has used.
class AllCallCounts {
  public:
    AllCallCounts() = default;
    ~AllCallCounts();
    AllCallCounts(const AllCallCounts &) = delete;
    AllCallCounts &operator=(const AllCallCounts &) = delete;

    // Made when it is first asked for; one thread at a time asks.
    CallCounts &of(const Implementation &implementation);
    // By op, then impl_id and plugin. A module that came back goes on counting.
    std::vector<CountedImplementation> all() const;
    void start_over_in_child();

  private:
    std::atomic<CallCounts *> newest_{nullptr};
};

} // namespace opdock::core
