// What the command line of plugin-run asks for, as text; whether it fits the op is the next question.
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
    std::string file; // of a call to be made again, in place of `op`
    std::vector<Named> inputs;
    std::vector<Named> attributes;
    std::vector<Named> outputs; // the text may be ""
    bool force = false;         // overwrite their files
    std::string device;         // "": the CPU, or that of the file
    std::string impl;           // "" leaves the choice to the policy
    uint32_t repeat = 0;        // timed calls after the first
    uint64_t seed = 0;
    bool json = false;
    std::vector<std::string> modules; // absolute
};

// Whether it only names an op, to learn what that expects.
bool asks_what_is_expected(const Request &request);

extern const cli::Tool<Request> tool;

} // namespace opdock::plugin_run
