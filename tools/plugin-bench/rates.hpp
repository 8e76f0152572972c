// Times as rates, and rates against what the device can do.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace opdock::plugin_bench {

// Adds to each timed implementation of the document "bytes_per_second" and "of_copy", of linear ops "flops_per_second"
// and "of_matmul", and "roofline": the time that the slower of the two ceilings would take, as a fraction of the time
// it took. What asks for an unknown ceiling is null.
void add_rates(nlohmann::json &document);

// "12.5 us", "3.1 ms"
std::string time_text(double microseconds);

// "4.25 TB/s" for `unit` "B/s".
std::string rate_text(double per_second, const std::string &unit);

// "83 %"
std::string percent_text(double fraction);

} // namespace opdock::plugin_bench
