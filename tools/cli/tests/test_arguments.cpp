#include "cli/arguments.hpp"

#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "cli/exit.hpp"
#include "cli/format.hpp"

using namespace opdock::cli;
namespace po = boost::program_options;

static po::options_description options() {
    po::options_description description;
    description.add_options()("json", "")("op", po::value<std::string>(), "");
    return description;
}

TEST_CASE("a misspelt option is an error that names the right one") {
    CHECK_THROWS_WITH_AS(parse_arguments({"--jsno"}, options()), "unknown option '--jsno'; did you mean '--json'?",
                         UsageError);
}

TEST_CASE("an option of another tool is answered with the one that means the same") {
    po::options_description description;
    description.add_options()("in", po::value<std::string>(), "")("rounds", po::value<std::string>(), "");
    CHECK_THROWS_WITH_AS(parse_arguments({"--shape", "x"}, description),
                         "unknown option '--shape'; did you mean '--in'?", UsageError);
    CHECK_THROWS_WITH_AS(parse_arguments({"--repeat", "3"}, description),
                         "unknown option '--repeat'; did you mean '--rounds'?", UsageError);
    CHECK_THROWS_WITH_AS(parse_arguments({"--budget", "3"}, description), "unknown option '--budget'", UsageError);
    description.add_options()("shapes", po::value<std::string>(), "")("shade", po::value<std::string>(), "");
    description.add_options()("budget", po::value<std::string>(), "")("tile", po::value<std::string>(), "");
    CHECK_THROWS_WITH_AS(parse_arguments({"--from", "x"}, description),
                         "unknown option '--from'; did you mean '--shapes'?", UsageError);
    CHECK_THROWS_WITH_AS(parse_arguments({"--time", "3"}, description), // and not '--tile'
                         "unknown option '--time'; did you mean '--budget'?", UsageError);
    add_format(description, "docs/tool.md");
    CHECK_THROWS_WITH_AS(parse_arguments({"--output-format", "json"}, description),
                         "unknown option '--output-format'; did you mean '--format'?", UsageError);
}

TEST_CASE("a wrong option gets the same hint whether its value stands behind '=' or by itself") {
    po::options_description description;
    description.add_options()("in", po::value<std::string>(), "");
    add_format(description, "docs/tool.md");
    const std::vector<std::pair<std::string, std::string>> hints = {
        {"--shape=input=f32[4]", "unknown option '--shape'; did you mean '--in'?"},
        {"--jsno=1", "unknown option '--jsno'; did you mean '--json'?"},
        {"--from=x.npy", "unknown option '--from'; did you mean '--in'?"},
        {"--output-format=json", "unknown option '--output-format'; did you mean '--format'?"}};
    for (const auto &[argument, message] : hints) {
        const auto &tried = argument;
        CAPTURE(tried);
        CHECK_THROWS_WITH_AS(parse_arguments({argument}, description), message.c_str(), UsageError);
        const size_t equals = argument.find('=');
        CHECK_THROWS_WITH_AS(parse_arguments({argument.substr(0, equals), argument.substr(equals + 1)}, description),
                             message.c_str(), UsageError);
    }
}

namespace {

po::options_description options_with_format(bool with_csv) {
    po::options_description description("Options", 80);
    if (with_csv) {
        description.add_options()("csv", po::value<std::string>()->value_name("FILE"), "");
    }
    add_format(description, "docs/tool.md", "list: ");
    return description;
}

bool is_json(const std::vector<std::string> &arguments) {
    return parse_arguments(arguments, options_with_format(false)).count("json") == 1;
}

} // namespace

TEST_CASE("--format json is --json, and --format table nothing") {
    CHECK(is_json({"--json"}));
    CHECK(is_json({"--format", "json"}));
    CHECK(is_json({"--format=json", "--json"}));
    CHECK_FALSE(is_json({}));
    CHECK(parse_arguments({"--format", "table"}, options_with_format(true)).empty());
    const po::variables_map csv = parse_arguments({"--format", "csv", "--csv", "x"}, options_with_format(true));
    CHECK(csv.count("json") == 0);
    CHECK(csv["format"].as<std::string>() == "csv");
}

TEST_CASE(
    "a format that a tool does not have is a usage error that names those it has, as is another one beside --json") {
    const auto refuses = [](bool with_csv, const std::vector<std::string> &arguments, const char *message) {
        CHECK_THROWS_WITH_AS(parse_arguments(arguments, options_with_format(with_csv)), message, UsageError);
    };
    refuses(false, {"--format", "xml"}, "--format 'xml': expected table or json");
    refuses(false, {"--format", "csv"}, "--format 'csv': expected table or json");
    refuses(false, {"--format", ""}, "--format '': expected table or json");
    refuses(true, {"--format=JSON"}, "--format 'JSON': expected table, csv or json");
    refuses(true, {"--format", "csv", "--json"}, "--json and --format csv contradict each other");
    refuses(false, {"--json", "--format", "table"}, "--json and --format table contradict each other");
    CHECK_THROWS_AS(is_json({"--format", "json", "--format", "json"}), UsageError);
}

TEST_CASE("JSON is asked for in three ways, whatever else is wrong") {
    CHECK(asks_for_json({"x", "--json", "--y"}));
    CHECK(asks_for_json({"--format=json", "--format", "xml"}));
    CHECK(asks_for_json({"--y", "--format", "json"}));
    for (const std::vector<std::string> &other :
         {std::vector<std::string>(), {"json"}, {"--format"}, {"--format", "csv", "json"}, {"--format=table"}}) {
        CHECK_FALSE(asks_for_json(other));
    }
}

TEST_CASE("an abbreviated option is not guessed") {
    CHECK_THROWS_AS(parse_arguments({"--js"}, options()), UsageError);
}

TEST_CASE("the name of positional values is no option, and none that is suggested") {
    po::options_description all = options();
    all.add_options()("files", po::value<std::vector<std::string>>());
    po::positional_options_description positional;
    positional.add("files", -1);
    CHECK(parse_arguments({"a", "b"}, all, positional)["files"].as<std::vector<std::string>>().size() == 2);
    CHECK(parse_arguments({"--", "--files"}, all, positional)["files"].as<std::vector<std::string>>().size() == 1);
    for (const std::vector<std::string> &words :
         {std::vector<std::string>{"--files", "a"}, {"--files=a"}, {"b", "--files", "a"}}) {
        CHECK_THROWS_WITH_AS(parse_arguments(words, all, positional),
                             "unknown option '--files'; write its value alone, without '--files'", UsageError);
    }
    CHECK_THROWS_WITH_AS(parse_arguments({"--file", "a"}, all, positional),
                         "unknown option '--file'; write its value alone, without '--file'", UsageError);
}

TEST_CASE("an option without its value is a usage error") {
    CHECK_THROWS_AS(parse_arguments({"--op"}, options()), UsageError);
}

TEST_CASE("an option given twice is a usage error") {
    CHECK_THROWS_AS(parse_arguments({"--op", "a", "--op", "b"}, options()), UsageError);
}

TEST_CASE("a stray argument is a usage error") {
    CHECK_THROWS_AS(parse_arguments({"stray"}, options()), UsageError);
}

TEST_CASE("a word of several lines is a usage error that shows it on one, but for prose") {
    for (const std::vector<std::string> &words :
         {std::vector<std::string>{"--op", "a\nb"}, {"--op=a\nb"}, {"--", "--op", "a\nb"}, {"a\nb"}}) {
        po::options_description all = options();
        all.add_options()("words", po::value<std::vector<std::string>>());
        po::positional_options_description positional;
        positional.add("words", -1);
        CHECK_THROWS_WITH_AS(parse_arguments(words, all, positional),
                             "'a\\x0ab' contains a line feed; expected one-line words and names", UsageError);
        if (words.front().starts_with("--op")) {
            CHECK(parse_arguments(words, all, positional, "op")["op"].as<std::string>() == "a\nb");
        } else {
            CHECK_THROWS_AS(parse_arguments(words, all, positional, "op"), UsageError);
        }
    }
    CHECK_THROWS_WITH_AS(parse_arguments({"--a\nb"}, options()), "unknown option '--a\\x0ab'", UsageError);
}

TEST_CASE("an op has opdock's name, and there is one") {
    CHECK(one_op({"dgelu"}) == "gelu_bwd");
    CHECK(one_op({}).empty());
    CHECK_THROWS_WITH_AS(one_op({"gelu", "relu"}), "one op at a time; 'relu' is a second op", UsageError);
}

TEST_CASE("both spellings of a value are taken") {
    CHECK(parse_arguments({"--op=gelu"}, options())["op"].as<std::string>() == "gelu");
    CHECK(parse_arguments({"--op", "gelu"}, options())["op"].as<std::string>() == "gelu");
}

TEST_CASE("a path is made absolute and an empty one is a usage error") {
    CHECK(absolute_path("/a/./b/../c.so") == "/a/c.so");
    CHECK(absolute_path("c.so").front() == '/');
    CHECK_THROWS_AS(absolute_path(""), UsageError);
    CHECK_THROWS_AS(absolute_path("/a\nb/c.so"), UsageError);
}

TEST_CASE("a choice is one of the values that there are") {
    CHECK(parse_choice("b", "--x", {"a", "b", "c"}) == 1);
    CHECK_THROWS_WITH_AS(parse_choice("other", "--x", {"a"}), "--x 'other': expected a", UsageError);
    CHECK_THROWS_WITH_AS(parse_choice("tine", "--x", {"time", "tune", "other"}),
                         "--x 'tine': expected time, tune or other; did you mean 'time' or 'tune'?", UsageError);
}

TEST_CASE("times have units") {
    CHECK(parse_duration("90", "--budget") == 90);
    CHECK(parse_duration("60s", "--budget") == 60);
    CHECK(parse_duration("2m", "--budget") == 120);
    CHECK(parse_duration("1h", "--budget") == 3600);
    for (const char *wrong : {"", "s", "0", "-1s", "1d", "1 s", "nan", "inf", "1e300"}) {
        INFO(wrong);
        CHECK_THROWS_AS(parse_duration(wrong, "--budget"), UsageError);
    }
}
