// Opens the host for a tool. A tool prints what it was asked for, so of the host's log only what needs attention is
// shown.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include "cli/exit.hpp"
#include "cli/printable.hpp"
#include "opdock/opdock.hpp"

namespace opdock::cli {

inline void write_log_line(const std::string &line) {
    std::cerr << line + "\n";
}

// Whether the user asked for the log as it is.
inline bool log_is_wanted() {
    return secure_getenv("PLUGIN_LOG_LEVEL") != nullptr;
}

// Throws Failure when a module is not there: whoever names one on the command line wants that one. Warnings and errors
// go to `write`, made printable; so does all else if `whole_log` is set or PLUGIN_LOG_LEVEL asks for it. `rescan`: as
// in Options.
inline Host open_host(const std::vector<std::string> &modules, bool whole_log,
                      const std::function<void(const std::string &)> &write = write_log_line, bool rescan = false) {
    for (const std::string &module : modules) {
        if (!std::filesystem::exists(module)) {
            throw Failure("--modules " + module + ": there is no such file or directory");
        }
    }
    Options options;
    options.modules = modules;
    options.rescan = rescan;
    const bool all = whole_log || log_is_wanted();
    options.log = [all, write](int32_t level, std::string_view line) {
        if (all || level >= OPDOCK_LOG_WARNING) {
            write(printable(line));
        }
    };
    return Host(options);
}

} // namespace opdock::cli
