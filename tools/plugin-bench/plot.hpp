// --plot: how near each implementation comes to what the device can do, and how long it takes over size.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace opdock::plugin_bench {

// What gnuplot is told; "" when nothing was timed. Bars are of each op's largest shape, the ops that come nearest to
// the roofline first.
std::string plot_script(const nlohmann::json &document);

} // namespace opdock::plugin_bench
