// An implementation on one device: its availability, the state that it created there, and its failures.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "dispatch/line_pause.hpp"
#include "load/registration.hpp"
#include "resolve/resolve.hpp"

namespace opdock::core {

class DeploymentTuning;
class CallCounts;
class CallHost;

class Deployment {
  public:
    using Clock = std::chrono::steady_clock;
    // Number of consecutive failures after which an implementation leaves its op's chain on the device.
    static constexpr int32_t failure_limit = 3;

    Deployment(const Implementation &implementation, DLDevice device, CallCounts &counts, const CallHost &host);
    ~Deployment();

    const Implementation &implementation() const { return implementation_; }
    DLDevice device() const { return device_; }

    // The availability known before `available` was called on any device.
    static Availability availability_before_use(const Implementation &implementation);
    // The availability known so far.
    Availability known_availability() const;
    // Calls the implementation's `available` if nobody has; at most once until forget_availability. Waits for another
    // thread that is asking. Returns "not available", for this call only, to the functions being asked themselves, to
    // those of another implementation while another thread is asking, and to a plugin's entry.
    Availability ask_availability();
    // Returns the previous answer of `available`; unknown if it was not asked.
    Availability forget_availability();

    // The state from device_init, which is called on first use. A status other than OPDOCK_OK sets
    // *reason, and the next call tries again.
    opdock_status device_state(void **state, std::string *reason);
    // Its entries of the tune file and the tuning database, read on first use. Null if it has no knobs
    // or the device is unknown.
    DeploymentTuning *tuning();
    // Runs device_fini if device_init ran.
    void finish();

    // Counts a failure; returns true if this one removes the implementation from the chain.
    bool count_failure(const std::string &reason);
    // Removes it from the chain until its health is reset; returns false if it had already left.
    bool take_out(const std::string &reason);
    void count_success() { consecutive_failures_.store(0, std::memory_order_relaxed); }
    bool was_called() const { return called_.load(std::memory_order_relaxed); }
    // True for the first call on this device only.
    bool is_first_call() {
        return !called_.load(std::memory_order_relaxed) && !called_.exchange(true, std::memory_order_relaxed);
    }
    bool has_failures() const { return consecutive_failures_.load(std::memory_order_relaxed) != 0; }
    bool is_out() const { return out_.load(std::memory_order_relaxed); }
    std::string out_reason() const;
    // To be called when it has left the chain. It may be retried after this pause, which doubles each
    // further time, up to an hour. Returns the pause that applies now.
    std::chrono::nanoseconds retry_after(Clock::time_point now, std::chrono::nanoseconds pause);
    // The time of the next retry; empty while it is in the chain and when it stays out.
    std::optional<Clock::time_point> retry_at() const;
    // Returns true if it was out and its time has come: it is in the chain again, and its next failure removes it.
    bool try_again(Clock::time_point now);
    // Returns true if it was out.
    bool reset_health();

    // Counts of the implementation over all devices.
    CallCounts &counts() const { return counts_; }
    // Pauses between log lines about failing heuristics and tuning of first calls (the number of
    // shapes is unbounded), and about shadows.
    LinePause &heuristic_lines() { return heuristic_lines_; }
    LinePause &tuning_lines() { return tuning_lines_; }
    LinePause &shadow_lines() { return shadow_lines_; }
    // Number of files written for calls of it that disagree.
    std::atomic<uint32_t> &call_files() { return call_files_; }
    // The number of its next call, from 1, where calls are written by number.
    uint64_t number_call() { return numbered_calls_.fetch_add(1, std::memory_order_relaxed) + 1; }

  private:
    const Implementation &implementation_;
    const DLDevice device_;
    CallCounts &counts_;
    const CallHost &host_;

    // Held while the plugin is asked; nothing else waits for it. A function that is being asked may
    // make calls, including calls that would ask again.
    class Asking;
    std::mutex asking_;
    std::atomic<std::thread::id> asker_{}; // the thread that holds it
    bool initialized_ = false;
    void *state_ = nullptr;

    std::mutex reading_tuning_;
    std::atomic<bool> has_read_tuning_{false};
    std::unique_ptr<DeploymentTuning> tuning_;

    mutable std::mutex mutex_; // guards the members below; never held while the plugin's code runs
    Availability availability_{};
    std::string out_reason_;
    std::optional<Clock::time_point> retry_at_;
    std::chrono::nanoseconds pause_{0}; // the pause before the last retry
    std::atomic<int32_t> consecutive_failures_{0};
    std::atomic<bool> out_{false};
    std::atomic<bool> called_{false};
    LinePause heuristic_lines_;
    LinePause tuning_lines_;
    LinePause shadow_lines_;
    std::atomic<uint32_t> call_files_{0};
    std::atomic<uint64_t> numbered_calls_{0};
};

} // namespace opdock::core
