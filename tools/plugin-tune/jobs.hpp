// The shapes to tune, checked against the available ops before anything is measured.
#pragma once

#include <string>
#include <vector>

#include "op-call/job.hpp"
#include "opdock/opdock.hpp"
#include "request.hpp"

namespace opdock::plugin_tune {

using op_call::Job;

// An implementation or call that --all or a recording leaves out, and the reason.
struct LeftOut {
    std::string op;
    std::string impl;
    std::string reason;
};

struct Plan {
    std::vector<Job> jobs;
    std::vector<LeftOut> left_out;
};

// Throws opdock::Error for an unknown op and a call that the op does not accept, cli::Failure for an unknown
// implementation, and cli::UsageError for invalid arguments; for those from a file, the message begins with the place.
Plan plan(const Host &host, const Request &request);

} // namespace opdock::plugin_tune
