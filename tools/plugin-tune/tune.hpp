// Tuning itself: one shape after the other, within the budgets, until it is done or somebody interrupts it.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "cli/interrupt.hpp"
#include "cli/progress.hpp"
#include "jobs.hpp"
#include "opdock/opdock.hpp"
#include "request.hpp"

namespace opdock::plugin_tune {

// The document opdock.plugin-tune/1. A shape that fails does not keep the others from being tuned.
nlohmann::json tune_all(const Host &host, const Request &request, const Plan &plan, const cli::Interrupts &interrupts,
                        cli::Progress &progress);

// What the next of `left` shapes may take, when `spent` seconds are gone. 0: nothing is left.
double budget_of_next(const Request &request, double spent, size_t left);

} // namespace opdock::plugin_tune
