// The shapes to time, and the implementations to time on them.
#pragma once

#include <string>
#include <vector>

#include "op-call/job.hpp"
#include "race.hpp"
#include "request.hpp"

namespace opdock::plugin_bench {

// A shape and the implementations that may run it.
struct Entry {
    op_call::Job job;
    std::vector<Timing> contenders;
};

// An op that --all or a record of calls leaves out, and why.
struct LeftOut {
    std::string op;
    std::string reason;
};

struct Plan {
    std::vector<Entry> entries;
    std::vector<LeftOut> left_out;
};

// Throws opdock::Error for an unknown op and for a call that it does not take, cli::UsageError for arguments that do
// not fit, and cli::Failure if the device has no implementation of an op, or none of a name given by --impl.
Plan plan(const Host &host, const Request &request);

} // namespace opdock::plugin_bench
