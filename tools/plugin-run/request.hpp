// The command line of plugin-run, as text; it is matched with the op later.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/tool.hpp"
#include "op-call/named.hpp"

namespace opdock::plugin_run {

using op_call::Named;

struct Request {
    std::string op;
    std::string file; // of a call to replay, instead of `op`
    std::vector<Named> inputs;
    std::vector<Named> attributes;
    std::vector<Named> outputs; // the text may be ""
    bool force = false;         // overwrite output files
    std::string device;         // "": the file's, else the CPU
    std::string impl;           // "": chosen by the policy
    uint32_t repeat = 0;        // timed calls after the first
    uint64_t seed = 0;
    bool json = false;
    std::vector<std::string> modules; // absolute
};

// True if the request only names an op, to show what the op expects.
bool asks_what_is_expected(const Request &request);

extern const cli::Tool<Request> tool;

} // namespace opdock::plugin_run
