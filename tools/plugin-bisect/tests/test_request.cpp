#include "request.hpp"

#include <doctest/doctest.h>

using namespace opdock::plugin_bisect;
using opdock::cli::UsageError;
using Texts = std::vector<std::string>;

namespace {

Request parse_request(const Texts &arguments) {
    return tool.read(arguments).request;
}

} // namespace

TEST_CASE("what stands behind -- is the command's own, whatever it looks like") {
    const auto [own, command] = split({"--json", "--", "run", "--json", "--", "x\ny"});
    CHECK(own == Texts{"--json"});
    CHECK(command == Texts{"run", "--json", "--", "x\ny"});
    CHECK(split({"--json"}).second.empty());
    CHECK_THROWS_WITH_AS(parse_request({"./run.sh"}),
                         "'./run.sh': the command goes after '--', as in plugin-bisect -- ./run.sh", UsageError);
}

TEST_CASE("a threshold is spelled as scores are") {
    const auto of_50 = [](const char *text) {
        return parse_request({"--score", "x", "--of", "50", "--at-least", text}).at_least;
    };
    CHECK(of_50("45") == 45);
    CHECK(of_50("0.9") == 45);
    CHECK(of_50("90%") == 45);
    CHECK_THROWS_AS(of_50("51"), UsageError);
    CHECK(parse_request({"--score", "x", "--at-most", "-1.5"}).at_most == -1.5);
    CHECK_THROWS_AS(parse_request({"--score", "x", "--at-most", "1x"}), UsageError);
}

TEST_CASE("a score needs something that says which ones are bad") {
    CHECK_THROWS_AS(parse_request({"--score", "x"}), UsageError);
    CHECK_THROWS_AS(parse_request({"--score", "(", "--at-least", "1"}), UsageError);
    CHECK_THROWS_AS(parse_request({"--score", "x", "--at-least", "1", "--at-most", "2"}), UsageError);
    CHECK(parse_request({"--score", "x", "--repeats", "2"}).repeats == 2);
    CHECK(parse_request({"--score", "x", "--of", "10"}).of == 10);
    CHECK_THROWS_AS(parse_request({"--at-least", "1"}), UsageError);
    CHECK_THROWS_AS(parse_request({"--of", "10"}), UsageError);
}

TEST_CASE("a significance is a probability") {
    CHECK(parse_request({"--alpha", "0.01"}).alpha == 0.01);
    CHECK_THROWS_AS(parse_request({"--alpha", "0"}), UsageError);
    CHECK_THROWS_AS(parse_request({"--alpha", "5"}), UsageError);
    CHECK_THROWS_AS(parse_request({"--alpha", "x"}), UsageError);
}

TEST_CASE("ops have opdock's names, and a time limit is a time") {
    CHECK(parse_request({"--op", "dgelu"}).ops == Texts{"gelu_bwd"});
    CHECK(parse_request({"--timeout", "2m"}).timeout == 120);
}
