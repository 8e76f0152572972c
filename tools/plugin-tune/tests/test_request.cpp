#include "request.hpp"

#include <sstream>

#include "opdock/opdock.h"
#include <doctest/doctest.h>

using namespace opdock::plugin_tune;
using opdock::cli::UsageError;

namespace {

Request parse_request(const std::vector<std::string> &arguments) {
    return tool.read(arguments).request;
}

std::string command_of(const std::vector<std::string> &arguments) {
    return tool.read(arguments).command->name;
}

} // namespace

TEST_CASE("one shape on the command line") {
    const Request request = parse_request({"rmsnorm_fwd", "--shape", "input=f32[4,8]", "--shape", "weight=f32[8]",
                                           "--attr", "eps=1e-6", "--output", "rsigma", "--impl", "default.cpu",
                                           "--budget", "500ms", "--strategy", "exhaustive", "--cold", "--dry-run"});
    CHECK_FALSE(request.shows_expected);
    CHECK(request.subject.op == "rmsnorm_fwd");
    CHECK(request.subject.impl == "default.cpu");
    REQUIRE(request.subject.inputs.size() == 2);
    CHECK(request.subject.inputs[1].text == "f32[8]");
    CHECK(request.subject.outputs == std::vector<std::string>{"rsigma"});
    CHECK(request.budget == 0.5);
    CHECK(request.strategy == OPDOCK_TUNE_EXHAUSTIVE);
    CHECK(request.flags == (OPDOCK_TUNE_COLD | OPDOCK_TUNE_DRY_RUN));
}

TEST_CASE("an op alone asks what it expects, and nothing at all is wrong usage") {
    CHECK(parse_request({"gelu"}).shows_expected);
    CHECK_FALSE(parse_request({"gelu", "--all"}).shows_expected);
    CHECK(command_of({"gelu"}).empty());
    CHECK_THROWS_AS(parse_request({}), UsageError);
    CHECK_THROWS_WITH_AS(parse_request({"gelu", "relu"}), "one op at a time; 'relu' is a second op", UsageError);
}

TEST_CASE("there is one way at a time to say what to tune") {
    CHECK_THROWS_AS(parse_request({"gelu", "--shapes", "s.yaml"}), UsageError);
    CHECK_THROWS_AS(parse_request({"--all", "--shapes", "s.yaml"}), UsageError);
    CHECK_THROWS_AS(parse_request({"--all", "--shape", "a=f32[2]"}), UsageError);
    CHECK_THROWS_AS(parse_request({"--all", "--output", "a"}), UsageError);
    CHECK_THROWS_AS(parse_request({"--shapes", "s.yaml", "--output", "a"}), UsageError);
    CHECK_THROWS_AS(parse_request({"--shapes", "s.yaml", "--impl", "x"}), UsageError);
}

TEST_CASE("commands take files, and their own options only") {
    const Request convert = parse_request({"convert", "t.yaml", "--rename", "a=b", "--out", "o.yaml", "--force"});
    CHECK(command_of({"convert", "t.yaml"}) == "convert");
    CHECK(convert.files == std::vector<std::string>{"t.yaml"});
    CHECK(convert.renames.at(0).text == "b");
    CHECK(convert.force);
    CHECK(parse_request({"export", "gelu", "--impl", "default.cpu"}).subject.op == "gelu");
    CHECK(parse_request({"merge", "a", "b"}).files.size() == 2);
    CHECK_THROWS_WITH_AS(parse_request({"import"}), "import expects at least one file", UsageError);
    CHECK_THROWS_AS(parse_request({"convert", "a", "b"}), UsageError);
    CHECK_THROWS_WITH_AS(parse_request({"merge", "a", "--budget", "1s"}), "--budget has no meaning with merge",
                         UsageError);
    CHECK_THROWS_WITH_AS(parse_request({"export", "--json"}), "--json has no meaning with export", UsageError);
    CHECK_THROWS_WITH_AS(parse_request({"export", "--format", "json"}), "--format json has no meaning with export",
                         UsageError);
    CHECK_THROWS_WITH_AS(parse_request({"gelu", "--out", "x"}), "--out has no meaning when tuning", UsageError);
    CHECK_THROWS_WITH_AS(parse_request({"gelu", "--shape", "a=f32[1]", "--strategy", "halvin"}),
                         "--strategy 'halvin': expected halving or exhaustive; did you mean 'halving'?", UsageError);
}

TEST_CASE("help fits a terminal of 80 columns and names every option") {
    const std::string text = tool.help();
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        INFO(line);
        CHECK(line.size() <= 80);
    }
    CHECK(tool.read({"--help", "--force"}).text == text);
    for (const char *option : {"--shape", "--attr", "--impl", "--shapes", "--all", "--device", "--model", "--budget",
                               "--total-budget", "--strategy", "--cold", "--again", "--dry-run", "--plot", "--out",
                               "--rename", "--force", "--modules", "--json"}) {
        INFO(option);
        CHECK(text.find(option) != std::string::npos);
    }
}

TEST_CASE("list and forget take filters, and forget nothing without one") {
    const Request list = parse_request({"list", "gelu", "--impl", "default.cpu", "--model", "Acme 1", "--dtype",
                                        "bf16,f32", "--build", "build ab12", "--json"});
    CHECK(command_of({"list", "gelu"}) == "list");
    CHECK(list.subject.op == "gelu");
    CHECK(list.subject.impl == "default.cpu");
    CHECK(list.model == "Acme 1");
    CHECK(list.dtypes == "bf16,f32");
    CHECK(list.version == "build ab12");
    CHECK(parse_request({"list"}).model.empty());
    CHECK(parse_request({"forget", "--all", "--dry-run"}).all);
    CHECK(parse_request({"forget", "--model", "Acme 1"}).model == "Acme 1");
    CHECK_THROWS_AS(parse_request({"forget"}), UsageError);
    CHECK_THROWS_AS(parse_request({"forget", "--dry-run"}), UsageError);
    CHECK_THROWS_AS(parse_request({"forget", "gelu", "--impl", ""}), UsageError); // an unset variable of a script
    CHECK_THROWS_AS(parse_request({"forget", "gelu", "--all"}), UsageError);
    CHECK_THROWS_WITH_AS(parse_request({"forget", "--device", "Acme 1"}),
                         "--device has no meaning with forget; did you mean '--model'?", UsageError);
    CHECK_THROWS_WITH_AS(parse_request({"list", "--all"}), "--all has no meaning with list", UsageError);
    CHECK_THROWS_WITH_AS(parse_request({"gelu", "--dtype", "f32"}), "--dtype has no meaning when tuning", UsageError);
}
