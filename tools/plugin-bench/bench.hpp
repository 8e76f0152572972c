// The measurement itself: the ceilings, each shape in turn, the cost of calls, then the ceilings again.
#pragma once

#include <nlohmann/json.hpp>

#include "cli/interrupt.hpp"
#include "cli/progress.hpp"
#include "device_facts.hpp"
#include "plan.hpp"
#include "request.hpp"

namespace opdock::plugin_bench {

// Returns the document opdock.plugin-bench/1, rates included. If one shape fails, the others are still timed.
nlohmann::json bench(const Host &host, const Request &request, const DeviceFacts &facts, const Plan &plan,
                     const cli::Interrupts &interrupts, cli::Progress &progress);

} // namespace opdock::plugin_bench
