// The measurement itself: ceilings, one shape after the other, what calls cost, ceilings again.
#pragma once

#include <nlohmann/json.hpp>

#include "cli/interrupt.hpp"
#include "cli/progress.hpp"
#include "device_facts.hpp"
#include "plan.hpp"
#include "request.hpp"

namespace opdock::plugin_bench {

// The document opdock.plugin-bench/1, rates included. A shape that fails does not keep the others from being timed.
nlohmann::json bench(const Host &host, const Request &request, const DeviceFacts &facts, const Plan &plan,
                     const cli::Interrupts &interrupts, cli::Progress &progress);

} // namespace opdock::plugin_bench
