// What is to be timed, and by whom.
#pragma once

#include <string>
#include <vector>

#include "op-call/job.hpp"
#include "race.hpp"
#include "request.hpp"

namespace opdock::plugin_bench {

// One shape with the implementations that may run it.
struct Entry {
    op_call::Job job;
    std::vector<Timing> contenders;
};

// What --all and records of calls leave out, and why.
struct LeftOut {
    std::string op;
    std::string reason;
};

struct Plan {
    std::vector<Entry> entries;
    std::vector<LeftOut> left_out;
};

// Throws opdock::Error for an unknown op and a call that it does not take, cli::UsageError for arguments that do not
// fit, and cli::Failure when there is no implementation of an op on the device or none of a name that --impl gives.
Plan plan(const Host &host, const Request &request);

} // namespace opdock::plugin_bench
