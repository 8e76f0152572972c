// The end of a tool: one of three exit codes, unless the tool distinguishes more, and one line on stderr that says why.
#pragma once

#include <functional>
#include <stdexcept>
#include <string>

namespace opdock::cli {

inline constexpr int exit_fine = 0;
inline constexpr int exit_absent = 1; // the subject is absent, was rejected or failed
inline constexpr int exit_usage = 2;  // the command line is wrong

// An error of the command line.
struct UsageError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// The command line is correct, but the request cannot be fulfilled.
struct Failure : std::runtime_error {
    explicit Failure(const std::string &message, int exit_code = exit_absent)
        : std::runtime_error(message), code(exit_code) {}

    int code;
};

// Runs `body` and returns the exit code. Exceptions go to stderr as "TOOL: message", made printable; output that could
// not be written (a full disk, a closed pipe) is a failure too.
int run_tool(const std::string &tool, const std::function<int()> &body);

} // namespace opdock::cli
