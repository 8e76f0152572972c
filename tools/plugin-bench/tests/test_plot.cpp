#include "plot.hpp"

#include <doctest/doctest.h>

#include "documents.hpp"
#include "rates.hpp"

using namespace opdock::plugin_bench;

static nlohmann::json rated() {
    nlohmann::json document = every_outcome();
    add_rates(document);
    return document;
}

TEST_CASE("bars are sorted by the best of each op, each implementation with its own colour") {
    const std::string script = plot_script(rated());
    CHECK(script.find("$bars0 << END\n1 51.2 \"norm  f32  default.cpu\" \"51.2 percent, 50 ns\"\n"
                      "3 49.152 \"linear_fwd  f32  default.cpu\" \"49.2 percent, 10 us\"\nEND\n") != std::string::npos);
    CHECK(script.find("$bars1 << END\n2 5.12 \"norm  f32  reference.cpp\"") != std::string::npos);
}

TEST_CASE("bars are of the largest shape alone, lines of all shapes by size") {
    nlohmann::json document = rated();
    nlohmann::json larger = document["shapes"][0];
    larger["bytes"] = 512;
    document["shapes"].insert(document["shapes"].begin(), larger);
    const std::string script = plot_script(document);
    CHECK(script.find("$line2 << END\n256 0.5\n512 0.5\nEND\n") != std::string::npos);
    CHECK(script.find("set yrange [3.6:0.4]") != std::string::npos);
}

TEST_CASE("without anything timed there is nothing to draw") {
    nlohmann::json document = rated();
    document["shapes"] = nlohmann::json::array();
    CHECK(plot_script(document).empty());
}

TEST_CASE("what a name holds cannot command gnuplot") {
    nlohmann::json document = rated();
    document["shapes"][0]["op"] = "norm\"\nEND\nsystem('touch x')\\`$";
    CHECK(plot_script(document).find("norm??END?system(?touch x?)???  f32") != std::string::npos);
}
