// The options and arguments of plugin-bisect.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/tool.hpp"

namespace opdock::plugin_bisect {

struct Request {
    std::vector<std::string> command; // the words after "--"
    std::string score;                // a regular expression; "": judge by the exit code
    std::optional<double> at_least;   // lowest good score; a count if scores are counts
    std::optional<double> at_most;
    uint64_t of = 0; // scores are counts out of this many; 0: not counts
    uint64_t repeats = 1;
    double alpha = 0.05;
    double timeout = 0;                            // seconds; 0: none
    std::string good = "reference|default|vendor"; // the order for an op whose suspects are replaced
    std::vector<std::string> ops;                  // the only ops that may be suspects; empty: all
    bool first = false;
    std::string state;
    bool json = false;
    std::vector<std::string> modules;
};

extern const cli::Tool<Request> tool;

// Splits the tool's arguments from the command: the parts before and after the first "--".
std::pair<std::vector<std::string>, std::vector<std::string>> split(const std::vector<std::string> &arguments);

} // namespace opdock::plugin_bisect
