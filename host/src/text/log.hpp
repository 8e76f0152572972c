// The host's log: one line for each thing that people grep for, on stderr or to the program's callback.
//
//     [opdock dispatch.cpp:90 INFO] Op 'rmsnorm_fwd' using 'vendor.acme' (kind=vendor, vendor=acme)
//
// A line is formatted on the caller's stack and written with one write(2): no lock that a forked child could inherit,
// and lines of two threads do not mix.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include <spdlog/logger.h>

#include "opdock/opdock.h"

namespace opdock::core {

// Takes the caller's file and line by builtins: clang 14 has no std::source_location.
class Log {
  public:
    using Callback = void (*)(void *user_data, int32_t level, const char *line);

    Log() : Log(nullptr, nullptr) {}
    // A null callback writes to stderr.
    Log(Callback callback, void *user_data);

    // `level` is an OPDOCK_LOG_ value; lines below it are dropped.
    void set_level(int32_t level);
    // For those who would rather not make a line that nobody reads.
    bool writes(int32_t level) const;

    void debug(std::string_view message, const char *file = __builtin_FILE(), int line = __builtin_LINE()) const {
        write(OPDOCK_LOG_DEBUG, message, file, line);
    }
    void info(std::string_view message, const char *file = __builtin_FILE(), int line = __builtin_LINE()) const {
        write(OPDOCK_LOG_INFO, message, file, line);
    }
    void warning(std::string_view message, const char *file = __builtin_FILE(), int line = __builtin_LINE()) const {
        write(OPDOCK_LOG_WARNING, message, file, line);
    }
    void error(std::string_view message, const char *file = __builtin_FILE(), int line = __builtin_LINE()) const {
        write(OPDOCK_LOG_ERROR, message, file, line);
    }
    void write(int32_t level, std::string_view message, const char *file, int line) const;

  private:
    std::shared_ptr<spdlog::logger> logger_;
};

} // namespace opdock::core
