// --plot: best against default as a drawing, by gnuplot.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace opdock::plugin_tune {

// Where gnuplot is. Throws cli::Failure when it is nowhere: to be asked before anything is measured.
std::string find_gnuplot();

// What it is told; "" when no shape was tuned.
std::string plot_script(const nlohmann::json &document);

// The SVG that it makes of a script. Throws cli::Failure with what it said.
std::string run_gnuplot(const std::string &gnuplot, const std::string &script);

} // namespace opdock::plugin_tune
