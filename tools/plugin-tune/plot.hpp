// --plot: a plot of the best against the default config.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace opdock::plugin_tune {

// The gnuplot script; "" if no shape was tuned.
std::string plot_script(const nlohmann::json &document);

} // namespace opdock::plugin_tune
