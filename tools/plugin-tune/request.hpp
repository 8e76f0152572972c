// What the command line of plugin-tune asks for.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cli/tool.hpp"
#include "op-call/subject.hpp"

namespace opdock::plugin_tune {

using op_call::Named;
using op_call::Subject; // without an implementation, the head of the op's chain is tuned

struct Request {
    Subject subject; // of the command line; only the op and the implementation with --all, for export, list and forget
    bool shows_expected = false; // what the op expects, in place of tuning
    std::string shapes;
    bool all = false;
    std::string device;          // "": that of recorded shapes, else the CPU
    bool runs_elsewhere = false; // recorded shapes run on `device`, whatever they ran on
    double budget = 10;          // seconds for each shape
    double total_budget = 0;     // seconds; 0: no limit
    uint32_t strategy = 0;       // OPDOCK_TUNE_
    uint32_t flags = 0;          // OPDOCK_TUNE_
    std::string model;           // of list and forget, as the two below
    std::string dtypes;
    std::string version;            // "build ab12..."
    std::vector<std::string> files; // of import, merge and convert; else the op
    std::vector<Named> renames;     // op, its new name
    std::string out;
    std::string plot;
    bool force = false;
    bool json = false;
    std::vector<std::string> modules; // absolute
};

extern const cli::Tool<Request> tool;

} // namespace opdock::plugin_tune
