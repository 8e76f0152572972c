// --plot: best against default as a drawing.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace opdock::plugin_tune {

// What gnuplot is told; "" when no shape was tuned.
std::string plot_script(const nlohmann::json &document);

} // namespace opdock::plugin_tune
