// Drawings by gnuplot.
#pragma once

#include <string>

namespace opdock::cli {

// Where gnuplot is. Throws Failure when it is nowhere: to be asked before anything is measured.
std::string find_gnuplot();

// In double quotes; of a plugin's strings only what means nothing to gnuplot.
std::string gnuplot_text(const std::string &text);

// The SVG that it makes of a script. Throws Failure with what it said.
std::string run_gnuplot(const std::string &gnuplot, const std::string &script);

// Throws UsageError unless the file that --plot names ends in .svg, or has no ending.
void check_plot_name(const std::string &path);

} // namespace opdock::cli
