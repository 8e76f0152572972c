// The host's log: one line for each event that people grep for, on stderr or to the program's callback.
//
//     [2026-11-23 02:40:11.123Z] [opdock] [info] [1204:1209] Op 'rmsnorm_fwd' using 'vendor.acme' (kind=vendor, ...)
//
// The time is UTC; the numbers are process and thread ids. The level is coloured if stderr is a terminal and NO_COLOR
// is not set. A callback receives the line without time, process and thread, which the program's own log adds. A line
// is formatted on the caller's stack and written with one write(2): there is no lock that a forked child could inherit,
// and lines of different threads do not mix.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include <spdlog/logger.h>

#include "opdock/opdock.h"

namespace opdock::core {

class Log {
  public:
    using Callback = void (*)(void *user_data, int32_t level, const char *line);

    Log() : Log(nullptr, nullptr) {}
    // With a null callback, writes to stderr.
    Log(Callback callback, void *user_data);

    // `level` is an OPDOCK_LOG_ value; messages below it are dropped.
    void set_level(int32_t level);
    // Lets callers skip building a message that would be dropped.
    bool writes(int32_t level) const;

    void debug(std::string_view message) const { write(OPDOCK_LOG_DEBUG, message); }
    void info(std::string_view message) const { write(OPDOCK_LOG_INFO, message); }
    void warning(std::string_view message) const { write(OPDOCK_LOG_WARNING, message); }
    void error(std::string_view message) const { write(OPDOCK_LOG_ERROR, message); }
    void write(int32_t level, std::string_view message) const;

  private:
    std::shared_ptr<spdlog::logger> logger_;
};

} // namespace opdock::core
