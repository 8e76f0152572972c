#include "request.hpp"

#include <sstream>

#include <doctest/doctest.h>

using namespace opdock::plugin_ls;
using opdock::cli::UsageError;

namespace {

Request parse_request(const std::vector<std::string> &arguments) {
    return tool.read(arguments).request;
}

} // namespace

TEST_CASE("no arguments ask for everything") {
    const Request request = parse_request({});
    CHECK(request.show == Show::everything);
    CHECK_FALSE(request.json);
    CHECK_FALSE(request.verbose);
    CHECK(request.modules.empty());
}

TEST_CASE("every question carries its subject") {
    CHECK(parse_request({"--op", "gelu"}).show == Show::op);
    CHECK(parse_request({"--op", "gelu"}).subject == "gelu");
    CHECK(parse_request({"--exists=vendor.acme"}).subject == "vendor.acme");
    CHECK(parse_request({"--check", "/x/../y.so"}).subject == "/y.so");
    const Request why = parse_request({"--why", "gelu", "--device", "cuda:1", "--dtype", "bf16,f32"});
    CHECK(why.show == Show::why);
    CHECK(why.device == "cuda:1");
    CHECK(why.dtype == "bf16,f32");
}

TEST_CASE("modules keep the order they were given in and become absolute") {
    const Request request = parse_request({"--modules", "/b.so", "--json", "--modules", "a"});
    REQUIRE(request.modules.size() == 2);
    CHECK(request.modules[0] == "/b.so");
    CHECK(request.modules[1].front() == '/');
    CHECK(request.json);
}

TEST_CASE("two questions at once are a usage error that names both") {
    CHECK_THROWS_WITH_AS(parse_request({"--policy", "--op", "gelu"}),
                         "--op and --policy are two questions; ask one at a time", UsageError);
}

TEST_CASE("the list is narrowed by plugin, vendor and type of device, and nothing else is") {
    const Request request = parse_request({"--plugin", "cpu", "--vendor", "acme", "--device", "cuda:1"});
    CHECK(request.filter.plugin == "cpu");
    CHECK(request.filter.vendor == "acme");
    CHECK(request.filter.device == "cuda");
    CHECK(parse_request({"--why", "gelu", "--device", "cuda:1"}).filter.device.empty());
    CHECK_THROWS_AS(parse_request({"--op", "gelu", "--dtype", "f32"}), UsageError);
    CHECK_THROWS_AS(parse_request({"--paths", "--device", "cpu"}), UsageError);
    CHECK_THROWS_AS(parse_request({"--why", "gelu", "--plugin", "cpu"}), UsageError);
    CHECK_THROWS_AS(parse_request({"--policy", "--vendor", "acme"}), UsageError);
}

TEST_CASE("shapes and attributes describe a call, and belong to why") {
    const Request request =
        parse_request({"--why", "f", "--shape", "a=f32[2]", "--shape", "a=f32[3]", "--attr", "eps=1"});
    REQUIRE(request.shapes.size() == 2);
    CHECK(request.shapes[1].text == "f32[3]");
    CHECK(request.attributes.at(0).name == "eps");
    CHECK_THROWS_AS(parse_request({"--shape", "a=f32[2]"}), UsageError);
    CHECK_THROWS_AS(parse_request({"--op", "f", "--attr", "a=1"}), UsageError);
    CHECK_THROWS_AS(parse_request({"--why", "f", "--dtype", "f32", "--shape", "a=f32[2]"}), UsageError);
    CHECK_THROWS_AS(parse_request({"--why", "f", "--shape", "a"}), UsageError);
}

TEST_CASE("json with an answer that has no document is a usage error") {
    CHECK_THROWS_AS(parse_request({"--json", "--exists", "x"}), UsageError);
    CHECK_THROWS_AS(parse_request({"--json", "--bug-report"}), UsageError);
    CHECK_THROWS_AS(parse_request({"--json", "--version"}), UsageError);
    CHECK_THROWS_WITH_AS(
        parse_request({"--format", "json", "--version"}),
        "--format json has no meaning with --exists, --frozen, --trace, --bug-report, --reload, --reset-health and "
        "--version",
        UsageError);
}

TEST_CASE("an empty value is a usage error") {
    CHECK_THROWS_AS(parse_request({"--op", ""}), UsageError);
    CHECK_THROWS_AS(parse_request({"--modules", ""}), UsageError);
    CHECK_THROWS_AS(parse_request({"--check", ""}), UsageError);
}

TEST_CASE("help fits a terminal of 80 columns") {
    std::istringstream lines(tool.help());
    for (std::string line; std::getline(lines, line);) {
        INFO(line);
        CHECK(line.size() <= 80);
    }
}

TEST_CASE("help wins over everything and names every option") {
    const std::string text = tool.help();
    CHECK(tool.read({"--op", "gelu", "--policy", "--help"}).text == text);
    for (const char *option :
         {"--op", "--why", "--device", "--dtype", "--shape", "--attr", "--rejected", "--paths", "--policy", "--check",
          "--exists", "--bug-report", "--modules", "--json", "-v", "--version", "Examples:"}) {
        INFO(option);
        CHECK(text.find(option) != std::string::npos);
    }
}
