// Plots made with gnuplot.
#pragma once

#include <string>

namespace opdock::cli {

// Throws Failure if there is no gnuplot: call it before anything is measured.
void require_gnuplot();

// `text` in double quotes, without characters that are special to gnuplot: it may come from a plugin.
std::string gnuplot_text(const std::string &text);

// Returns the SVG that gnuplot makes of a script. Throws Failure with gnuplot's message.
std::string run_gnuplot(const std::string &script);

// Throws UsageError unless the file name given to --plot ends in .svg, or has no extension.
void check_plot_name(const std::string &path);

} // namespace opdock::cli
