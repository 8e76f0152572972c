// An implementation on one device: whether it is available there, the state that it made there, and its failures.
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
    // After so many failures in a row an implementation leaves its op's chain on the device.
    static constexpr int32_t failure_limit = 3;

    Deployment(const Implementation &implementation, DLDevice device, CallCounts &counts, const CallHost &host);
    ~Deployment();

    const Implementation &implementation() const { return implementation_; }
    DLDevice device() const { return device_; }

    // What is known before anybody asked on some device.
    static Availability availability_before_use(const Implementation &implementation);
    // What is known so far.
    Availability known_availability() const;
    // Asks the implementation if nobody has; at most once until forget_availability. Waits for another thread that is
    // asking. Not available, for this once, to the functions that are asked themselves, to those of another
    // implementation while another thread is asking, and to a plugin's entry.
    Availability ask_availability();
    // Returns what `available` had answered; unknown when it was not asked.
    Availability forget_availability();

    // The state device_init made, making it on first use. A status other than OPDOCK_OK comes with *reason and is asked
    // again the next time.
    opdock_status device_state(void **state, std::string *reason);
    // What the tune file and the tuning database say of it here, read on first use. Null without knobs, and for a
    // device that nothing is known of.
    DeploymentTuning *tuning();
    // Runs device_fini if device_init ran.
    void finish();

    // Counts a failure; true when it was the one that takes the implementation out of the chain.
    bool count_failure(const std::string &reason);
    // It leaves the chain at once, until its health is reset; false when it had left.
    bool take_out(const std::string &reason);
    void count_success() { consecutive_failures_.store(0, std::memory_order_relaxed); }
    bool was_called() const { return called_.load(std::memory_order_relaxed); }
    // Whether this is the first call of it on this device; true once.
    bool is_first_call() {
        return !called_.load(std::memory_order_relaxed) && !called_.exchange(true, std::memory_order_relaxed);
    }
    bool has_failures() const { return consecutive_failures_.load(std::memory_order_relaxed) != 0; }
    bool is_out() const { return out_.load(std::memory_order_relaxed); }
    std::string out_reason() const;
    // To be called when it left the chain: it may be tried again after this pause, and twice as long each further time,
    // up to an hour. Returns how long it is now.
    std::chrono::nanoseconds retry_after(Clock::time_point now, std::chrono::nanoseconds pause);
    // When it may be tried again; nothing while it is in the chain, and when it stays out.
    std::optional<Clock::time_point> retry_at() const;
    // True when it was out and the time has come: it is in the chain again, and out with its next failure.
    bool try_again(Clock::time_point now);
    // True when it was out.
    bool reset_health();

    // Of the implementation, on every device.
    CallCounts &counts() const { return counts_; }
    // Of lines of the log about heuristics that fail, and about tuning of first calls: shapes have no end. And of
    // shadows.
    LinePause &heuristic_lines() { return heuristic_lines_; }
    LinePause &tuning_lines() { return tuning_lines_; }
    LinePause &shadow_lines() { return shadow_lines_; }
    // Files of calls that were written of it because they differ.
    std::atomic<uint32_t> &call_files() { return call_files_; }
    // The number of the next call of it, from 1, where calls are written because of their numbers.
    uint64_t number_call() { return numbered_calls_.fetch_add(1, std::memory_order_relaxed) + 1; }

  private:
    const Implementation &implementation_;
    const DLDevice device_;
    CallCounts &counts_;
    const CallHost &host_;

    // Held while the plugin is asked; nothing else waits for it. A function that is asked may make calls, also such as
    // would ask again.
    class Asking;
    std::mutex asking_;
    std::atomic<std::thread::id> asker_{}; // which holds it
    bool initialized_ = false;
    void *state_ = nullptr;

    std::mutex reading_tuning_;
    std::atomic<bool> has_read_tuning_{false};
    std::unique_ptr<DeploymentTuning> tuning_;

    mutable std::mutex mutex_; // of what follows; never held while the plugin's code runs
    Availability availability_{};
    std::string out_reason_;
    std::optional<Clock::time_point> retry_at_;
    std::chrono::nanoseconds pause_{0}; // before the last try
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
