// Reports of a running host: the file that METRICS names, and the tables of REPORT on stderr.
//
// Reports never harm a call: a failure to write is one line in the log.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "observe/background_thread.hpp"
#include "observe/process_file.hpp"
#include "text/environment.hpp"

namespace opdock::core {

class Host;

class Observation {
  public:
    struct Settings {
        std::optional<ProcessFile> metrics;
        std::chrono::nanoseconds interval = BackgroundThread::no_interval; // between two writes of the file
        Report report = Report::off;

        // Throws Error(OPDOCK_INVALID_POLICY).
        static Settings of(const Environment &environment);
        bool asks_for_nothing() const { return !metrics && report == Report::off; }
    };

    // Prints the implementations that serve each op. The host must outlive end().
    Observation(const Host &host, Settings settings);
    ~Observation() { end(); }
    Observation(const Observation &) = delete;
    Observation &operator=(const Observation &) = delete;

    // Writes and prints the reports for the last time. Waits if another thread is doing so.
    void end() noexcept;

    // In a forked child, which has a file only if the file's name has %p, and no thread before its first call.
    void start_over_in_child();
    void start_in_child() noexcept;

  private:
    enum class State { runs, ends, ended };

    void start_thread() noexcept;
    void work();
    void write_metrics();
    void print_counters() const;
    void warn_once(const std::string &what);

    const Host &host_;
    const Settings settings_;
    std::atomic<State> state_{State::runs};
    std::atomic<bool> has_warned_{false};
    uint32_t asked_before_ = 0; // asked_by_signal when it last worked
    std::unique_ptr<BackgroundThread> thread_;
};

} // namespace opdock::core
