// Counts of the calls that an implementation served, declined and failed.
//
// Each thread writes to its own numbers: no locked instruction, and no cache line that another thread writes. A row
// belongs to the host and to a thread number. After a thread has ended, a later thread gets its number and continues
// its row. A sum over all rows is therefore exact, and nothing has to be saved when a thread ends.
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
    served,   // OPDOCK_OK, including runs of prepared calls
    declined, // OPDOCK_UNSUPPORTED, from its kernel or from an earlier check
    failed,   // another status
    // Served as a fallback. The enumerator names the outcome of the implementation that was tried first.
    after_declined,
    after_failed,
    after_running, // the first one was calling this op and must not call itself
    // Served on CPU copies (fallback_to_cpu). The enumerator names the status on the device.
    after_all_dropped,
    after_all_failed,
};
inline constexpr size_t n_counts = 8;
inline constexpr Count first_fallback = Count::after_declined;

// Returns "served"; for a fallback its reason, such as "all_dropped".
std::string_view count_name(Count count);

// Outcome of a call that should have a shadow (dispatch/shadow.hpp).
enum class ShadowCount : uint8_t {
    agreed,
    disagreed,
    left_out, // nothing was compared
};
inline constexpr size_t n_shadow_counts = 3;

inline Count outcome_of(opdock_status status) {
    return status == OPDOCK_OK ? Count::served : status == OPDOCK_UNSUPPORTED ? Count::declined : Count::failed;
}
// The reason for trying the next implementation after one with this outcome.
inline Count fallback_after(Count outcome) {
    return outcome == Count::declined ? Count::after_declined : Count::after_failed;
}

// The counts of one implementation on one thread, in a cache line of their own.
struct alignas(64) CountRow {
    std::array<std::atomic<uint64_t>, n_counts> counts{};

    std::atomic<uint64_t> &of(Count count) { return counts[static_cast<size_t>(count)]; }
    // Only for the thread that owns the row: a single writer needs no atomic addition.
    void add(Count count) {
        std::atomic<uint64_t> &one = of(count);
        one.store(one.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    }
};
static_assert(sizeof(CountRow) == 64);

// The counts of one implementation in one host. Uses no locks, since a forked child could find one held.
class CallCounts {
  public:
    CallCounts(const Implementation &of, CallCounts *older);
    ~CallCounts();
    CallCounts(const CallCounts &) = delete;
    CallCounts &operator=(const CallCounts &) = delete;

    const Implementation &implementation() const { return implementation_; }
    CallCounts *older() const { return older_; }

    // The row of the thread with this number.
    CountRow &row(uint32_t thread);
    // The rows of threads with numbers below this exist from the beginning and are contiguous.
    static constexpr uint32_t n_first = 32;
    CountRow *first_rows() const { return blocks_[0].load(std::memory_order_relaxed); }
    // For a thread that has no memory for a row: exact as well, but slower.
    void add_without_row(Count count) { shared_.of(count).fetch_add(1, std::memory_order_relaxed); }

    // For calls with a shadow, which are few.
    void add(ShadowCount count) { shadows_[static_cast<size_t>(count)].fetch_add(1, std::memory_order_relaxed); }

    std::array<uint64_t, n_counts> sums() const;
    std::array<uint64_t, n_shadow_counts> shadows() const;
    // To be called in a forked child that has made no call yet.
    void start_over_in_child();

  private:
    template<class Visit>
    void each_row(Visit visit) const;

    const Implementation &implementation_;
    CallCounts *const older_;
    // Each block has twice as many rows as the one before, so rows never move.
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

    // Creates the entry on first use. Only one thread at a time may call this.
    CallCounts &of(const Implementation &implementation);
    // Sorted by op, then impl_id and plugin. A module that was reloaded continues its counts.
    std::vector<CountedImplementation> all() const;
    void start_over_in_child();

  private:
    std::atomic<CallCounts *> newest_{nullptr};
};

} // namespace opdock::core
