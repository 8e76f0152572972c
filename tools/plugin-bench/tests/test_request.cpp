#include "request.hpp"

#include <sstream>

#include <doctest/doctest.h>

using namespace opdock::plugin_bench;
using opdock::cli::UsageError;

namespace {

Request parse_request(const std::vector<std::string> &arguments) {
    return tool.read(arguments).request;
}

} // namespace

TEST_CASE("one shape on the command line") {
    const Request request = parse_request({"rmsnorm_fwd", "--shape", "input=f32[4,8]", "--shape", "weight=f32[8]",
                                           "--attr", "eps=1e-6", "--output", "rsigma", "--impl", "default.cpu",
                                           "--impl", "vendor.acme", "--budget", "500ms", "--rounds", "7", "--cold"});
    CHECK_FALSE(request.shows_expected);
    CHECK(request.ops == std::vector<std::string>{"rmsnorm_fwd"});
    CHECK(request.impls == std::vector<std::string>{"default.cpu", "vendor.acme"});
    REQUIRE(request.inputs.size() == 2);
    CHECK(request.inputs[1].text == "f32[8]");
    CHECK(request.outputs == std::vector<std::string>{"rsigma"});
    CHECK(request.seconds == 0.5);
    CHECK(request.rounds == 7);
    CHECK(request.cold);
}

TEST_CASE("an op alone asks what it expects, several need --all, and nothing at all is wrong usage") {
    CHECK(parse_request({"gelu"}).shows_expected);
    CHECK(parse_request({"gelu", "silu", "--all"}).ops.size() == 2);
    CHECK_FALSE(parse_request({"--all"}).shows_expected);
    CHECK_THROWS_AS(parse_request({}), UsageError);
    CHECK_THROWS_WITH_AS(parse_request({"gelu", "relu"}), "one op at a time without --all; 'relu' is a second op",
                         UsageError);
    CHECK_THROWS_WITH_AS(parse_request({"gelu", "--json"}),
                         "--json prints measurements; add --shape, --shapes or --all", UsageError);
    CHECK_THROWS_WITH_AS(parse_request({"gelu", "--format", "json"}),
                         "--format json prints measurements; add --shape, --shapes or --all", UsageError);
    CHECK_THROWS_WITH_AS(parse_request({"gelu", "--format", "csv"}),
                         "--format csv prints measurements; add --shape, --shapes or --all", UsageError);
}

TEST_CASE("there is one way at a time to say what to time") {
    CHECK_THROWS_AS(parse_request({"gelu", "--shapes", "s.yaml"}), UsageError);
    CHECK_THROWS_AS(parse_request({"--all", "--shapes", "s.yaml"}), UsageError);
    CHECK_THROWS_AS(parse_request({"--all", "--shape", "a=f32[2]"}), UsageError);
    CHECK_THROWS_AS(parse_request({"--all", "--output", "a"}), UsageError);
    CHECK_THROWS_AS(parse_request({"--shapes", "s.yaml", "--output", "a"}), UsageError);
}

TEST_CASE("CSV can be printed, but not what is compared") {
    CHECK(parse_request({"--all", "--format", "csv"}).prints_csv);
    CHECK_FALSE(parse_request({"--all", "--csv", "x"}).prints_csv);
    CHECK(parse_request({"--all", "--format", "json"}).json);
    CHECK_THROWS_WITH_AS(parse_request({"--all", "--format", "csv", "--compare", "b.json"}),
                         "--format csv cannot show what --compare finds; write the table with --csv FILE", UsageError);
}

TEST_CASE("wrong values name their option") {
    CHECK_THROWS_AS(parse_request({"--all", "--rounds", "0"}), UsageError);
    CHECK_THROWS_AS(parse_request({"--all", "--budget", "soon"}), UsageError);
    CHECK_THROWS_AS(parse_request({"--all", "--plot", "x.png"}), UsageError);
    CHECK_THROWS_WITH_AS(parse_request({"--all", "--fail-above", "1.1"}),
                         "--fail-above limits what --compare may find; add --compare FILE", UsageError);
    for (const char *ratio : {"0.9", "x", "nan", ""}) {
        CHECK_THROWS_AS(parse_request({"--all", "--compare", "b.json", "--fail-above", ratio}), UsageError);
    }
    CHECK(parse_request({"--all", "--compare", "b.json", "--fail-above", "1.1"}).fail_above == 1.1);
}

TEST_CASE("help fits a terminal of 80 columns and names every option") {
    const std::string text = tool.help();
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        INFO(line);
        CHECK(line.size() <= 80);
    }
    CHECK(tool.read({"--help", "--force"}).text == text);
    for (const char *option :
         {"--shape", "--attr", "--output", "--shapes", "--all", "--impl", "--device", "--rounds", "--budget", "--cold",
          "--compare", "--fail-above", "--csv", "--plot", "--force", "--modules", "--json"}) {
        INFO(option);
        CHECK(text.find(option) != std::string::npos);
    }
}
