#include "cli/command_line.hpp"

#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "cli/exit.hpp"

using namespace opdock::cli;

namespace {

struct Request {
    bool force = false;
    int raised = 0;
    std::string name = "unset";
    std::vector<std::string> names;
    std::string path;
    std::vector<std::string> paths;
    std::optional<uint64_t> count;
    unsigned few = 3;
    double seconds = 2;
    std::string order;
    std::string form;
    uint32_t chosen = 7;
    std::vector<std::string> some;
    bool json = false;
    std::vector<std::string> words;
};

CommandLine describe(Request &request) {
    CommandLine line(40);
    line.flag("force,f", request.force, "overwrite");
    line.flag(
        "raise", [&request] { ++request.raised; }, "more");
    line.text("name", "NAME", request.name, "a name");
    line.texts("names", "NAME", request.names, "names");
    line.path("path", "PATH", request.path, "a path");
    line.paths("paths", "PATH", request.paths, "paths");
    line.number("count", request.count, 0, 10, "how many");
    line.number("few", request.few, 2, 4, "how few");
    line.duration("time", "TIME", request.seconds, "how long");
    line.one(
        "z-first", "X", [&request](const std::string &text) { request.order += text; }, "");
    line.each(
        "a-last", "X", [&request](const std::vector<std::string> &all) { request.order += all.back(); }, "");
    line.text(
        "form", "FORM", request.form, [](const std::string &text) { return text != "wrong"; }, "a right one", "");
    line.choice("speed", "SPEED", request.chosen, {"slow", "fast"}, "");
    line.choices("some", "THING", request.some, {"a", "b", "c"}, "");
    line.format(request.json, "docs/tool.md");
    line.ends();
    line.words("words", request.words);
    return line;
}

Request request_of(const std::vector<std::string> &arguments) {
    Request request;
    CommandLine line = describe(request);
    line.parse(arguments);
    line.store(line.words());
    return request;
}

} // namespace

TEST_CASE("each value goes where its option says, and what is not given stays") {
    const Request all =
        request_of({"-f", "--raise", "--name", "n", "--names", "a", "--names=b", "--path", "/x/../p", "--few", "4",
                    "--time", "500ms", "--json", "--paths=/a/.", "--count=0", "word", "--paths", "/b"});
    CHECK(all.force);
    CHECK(all.raised == 1);
    CHECK(all.name == "n");
    CHECK(all.names == std::vector<std::string>{"a", "b"});
    CHECK(all.path == "/p");
    CHECK(all.paths == std::vector<std::string>{"/a/", "/b"});
    CHECK(all.count == 0);
    CHECK(all.few == 4);
    CHECK(all.seconds == 0.5);
    const Request chosen = request_of({"--speed", "fast", "--some", "c", "--some", "a", "--form", "right"});
    CHECK(chosen.chosen == 1);
    CHECK(chosen.some == std::vector<std::string>{"c", "a"});
    CHECK(chosen.form == "right");
    CHECK(all.chosen == 7);
    CHECK(all.json);
    CHECK(all.words == std::vector<std::string>{"word"});
    const Request none = request_of({});
    CHECK_FALSE(none.force);
    CHECK(none.name == "unset");
    CHECK_FALSE(none.count);
    CHECK(none.few == 3);
    CHECK(none.seconds == 2);
    CHECK_FALSE(none.json);
}

TEST_CASE("values are stored in the order of the options, not of the command line") {
    CHECK(request_of({"--a-last", "x", "--a-last", "2", "--z-first", "1"}).order == "12");
}

TEST_CASE("a value that is empty, no number or out of its range is a usage error that names the option") {
    const auto refuses = [](const std::vector<std::string> &arguments, const char *message) {
        CHECK_THROWS_WITH_AS(request_of(arguments), message, UsageError);
    };
    refuses({"--name", ""}, "the value of --name is empty");
    refuses({"--path", ""}, "the value of --path is empty");
    refuses({"--paths", ""}, "a path is empty");
    refuses({"--count", "11"}, "--count '11': expected a whole number from 0 to 10");
    refuses({"--count", "-1"}, "--count '-1': expected a whole number from 0 to 10");
    refuses({"--few", "1"}, "--few '1': expected a whole number from 2 to 4");
    refuses({"--few", "3x"}, "--few '3x': expected a whole number from 2 to 4");
    refuses({"--form", "wrong"}, "--form 'wrong': expected a right one");
    refuses({"--form", ""}, "the value of --form is empty");
    refuses({"--speed", "fats"}, "--speed 'fats': expected slow or fast; did you mean 'fast'?");
    refuses({"--some", "a", "--some", "xyz"}, "--some 'xyz': expected a, b or c");
    refuses({"--time", "1d"}, "--time '1d': expected a time such as 60s, 500ms, 2m or 1h");
}

TEST_CASE("words, help and version are told before anything is stored") {
    Request request;
    CommandLine line = describe(request);
    CHECK(line.parse({"--name", "n", "a", "b"}) == Asked::work);
    CHECK(line.words() == std::vector<std::string>{"a", "b"});
    CHECK(line.given("name"));
    CHECK_FALSE(line.given("names"));
    CHECK(request.name == "unset");
    CHECK(describe(request).parse({"a", "--help", "--version"}) == Asked::help);
    CHECK(describe(request).parse({"--version"}) == Asked::version);
    CHECK_THROWS_WITH_AS(describe(request).parse({"--words", "a"}),
                         "unknown option '--words'; write its value alone, without '--words'", UsageError);
}

TEST_CASE("what a command does not take is refused, with its own option for the same; --format is where --json is") {
    const auto refuse = [](const std::vector<std::string> &arguments, const std::vector<const char *> &options,
                           bool hints = true) {
        Request request;
        CommandLine line(40);
        line.text("output", "FILE", request.name, "");
        line.text("out", "FILE", request.path, "");
        line.format(request.json, "docs/tool.md");
        line.words("words", request.words);
        line.parse(arguments);
        line.refuse_others("with export", options, hints);
    };
    refuse({"export", "--out", "x"}, {"out"});
    refuse({"export", "--format", "json"}, {"json"});
    refuse({"export", "--format", "table"}, {});
    const auto refuses = [&](const std::vector<std::string> &arguments, bool hints, const char *message) {
        CHECK_THROWS_WITH_AS(refuse(arguments, {"out"}, hints), message, UsageError);
    };
    refuses({"--output", "x"}, true, "--output has no meaning with export; did you mean '--out'?");
    refuses({"--output", "x"}, false, "--output has no meaning with export");
    refuses({"--format", "json"}, true, "--format json has no meaning with export");
    refuses({"--json"}, true, "--json has no meaning with export");
}

TEST_CASE("options that do not go together, or need another, are a usage error") {
    const auto store = [](const std::vector<std::string> &arguments) {
        Request request;
        CommandLine line = describe(request);
        line.conflict({"path"}, {"name"});
        line.conflict({"force", "name"}, {"raise", "names"}, "give one name");
        line.conflict({"json"}, {"name"}, " names nothing");
        line.need({"few", "count"}, {"name", "path"}, " says how often");
        line.parse(arguments);
        line.store({});
    };
    store({"--name", "n"});
    store({"--path", "p", "--names", "n"});
    CHECK_THROWS_WITH_AS(store({"--name", "n", "--path", "p"}), "--path and --name contradict each other", UsageError);
    CHECK_THROWS_WITH_AS(store({"--name", "n", "--names", "p"}), "give one name", UsageError);
    CHECK_THROWS_WITH_AS(store({"--name", "n", "--format", "json"}), "--format json names nothing", UsageError);
    CHECK_THROWS_WITH_AS(store({"--count", "3"}), "--count says how often", UsageError);
    store({"--count", "3", "--path", "p"});
}

TEST_CASE("words about one thing are that, and prose may have several lines, which no other text has") {
    std::string thing, message, name;
    CommandLine line(40);
    line.prose("message", "TEXT", message, "");
    line.text("name", "NAME", name, "");
    line.words("words", thing);
    line.parse({"a", "--message", "x\ny"});
    line.store(line.words());
    CHECK(thing == "a");
    CHECK(message == "x\ny");
    line.store({});
    CHECK(thing.empty());
    CHECK_THROWS_AS(line.parse({"--name", "x\ny"}), UsageError);
}
