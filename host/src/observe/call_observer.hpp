// Observes the calls of a host: writes a trace of all calls and a record of the distinct ones, times a few, and shows
// them to a profiler.
//
// An observed kernel is called through another one (dispatch/observed_kernel.hpp), which is chosen when a call is
// prepared; if nothing is observed, there is no CallObserver and no overhead on the way to a kernel.
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "devices/devices.hpp"
#include "observe/background_thread.hpp"
#include "observe/call_table.hpp"
#include "observe/device_timer.hpp"
#include "observe/observed_call.hpp"
#include "observe/process_file.hpp"
#include "observe/trace_ring.hpp"
#include "text/log.hpp"

namespace opdock::core {

// Safe to use from any thread.
class CallObserver {
  public:
    // A file, and the variable that requests it.
    struct Wanted {
        ProcessFile file;
        std::string variable;
    };
    struct Options {
        std::optional<Wanted> trace;
        std::optional<Wanted> record;
        bool latencies = false;
        // Replaced by tests.
        TraceSize trace_size = {};
        size_t most_calls = 4096;
        std::chrono::nanoseconds record_interval = std::chrono::seconds(5);
    };

    // `devices` and `log` must outlive it. If a trace cannot be written, there is a warning and no
    // trace. A profiler must already be listening.
    CallObserver(Options options, const Devices &devices, const Log &log);
    CallObserver(const CallObserver &) = delete;
    CallObserver &operator=(const CallObserver &) = delete;
    ~CallObserver();

    // False if there is nothing to observe: no profiler listens, and no file is wanted or can be written.
    bool watches() const { return ring_ != nullptr || ranges_ != nullptr || is_counting(); }

    // `provider`: the provider of a device that calls make current; null for other devices.
    ObservedCall observe(opdock_kernel kernel, CallText text, DLDevice device, const DeviceProvider *provider);
    std::vector<Latency> latencies() const;
    // After the last call: waits for times that devices still owe.
    void ask_devices() noexcept;
    // Writes the files once. Waits if another thread is doing so.
    void finish() noexcept;

    // Around a fork, so that the child gets a consistent copy.
    void before_fork();
    void after_fork();
    // In the child, afterwards: observations and files of the parent remain the parent's.
    void start_over_in_child();

  private:
    void start_trace();
    // In a forked child that calls an op: starts its own files if they have names of their own.
    void start_in_child();
    void write_record() noexcept;
    void write_trace() noexcept;
    DeviceTimer *timer_of(DLDevice device, const DeviceProvider *provider);
    bool is_counting() const { return options_.record.has_value() || options_.latencies; }

    const Options options_;
    const Devices &devices_;
    const Log &log_;
    TickClock clock_; // for times taken without a trace
    enum class State { watches, finishes, finished };

    std::atomic<State> state_{State::watches};
    std::atomic<bool> is_idle_child_{false};
    std::atomic<bool> has_warned_{false}; // about the record that cannot be written

    mutable std::mutex mutex_; // guards the members below
    CallTable table_;
    std::map<std::pair<int32_t, int32_t>, std::unique_ptr<DeviceTimer>> timers_;
    std::unique_ptr<TraceRing> ring_;
    const std::unique_ptr<ProfilerRanges> ranges_;

    std::unique_ptr<BackgroundThread> writer_; // writes the record; last, as it uses the rest
};

} // namespace opdock::core
