// What is to be tuned, checked against the ops that are there before anything is measured.
#pragma once

#include <string>
#include <vector>

#include "op-call/job.hpp"
#include "opdock/opdock.hpp"
#include "request.hpp"

namespace opdock::plugin_tune {

using op_call::Job;

// What --all and records of calls leave out of what could be tuned, and why.
struct LeftOut {
    std::string op;
    std::string impl;
    std::string reason;
};

struct Plan {
    std::vector<Job> jobs;
    std::vector<LeftOut> left_out;
};

// Throws opdock::Error for an unknown op and a call that it does not take, cli::Failure for an unknown implementation,
// and cli::UsageError for arguments that do not fit; where a file asked for them, the message begins with the place.
Plan plan(const Host &host, const Request &request);

} // namespace opdock::plugin_tune
