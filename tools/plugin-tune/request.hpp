// The command line of plugin-tune.
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
    Subject subject; // of the command line; with --all, for export, list and forget: only op and implementation
    bool shows_expected = false; // show what the op expects, instead of tuning
    std::string shapes;
    bool all = false;
    std::string device;          // "": that of recorded shapes, else the CPU
    bool runs_elsewhere = false; // run recorded shapes on `device`, whatever device they ran on
    double budget = 10;          // seconds for each shape
    double total_budget = 0;     // seconds; 0: no limit
    uint32_t strategy = 0;       // OPDOCK_TUNE_
    uint32_t flags = 0;          // OPDOCK_TUNE_
    std::string model;           // for list and forget, like the two below
    std::string dtypes;
    std::string version;            // "build ab12..."
    std::vector<std::string> files; // for import, merge and convert; else the op
    std::vector<Named> renames;     // old and new name of an op
    std::string out;
    std::string plot;
    bool force = false;
    bool json = false;
    std::vector<std::string> modules; // absolute
};

extern const cli::Tool<Request> tool;

} // namespace opdock::plugin_tune
