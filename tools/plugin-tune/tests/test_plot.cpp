#include "plot.hpp"

#include <doctest/doctest.h>

#include "documents.hpp"

using namespace opdock::plugin_tune;

TEST_CASE("a drawing has what was tuned and nothing else") {
    const std::string script = plot_script(every_outcome());
    CHECK(script.find("1 \"norm input=f32[4,8] eps=1e-6  default.cpu\" 1.25 \"12.5 us to 10 us  block=256\"\nEND\n") !=
          std::string::npos);
    CHECK(script.find("\n2 ") == std::string::npos);
}

TEST_CASE("without anything tuned there is nothing to draw") {
    nlohmann::json document = every_outcome();
    document["shapes"] = nlohmann::json::array();
    CHECK(plot_script(document).empty());
}

TEST_CASE("what a name holds cannot command gnuplot") {
    nlohmann::json document = every_outcome();
    document["shapes"][0]["op"] = "norm\"\nEND\nsystem('touch x')\\`$";
    const std::string script = plot_script(document);
    CHECK(script.find("norm??END?system(?touch x?)??? input") != std::string::npos);
}
