#include "cli/gnuplot.hpp"

#include <doctest/doctest.h>

#include "cli/exit.hpp"

using namespace opdock::cli;

TEST_CASE("text for gnuplot keeps nothing that could end it or command anything") {
    CHECK(gnuplot_text("rmsnorm_fwd input=f32[4,8] +- 2") == "\"rmsnorm_fwd input=f32[4,8] +- 2\"");
    CHECK(gnuplot_text("a\"\n`b`\\$@{x}%") == "\"a???b?????x??\"");
}

TEST_CASE("a plot is SVG, by its name") {
    CHECK_NOTHROW(check_plot_name("gain.svg"));
    CHECK_NOTHROW(check_plot_name("gain"));
    CHECK_NOTHROW(check_plot_name(""));
    CHECK_THROWS_WITH_AS(check_plot_name("gain.png"), "--plot gain.png: the plot is SVG; name a file that ends in .svg",
                         UsageError);
}
