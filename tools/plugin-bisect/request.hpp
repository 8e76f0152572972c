// What the command line of plugin-bisect asks for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/tool.hpp"

namespace opdock::plugin_bisect {

struct Request {
    std::vector<std::string> command; // what stands behind "--"
    std::string score;                // a regular expression; "": the exit code tells
    std::optional<double> at_least;   // a score that is good; of counts, as one
    std::optional<double> at_most;
    uint64_t of = 0; // scores are counts out of so many; 0: they are not
    uint64_t repeats = 1;
    double alpha = 0.05;
    double timeout = 0;                            // seconds; 0: none
    std::string good = "reference|default|vendor"; // the order of an op whose suspects are replaced
    std::vector<std::string> ops;                  // which may be suspects; none: all
    bool first = false;
    std::string state;
    bool json = false;
    std::vector<std::string> modules;
};

extern const cli::Tool<Request> tool;

// Those of the tool, and the command: what stands before the first "--" and behind it.
std::pair<std::vector<std::string>, std::vector<std::string>> split(const std::vector<std::string> &arguments);

} // namespace opdock::plugin_bisect
