// Call counts of implementations, as JSON for programs, OpenMetrics text for monitoring and a table for people.
#pragma once

#include <span>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "dispatch/call_counts.hpp"
#include "observe/latency.hpp"

namespace opdock::core {

// True if no call was counted.
bool nothing_counted(std::span<const CountedImplementation> counted);

// See opdock_counters.
nlohmann::json counters_json(std::span<const CountedImplementation> counted);

// OpenMetrics 1.0, including its final line. `latencies`: of sampled calls.
std::string open_metrics(std::span<const CountedImplementation> counted, std::span<const Latency> latencies = {});

// A row for each implementation that was called. Empty if there is none.
std::string counters_table(std::span<const CountedImplementation> counted);

} // namespace opdock::core
