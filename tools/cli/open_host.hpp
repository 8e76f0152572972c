// Opens the host for a tool. A tool prints what the user requested, so only the part of the host's log that needs
// attention is shown.
#pragma once

#include <cerrno>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <sys/stat.h>

#include "cli/exit.hpp"
#include "cli/printable.hpp"
#include "cli/variables.hpp"
#include "opdock/opdock.hpp"

namespace opdock::cli {

// Writes each line of a message with the message's prefix, "[opdock] [LEVEL] ", and an indentation from the second line
// on, as the host does itself.
inline void write_log_line(const std::string &message) {
    constexpr std::string_view name = "[opdock] ";
    const size_t end = message.starts_with(name) ? message.find("] ", name.size()) : std::string::npos;
    const std::string beginning = end == std::string::npos ? "" : message.substr(0, end + 2);
    std::string lines;
    for (const char c : message) {
        lines += c;
        if (c == '\n') {
            lines += beginning + "    ";
        }
    }
    std::cerr << lines + "\n";
}

// Throws Failure if a module cannot be accessed: a module named on the command line is required.
inline void look_at_module(const std::string &module, const std::string &option = "--modules") {
    struct stat status = {};
    if (::stat(module.c_str(), &status) == 0) {
        return;
    }
    const int reason = errno;
    const std::string named = option.empty() ? module : option + " " + module;
    if (reason == ENOENT || reason == ENOTDIR) {
        const bool looks_like_several = !option.empty() && module.find_first_of(",:") != std::string::npos;
        throw Failure(named + ": there is no such file or directory" +
                      (looks_like_several ? "; " + option + " takes one path; repeat it for more"
                                          : "; correct the path, or build what it names"));
    }
    throw Failure(named + ": OPDOCK-E002: it cannot be accessed: " + std::generic_category().message(reason) +
                  ". Expected a file or directory that you may read; check its path, and the permissions of the "
                  "directories above it");
}

// True if the user requested the unfiltered log.
inline bool log_is_wanted() {
    return secure_getenv(variable_name("LOG_LEVEL").c_str()) != nullptr;
}

// Disables PLUGIN_TRACE and PLUGIN_RECORD: a tool that makes calls itself would overwrite the files of a program's
// calls. Call it before other threads run.
inline void observe_no_calls() {
    for (const char *variable : {"TRACE", "RECORD"}) {
        ::unsetenv(variable_name(variable).c_str());
    }
}

// Plugins of the scan cache to try again: none, those of `modules` that the cache excludes, all.
enum class Again { none, modules, all };

// Throws like look_at_module. Warnings and errors go to `write`, made printable; the rest of the log does too if
// `whole_log` is set or PLUGIN_LOG_LEVEL asks for it.
inline Host open_host(const std::vector<std::string> &modules, bool whole_log,
                      const std::function<void(const std::string &)> &write = write_log_line,
                      Again again = Again::none) {
    for (const std::string &module : modules) {
        look_at_module(module);
    }
    Options options;
    options.prefix = variable_prefix();
    options.modules = modules;
    options.rescan = again == Again::all;
    options.retry = again == Again::modules;
    const bool all = whole_log || log_is_wanted();
    options.log = [all, write](int32_t level, std::string_view line) {
        if (all || level >= OPDOCK_LOG_WARNING) {
            write(printable(line));
        }
    };
    return Host(options);
}

} // namespace opdock::cli
