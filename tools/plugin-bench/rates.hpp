// Converts times to rates, and rates to fractions of the ceilings.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace opdock::plugin_bench {

// Adds "bytes_per_second" and "of_copy" to each timed implementation of the document, "flops_per_second" and
// "of_matmul" to those of linear ops, and "roofline": the time at the slower of the two ceilings divided by the
// measured time. Values that need an unknown ceiling are null.
void add_rates(nlohmann::json &document);

} // namespace opdock::plugin_bench
