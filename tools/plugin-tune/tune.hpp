// Tunes one shape after the other, within the budgets, until all are done or the user interrupts.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "cli/interrupt.hpp"
#include "cli/progress.hpp"
#include "jobs.hpp"
#include "opdock/opdock.hpp"
#include "request.hpp"

namespace opdock::plugin_tune {

// Returns the document opdock.plugin-tune/1. A shape that fails does not prevent the tuning of the others.
nlohmann::json tune_all(const Host &host, const Request &request, const Plan &plan, const cli::Interrupts &interrupts,
                        cli::Progress &progress);

// The budget of the next of `left` shapes, after `spent` seconds. 0: the total budget is used up.
double budget_of_next(const Request &request, double spent, size_t left);

} // namespace opdock::plugin_tune
