#include "cli/tool.hpp"

#include <doctest/doctest.h>

using namespace opdock::cli;

namespace {

struct Request {
    std::vector<std::string> words;
    std::string op;
    bool json = false;
    int checked = 0;
};

CommandLine describe(Request &request) {
    CommandLine line(56);
    line.text("op", "NAME", request.op, "which; make, show: an op; remove: a thing; of it: \"b\"");
    line.format(request.json, "docs/tool.md", "make-all: ");
    line.ends("its version", "this");
    line.words("words", request.words);
    return line;
}

int count_words(const Request &request) {
    return static_cast<int>(request.words.size());
}

void read(const CommandLine & /*line*/, Request &request) {
    if (request.op == "wrong") {
        throw UsageError("--op is wrong");
    }
    request.words.emplace_back("read");
}

void check(const CommandLine &line, Request &request) {
    request.checked = line.given("op") ? 2 : 1;
}

const ToolText text = {"tool", "tool 3", "Makes things.",
                       "Examples:\n  tool make a \\\n       --op b\n  tool make-all\n\nExit codes: 0",
                       "\nA FILTER is a name,\nor a pattern.\n\nA PAGE is long.\n"};
const Command<Request> make = {
    {"make", "NAME [--op NAME]\n [--more]", "makes one,\n  and shows it", {1, 1, "the NAME", true}, {"op"}},
    count_words,
    check};
const Command<Request> make_all = {{"make-all", "", "makes all", {}, {"json"}}, count_words};
const Command<Request> remove_some = {{"remove-all",
                                       "FILTER...\n--op NAME",
                                       "removes what the filters say, and keeps that of which no filter says anything",
                                       {0, SIZE_MAX},
                                       {"op", "json"},
                                       {"op"},
                                       "--op, which names it"},
                                      count_words,
                                      check,
                                      read};
const Command<Request> unnamed = {{"", "OP [--op NAME]", "", {0, 2}, {"op"}, {}, "", "when making"}};
const Tool<Request> with_commands = {text, describe, {make, make_all, remove_some}};
const Tool<Request> with_unnamed = {text, describe, {unnamed, make_all}};
const Tool<Request> without_commands = {text, describe, {{{"", "OP...", "", {0, 9}, {}}}}};

} // namespace

TEST_CASE("the first word says which command runs, with the words behind it") {
    const auto asked = with_commands.read({"make", "a/../b", "--op", "c"});
    REQUIRE(asked.command != nullptr);
    CHECK(asked.command->name == std::string("make"));
    CHECK(asked.request.words.size() == 1);
    CHECK(asked.request.words.at(0).front() == '/');
    CHECK(asked.request.words.at(0).ends_with("/b"));
    CHECK(asked.request.op == "c");
    CHECK(asked.request.checked == 2);
    CHECK(with_commands.read({"make-all"}).request.checked == 0);
    CHECK(with_commands.run({"remove-all", "a", "b", "--op", "c"}) == 3);
    CHECK(with_commands.read({"remove-all", "a/../b", "--op", "c"}).request.words.at(0) == "a/../b");
    const auto other = [](const Request &request) { return 10 + count_words(request); };
    CHECK(with_unnamed.run({"gelu", "make-all"}, other) == 12);
    CHECK(with_unnamed.run({"make-all"}, other) == 0);
    CHECK(without_commands.run({"make-all", "--json"}, other) == 11);
}

TEST_CASE("a command that is not there, words and options that it does not take are usage errors") {
    const auto refuses = [](const Tool<Request> &tool, const std::vector<std::string> &arguments, const char *message) {
        CHECK_THROWS_WITH_AS(tool.read(arguments), message, UsageError);
    };
    refuses(with_commands, {}, "expected a command: make, make-all or remove-all");
    refuses(with_commands, {"mkae"}, "unknown command 'mkae'; did you mean 'make'?");
    refuses(with_commands, {"mkae", "--help"}, "unknown command 'mkae'; did you mean 'make'?");
    refuses(with_commands, {"make"}, "make expects the NAME");
    refuses(with_commands, {"make", "a", "b"}, "make expects the NAME");
    refuses(with_commands, {"make-all", "a"}, "make-all expects options only");
    refuses(with_commands, {"make-all", "--op", "a"}, "--op has no meaning with make-all");
    refuses(with_commands, {"remove-all", "a"}, "remove-all expects --op, which names it");
    refuses(with_commands, {"remove-all", "a", "--op", "wrong"}, "--op is wrong");
    refuses(with_unnamed, {"gelu", "--format", "json"}, "--format json has no meaning when making");
}

TEST_CASE("help and version win, and need nothing else") {
    CHECK(with_commands.read({"--version"}).text == "tool 3\n");
    CHECK(with_commands.read({"--help", "--json"}).text == with_commands.help());
    CHECK(with_commands.read({"make", "--help"}).text == with_commands.help({"make"}));
    CHECK(with_unnamed.read({"gelu", "--help"}).text == with_unnamed.help());
    CHECK(version_with_abi("tool").starts_with("tool (opdock) "));
}

TEST_CASE("the help of a command is its usage, its paragraph, its options and its examples") {
    CHECK(with_commands.help({"make", "a"}) ==
          "Usage: tool make NAME [--op NAME]\n            [--more]\n\n  make     makes one, and shows it\n\n"
          "Options:\n  --op NAME             which; an op; of it: \"b\"\n  -h [ --help ]         this\n\nExamples:\n"
          "  tool make a \\\n       --op b\n\n'tool --help' lists all commands and exit codes.\n");
    CHECK(with_commands.help({"make-all"}) ==
          "Usage: tool make-all\n\n  make-all\n           makes all\n\nOptions:\n"
          "  --format FORMAT       table (the default) or json\n"
          "  --json                short for --format json; docs/tool.md lists the keys\n"
          "  -h [ --help ]         this\n\nExamples:\n  tool make-all\n\n"
          "'tool --help' lists all commands and exit codes.\n");
    CHECK(with_commands.help({"remove-all"})
              .starts_with("Usage: tool remove-all FILTER...\n       tool remove-all --op NAME\n\n  remove-all\n"
                           "           removes what the filters say, and keeps that of which no filter says\n"
                           "           anything\n\nA FILTER is a name,\nor a pattern.\n\nOptions:"));
}

TEST_CASE("the help of a tool has the usage and the paragraph of each command") {
    const std::string help = with_commands.help();
    CHECK(help.starts_with("Usage: tool make NAME [--op NAME]\n            [--more]\n       tool make-all\n"
                           "       tool remove-all FILTER...\n       tool remove-all --op NAME\n\nMakes things.\n\n"
                           "  make     makes one, and shows it\n  make-all\n           makes all\n  remove-all\n"));
    CHECK(help.find("           anything\n\nA FILTER is a name,\nor a pattern.\n\nA PAGE is long.\n\nOptions:\n") !=
          std::string::npos);
    CHECK(help.find("make-all: table (the default) or json") != std::string::npos);
    CHECK(help.ends_with("this\n\nExamples:\n  tool make a \\\n       --op b\n  tool make-all\n\nExit codes: 0\n"));
    CHECK(with_unnamed.help().starts_with("Usage: tool OP [--op NAME]\n       tool make-all\n\nMakes things.\n\n"
                                          "  make-all\n           makes all\n\nA FILTER"));
    CHECK(without_commands.help().starts_with("Usage: tool OP...\n\nMakes things.\n\nA FILTER"));
}
