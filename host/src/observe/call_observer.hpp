// Watches the calls of a host: writes a trace of all of them, a record of the distinct ones, times a few, and shows
// them to a profiler.
//
// A kernel that is watched is called through another one (dispatch/observed_kernel.hpp), which is chosen when a call is
// made ready; where nothing is watched there is no CallObserver and no trace of it on the way to a kernel.
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
    // A file, and the variable that asks for it.
    struct Wanted {
        ProcessFile file;
        std::string variable;
    };
    struct Options {
        std::optional<Wanted> trace;
        std::optional<Wanted> record;
        bool latencies = false;
        // What tests replace.
        TraceSize trace_size = {};
        size_t most_calls = 4096;
        std::chrono::nanoseconds record_interval = std::chrono::seconds(5);
    };

    // `devices` and `log` have to outlive it. A trace that cannot be written is a warning, and there is none. A
    // profiler has to listen already.
    CallObserver(Options options, const Devices &devices, const Log &log);
    CallObserver(const CallObserver &) = delete;
    CallObserver &operator=(const CallObserver &) = delete;
    ~CallObserver();

    // False where there was nothing to watch for: no profiler listens, and no file is wanted or can be written.
    bool watches() const { return ring_ != nullptr || ranges_ != nullptr || is_counting(); }

    // `provider`: of a device that calls make current; null for others.
    ObservedCall observe(opdock_kernel kernel, CallText text, DLDevice device, const DeviceProvider *provider);
    std::vector<Latency> latencies() const;
    // No call is made any more: waits for what devices still have to tell.
    void ask_devices() noexcept;
    // Writes the files; once. Waits where another thread is doing so.
    void finish() noexcept;

    // Around a fork, so that the child copies what is whole.
    void before_fork();
    void after_fork();
    // In the child, after that: what the parent watched stays the parent's, and so do its files.
    void start_over_in_child();

  private:
    void start_trace();
    // In a forked child that calls something: files of its own, where they have names of their own.
    void start_in_child();
    void write_record() noexcept;
    void write_trace() noexcept;
    DeviceTimer *timer_of(DLDevice device, const DeviceProvider *provider);
    bool is_counting() const { return options_.record.has_value() || options_.latencies; }

    const Options options_;
    const Devices &devices_;
    const Log &log_;
    TickClock clock_; // of what is timed without a trace
    enum class State { watches, finishes, finished };

    std::atomic<State> state_{State::watches};
    std::atomic<bool> is_idle_child_{false};
    std::atomic<bool> has_warned_{false}; // that the record cannot be written

    mutable std::mutex mutex_; // of what follows
    CallTable table_;
    std::map<std::pair<int32_t, int32_t>, std::unique_ptr<DeviceTimer>> timers_;
    std::unique_ptr<TraceRing> ring_;
    const std::unique_ptr<ProfilerRanges> ranges_;

    std::unique_ptr<BackgroundThread> writer_; // of the record; last, as it uses the rest
};

} // namespace opdock::core
