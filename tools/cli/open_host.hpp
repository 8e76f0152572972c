// Opens the host for a tool. A tool prints what it was asked for, so of the host's log only what needs attention is
// shown.
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

// Each line of a message with the message's beginning, "[opdock] [LEVEL] ", and indented from the second on, as the
// host writes them itself.
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

// Throws Failure when a module cannot be looked at: whoever names one on the command line wants that one.
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
                      (looks_like_several ? "; " + option + " takes one path, and may be repeated"
                                          : "; correct the path, or build what it names"));
    }
    throw Failure(named + ": OPDOCK-E002: it cannot be looked at: " + std::generic_category().message(reason) +
                  ". Expected a file or directory that you may read; check its path, and the permissions of the "
                  "directories above it");
}

// Whether the user asked for the log as it is.
inline bool log_is_wanted() {
    return secure_getenv(variable_name("LOG_LEVEL").c_str()) != nullptr;
}

// Leaves PLUGIN_TRACE and PLUGIN_RECORD without effect: a tool that makes calls of its own would overwrite what a
// program's calls left. Before other threads run.
inline void observe_no_calls() {
    for (const char *variable : {"TRACE", "RECORD"}) {
        ::unsetenv(variable_name(variable).c_str());
    }
}

// Which plugins are tried that the scan cache knows: none, those of `modules` that it keeps from being tried, all.
enum class Again { none, modules, all };

// Throws as look_at_module does. Warnings and errors go to `write`, made printable; so does all else if `whole_log` is
// set or PLUGIN_LOG_LEVEL asks for it.
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
