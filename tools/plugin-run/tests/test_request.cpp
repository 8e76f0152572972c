#include "request.hpp"

#include <sstream>

#include <doctest/doctest.h>

using namespace opdock::plugin_run;
using opdock::cli::UsageError;

namespace {

Request parse_request(const std::vector<std::string> &arguments) {
    return tool.read(arguments).request;
}

} // namespace

TEST_CASE("the command line of the manual is understood") {
    const Request request = parse_request({"rmsnorm_fwd", "--in", "input=x.npy", "--in", "weight=w.npy", "--attr",
                                           "eps=1e-6", "--output", "output=y.npy", "--output", "rsigma"});
    CHECK(request.op == "rmsnorm_fwd");
    REQUIRE(request.inputs.size() == 2);
    CHECK(request.inputs[1].name == "weight");
    CHECK(request.inputs[1].text == "w.npy");
    CHECK(request.attributes[0].text == "1e-6");
    CHECK(request.outputs[0].text == "y.npy");
    CHECK(request.outputs[1].text.empty());
    CHECK(request.device.empty());
    CHECK(request.repeat == 0);
}

TEST_CASE("only the first equals sign separates") {
    CHECK(parse_request({"op", "--in", "a=dir=x/a.npy"}).inputs[0].text == "dir=x/a.npy");
}

TEST_CASE("an argument without its name or value is a usage error") {
    CHECK_THROWS_AS(parse_request({"op", "--in", "x.npy"}), UsageError);
    CHECK_THROWS_AS(parse_request({"op", "--in", "=x.npy"}), UsageError);
    CHECK_THROWS_AS(parse_request({"op", "--attr", "eps="}), UsageError);
    CHECK_THROWS_AS(parse_request({"op", "--output", "y="}), UsageError);
}

TEST_CASE("one op is needed, and one only") {
    CHECK_THROWS_AS(parse_request({}), UsageError);
    CHECK_THROWS_WITH_AS(parse_request({"gelu", "relu"}), "one op at a time; 'relu' is a second op", UsageError);
    CHECK(tool.read({"--help"}).text == tool.help());
    CHECK(tool.read({"--version"}).text.starts_with("plugin-run "));
}

TEST_CASE("repeat and seed are whole numbers in range") {
    CHECK(parse_request({"op", "--repeat", "10"}).repeat == 10);
    CHECK(parse_request({"op", "--seed", "18446744073709551615"}).seed == 18446744073709551615u);
    for (const char *wrong : {"0", "-1", "1.5", "many", "1000001"}) {
        INFO(wrong);
        CHECK_THROWS_AS(parse_request({"op", std::string("--repeat=") + wrong}), UsageError);
    }
    for (const char *wrong : {"-1", "0x10", "18446744073709551616"}) {
        INFO(wrong);
        CHECK_THROWS_AS(parse_request({"op", std::string("--seed=") + wrong}), UsageError);
    }
}

TEST_CASE("an op alone asks what it expects, and so it does with options that call nothing") {
    CHECK(asks_what_is_expected(parse_request({"op"})));
    CHECK(asks_what_is_expected(parse_request({"op", "--json", "--modules", "/x.so", "--device", "cpu"})));
    CHECK_FALSE(asks_what_is_expected(parse_request({"op", "--in", "a=x.npy"})));
    CHECK_FALSE(asks_what_is_expected(parse_request({"op", "--output", "y"})));
    CHECK_FALSE(asks_what_is_expected(parse_request({"op", "--impl", "vendor.acme"})));
    CHECK_FALSE(asks_what_is_expected(parse_request({"op", "--repeat", "3"})));
}

TEST_CASE("an argument without a source is told which there are") {
    CHECK_THROWS_WITH_AS(parse_request({"op", "--in", "a="}),
                         "--in 'a=': expected NAME=SOURCE\n"
                         "  SOURCE is FILE.npy, FILE.safetensors:NAME, random:bf16[64,1024],\n"
                         "  random:i64[8]:0..100, spaced:i32[9]:0..64, zeros:DTYPE[DIMS]\n"
                         "  or ones:DTYPE[DIMS]",
                         UsageError);
}

TEST_CASE("help fits a terminal of 80 columns") {
    std::istringstream lines(tool.help());
    for (std::string line; std::getline(lines, line);) {
        INFO(line);
        CHECK(line.size() <= 80);
    }
}

TEST_CASE("the help names every option") {
    for (const char *option : {"--in", "--attr", "--output", "--device", "--impl", "--repeat", "--seed", "--modules",
                               "--json", "--version", "--help", "Examples:"}) {
        INFO(option);
        CHECK(tool.help().find(option) != std::string::npos);
    }
}
