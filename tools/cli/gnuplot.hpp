// Drawings by gnuplot.
#pragma once

#include <string>

namespace opdock::cli {

// Throws Failure when there is no gnuplot: to be called before anything is measured.
void require_gnuplot();

// In double quotes; of a plugin's strings only what means nothing to gnuplot.
std::string gnuplot_text(const std::string &text);

// The SVG that it makes of a script. Throws Failure with what it said.
std::string run_gnuplot(const std::string &script);

// Throws UsageError unless the file that --plot names ends in .svg, or has no ending.
void check_plot_name(const std::string &path);

} // namespace opdock::cli
