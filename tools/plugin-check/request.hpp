// The options and arguments of plugin-check.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/tool.hpp"
#include "pinned.hpp"

namespace opdock::plugin_check {

struct Request {
    std::vector<std::string> files; // absolute
    std::vector<std::string> ops;   // empty: all
    std::vector<std::string> impls; // empty: all those in the files
    std::vector<std::string> modules;
    Pins pins;
    std::string shapes; // a file of shapes, instead of pins
    std::string replay; // the file of a call, instead of pins
    std::string device; // "": the first device of the implementation's kind
    std::optional<uint64_t> seed;
    std::optional<uint64_t> only_case;
    unsigned threads = 4;
    double timeout = 60;       // seconds per case
    double config_seconds = 5; // for the configs of a case
    std::string newest_glibc;  // "": any
    bool lists = false;        // only list what would be checked
    bool json = false;
    std::string junit;
    std::string html;
    bool force = false;
};

extern const cli::Tool<Request> tool;

} // namespace opdock::plugin_check
