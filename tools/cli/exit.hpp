// How a tool ends: one of three codes, unless it has more to tell apart, and one line on stderr that says why.
#pragma once

#include <functional>
#include <stdexcept>
#include <string>

namespace opdock::cli {

inline constexpr int exit_fine = 0;
inline constexpr int exit_absent = 1; // what was asked for is absent, was rejected or failed
inline constexpr int exit_usage = 2;  // the command line is wrong

// The command line is wrong.
struct UsageError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// The command line is right and what it asks for cannot be had.
struct Failure : std::runtime_error {
    explicit Failure(const std::string &message, int exit_code = exit_absent)
        : std::runtime_error(message), code(exit_code) {}

    int code;
};

// Runs `body` and returns the exit code. What it throws goes to stderr as "TOOL: message", made printable; output that
// could not be written (a full disk, a closed pipe) is a failure too.
int run_tool(const std::string &tool, const std::function<int()> &body);

} // namespace opdock::cli
