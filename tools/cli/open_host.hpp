// Opens the host for a tool. A tool prints what it was asked for, so of the host's log only what needs attention is
// shown.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "cli/exit.hpp"
#include "cli/printable.hpp"
#include "opdock/opdock.hpp"

namespace opdock::cli {

// Throws Failure when a module is not there: whoever names one on the command line wants that one. Warnings and errors
// go to stderr; so does all else if `whole_log` is set or PLUGIN_LOG_LEVEL asks for it.
inline Host open_host(const std::vector<std::string> &modules, bool whole_log) {
    for (const std::string &module : modules) {
        if (!std::filesystem::exists(module)) {
            throw Failure("--modules " + module + ": there is no such file or directory");
        }
    }
    Options options;
    options.modules = modules;
    const bool all = whole_log || secure_getenv("PLUGIN_LOG_LEVEL") != nullptr;
    options.log = [all](int32_t level, std::string_view line) {
        if (all || level >= OPDOCK_LOG_WARNING) {
            std::cerr << printable(line) + "\n";
        }
    };
    return Host(options);
}

} // namespace opdock::cli
