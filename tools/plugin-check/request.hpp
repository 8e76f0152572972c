// What the command line of plugin-check asks for.
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
    std::vector<std::string> ops;   // none: all
    std::vector<std::string> impls; // none: all of the files
    std::vector<std::string> modules;
    Pins pins;
    std::string shapes; // a file of them, in place of pins
    std::string replay; // the file of a call, in place of pins
    std::string device; // "": the first of the implementation's kind
    std::optional<uint64_t> seed;
    std::optional<uint64_t> only_case;
    unsigned threads = 4;
    double timeout = 60;       // seconds for a case
    double config_seconds = 5; // for the configs of a case
    std::string newest_glibc;  // "": any
    bool lists = false;        // what would be checked
    bool json = false;
    std::string junit;
    std::string html;
    bool force = false;
};

extern const cli::Tool<Request> tool;

} // namespace opdock::plugin_check
