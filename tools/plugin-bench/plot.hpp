// --plot: the fraction of the device's peak that each implementation reaches, and its time over size.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace opdock::plugin_bench {

// Returns a gnuplot script; "" if nothing was timed. The bars show each op's largest shape; ops nearest to the roofline
// come first.
std::string plot_script(const nlohmann::json &document);

} // namespace opdock::plugin_bench
