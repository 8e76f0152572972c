// Times as rates, and rates against what the device can do.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace opdock::plugin_bench {

// Adds to each timed implementation of the document "bytes_per_second" and "of_copy", of linear ops "flops_per_second"
// and "of_matmul", and "roofline": the time that the slower of the two ceilings would take, as a fraction of the time
// it took. What asks for an unknown ceiling is null.
void add_rates(nlohmann::json &document);

} // namespace opdock::plugin_bench
