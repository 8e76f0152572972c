#include "text/environment.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include <doctest/doctest.h>

#include "paths.hpp"
#include "thrown_error.hpp"

using namespace opdock::core;
using opdock::test::message_of;
using opdock::test::thrown_by;

namespace {

std::string repeated(const std::string &entry, std::size_t times) {
    std::string text;
    for (std::size_t i = 0; i < times; ++i) {
        text += entry;
    }
    return text;
}

} // namespace

TEST_CASE("a program's prefix replaces PLUGIN_ in every variable, and modules stay modules of plugins") {
    CHECK(variable_name(Variable::prefer, "PLUGIN_") == "PLUGIN_PREFER");
    CHECK(variable_name(Variable::modules, "PLUGIN_") == "PLUGIN_MODULES");
    CHECK(variable_name(Variable::modules_only, "PLUGIN_") == "PLUGIN_MODULES_ONLY");
    CHECK(variable_name(Variable::prefer, "TE_FL_") == "TE_FL_PREFER");
    CHECK(variable_name(Variable::skip_cuda, "TE_FL_") == "TE_FL_SKIP_CUDA");
    CHECK(variable_name(Variable::modules, "TE_FL_") == "TE_FL_PLUGIN_MODULES");
    CHECK(variable_name(Variable::modules_only, "TE_FL_") == "TE_FL_PLUGIN_MODULES_ONLY");
    CHECK(variable_name(Variable::modules, "ACME_PLUGIN_") == "ACME_PLUGIN_MODULES");
}

TEST_CASE("the table of variables is complete and names each once") {
    std::set<std::string> names;
    for (const VariableInfo &row : all_variables) {
        CAPTURE(row.stem);
        CHECK(names.insert(variable_name(row.id, "PLUGIN_")).second);
        CHECK_FALSE(row.values.empty());
        CHECK_FALSE(row.fallback.empty());
        CHECK(row.meaning.ends_with("."));
    }
}

TEST_CASE("a prefix that cannot begin a variable's name is refused") {
    for (const char *prefix : {"", "1PLUGIN_", "PLUGIN-", "PLUGIN ", "P=", "\xc3\xa4"}) {
        CAPTURE(prefix);
        CHECK(thrown_by([&] { make_environment(prefix, {}, false); }).status() == OPDOCK_INVALID_ARGUMENT);
    }
}

TEST_CASE("a prefix has letters, digits after the first of them, and underscores") {
    for (const char *prefix : {"A", "Z", "a", "z", "_", "AZaz09_", "_0"}) {
        CAPTURE(prefix);
        CHECK(is_variable_prefix(prefix));
    }
    for (const char *prefix : {"", "0A", "9", "@A", "[A", "`A", "{A", "A@", "A[", "A`", "A{", "A/", "A:", "A-B"}) {
        CAPTURE(prefix);
        CHECK_FALSE(is_variable_prefix(prefix));
    }
}

TEST_CASE("set but empty is not the same as not set") {
    const Environment environment = make_environment("PLUGIN_", {{"PLUGIN_ALLOW_VENDORS", ""}}, false);
    REQUIRE(environment.find(Variable::allow_vendors) != nullptr);
    CHECK(environment.find(Variable::allow_vendors)->empty());
    CHECK(environment.find(Variable::deny_vendors) == nullptr);
}

TEST_CASE("variables with another prefix are somebody else's") {
    const Environment environment =
        make_environment("TE_FL_", {{"PLUGIN_STRICT", "1"}, {"TE_FL_PREFER", "vendor"}}, false);
    CHECK(environment.find(Variable::strict) == nullptr);
    CHECK(*environment.find(Variable::prefer) == "vendor");
    CHECK(environment.warnings.empty());
}

TEST_CASE("a switch that is not set is off; a wrong one names the variable with the program's prefix") {
    CHECK_FALSE(make_environment("TE_FL_", {}, false).is_on(Variable::skip_cuda));
    CHECK(make_environment("TE_FL_", {{"TE_FL_SKIP_CUDA", "Yes"}}, false).is_on(Variable::skip_cuda));
    CHECK(message_of([] {
              make_environment("TE_FL_", {{"TE_FL_PLUGIN_MODULES_ONLY", "maybe"}}, false).is_on(Variable::modules_only);
          }).starts_with("TE_FL_PLUGIN_MODULES_ONLY, column 1: expected 1/0"));
}

TEST_CASE("log levels are read in any case, and a wrong one suggests the nearest") {
    const auto level = [](const char *value) {
        return make_environment("PLUGIN_", {{"PLUGIN_LOG_LEVEL", value}}, false).log_level(OPDOCK_LOG_INFO);
    };
    CHECK(level("debug") == OPDOCK_LOG_DEBUG);
    CHECK(level("Info") == OPDOCK_LOG_INFO);
    CHECK(level("WARNING") == OPDOCK_LOG_WARNING);
    CHECK(level("error") == OPDOCK_LOG_ERROR);
    CHECK(make_environment("PLUGIN_", {}, false).log_level(OPDOCK_LOG_WARNING) == OPDOCK_LOG_WARNING);
    CHECK(message_of([&] { level("WARNIN"); }) == "PLUGIN_LOG_LEVEL, column 1: expected 'DEBUG', 'INFO', 'WARNING' or "
                                                  "'ERROR', found 'WARNIN'; did you mean 'WARNING'?");
}

TEST_CASE("a misspelt variable is pointed out, one that merely shares the prefix is not") {
    const Environment environment = make_environment(
        "PLUGIN_", {{"PLUGIN_DENY_VENDOR", "acme"}, {"PLUGIN_DIRECTORY", "/x"}, {"PLUGIN_SRTICT", "1"}}, false);
    REQUIRE(environment.warnings.size() == 2);
    CHECK(environment.warnings[0] ==
          "'PLUGIN_DENY_VENDOR' is set but means nothing to opdock; did you mean 'PLUGIN_DENY_VENDORS'?");
    CHECK(environment.warnings[1] ==
          "'PLUGIN_SRTICT' is set but means nothing to opdock; did you mean 'PLUGIN_STRICT'?");
}

TEST_CASE("a slip in the prefix is pointed out, and what belongs to somebody else is not") {
    const auto warnings = [](const char *prefix, const char *name) {
        return make_environment(prefix, {{name, "1"}}, false).warnings;
    };
    for (const auto &[prefix, name, meant] : {std::array{"TE_FL_", "TEFL_LOG_LEVEL", "TE_FL_LOG_LEVEL"},
                                              {"TE_FL_", "TE_FL_MODULES", "TE_FL_PLUGIN_MODULES"},
                                              {"PLUGIN_", "PLUGINS_STRICT", "PLUGIN_STRICT"},
                                              {"PLUGIN_", "PLUGIN_DENYVENDORS", "PLUGIN_DENY_VENDORS"},
                                              {"PLUGIN_", "plugin_strict", "PLUGIN_STRICT"},
                                              {"PLUGIN_", "PLUGINSTRICT", "PLUGIN_STRICT"}}) {
        const auto &tried = name;
        CAPTURE(tried);
        REQUIRE(warnings(prefix, name).size() == 1);
        CHECK(warnings(prefix, name)[0] ==
              std::string("\'") + name + "' is set but means nothing to opdock; did you mean '" + meant + "'?");
    }
    CHECK(warnings("TE_FL", "TE_FL_STRICT") ==
          std::vector<std::string>{"'TE_FL_STRICT' is set but means nothing under the prefix 'TE_FL'; did you mean the "
                                   "prefix 'TE_FL_'?"});
    for (const auto &[prefix, name] : {std::array{"PLUGIN_", "TE_FL_STRICT"},
                                       {"PLUGIN_", "MY_CONFIG"},
                                       {"PLUGIN_", "STRICT"},
                                       {"X_", "Y_CONFIG"},
                                       {"PLUGIN_", "GIT_CONFIG"}}) {
        const auto &tried = name;
        CAPTURE(tried);
        CHECK(warnings(prefix, name).empty());
    }
}

TEST_CASE("with raised privileges the environment and the user's directory are ignored, and that is said") {
    const Environment environment = make_environment(
        "PLUGIN_", {{"PLUGIN_MODULES", "/evil"}, {"PLUGIN_PREFER", "vendor"}, {"HOME", "/home/eve"}}, true);
    CHECK(environment.secure);
    CHECK(environment.values.empty());
    CHECK(environment.user_data_dir.empty());
    REQUIRE(environment.warnings.size() == 1);
    CHECK(environment.warnings[0] ==
          "this process has raised privileges: variables that begin with PLUGIN_ "
          "(PLUGIN_PREFER, PLUGIN_MODULES) and the user's plugin directory and trusted keys are ignored");
}

TEST_CASE("the user's data directory is XDG's, or the usual one in the home directory") {
    const auto directory = [](const RawEnvironment &raw) {
        return make_environment("PLUGIN_", raw, false).user_data_dir;
    };
    CHECK(directory({{"HOME", "/home/ann"}}) == "/home/ann/.local/share");
    CHECK(directory({{"HOME", "/home/ann"}, {"XDG_DATA_HOME", "/data"}}) == "/data");
    CHECK(directory({{"HOME", "/home/ann"}, {"XDG_DATA_HOME", ""}}) == "/home/ann/.local/share");
    CHECK(directory({}).empty());
}

TEST_CASE("a relative home is ignored with a warning") {
    const Environment environment =
        make_environment("PLUGIN_", {{"HOME", "here"}, {"XDG_DATA_HOME", "../data"}}, false);
    CHECK(environment.user_data_dir.empty());
    REQUIRE(environment.warnings.size() == 2);
    CHECK(environment.warnings[0] == "XDG_DATA_HOME is ignored: '../data' is not an absolute path");
    CHECK(environment.warnings[1] == "HOME is ignored: 'here' is not an absolute path");
}

TEST_CASE("a home with a line feed in its name is ignored with a warning on one line") {
    const Environment environment =
        make_environment("PLUGIN_", {{"HOME", "/home/ann"}, {"XDG_CACHE_HOME", "/a\nb"}}, false);
    CHECK(environment.user_cache_dir == "/home/ann/.cache");
    REQUIRE(environment.warnings.size() == 1);
    CHECK(environment.warnings[0] == "XDG_CACHE_HOME is ignored: '/a\\x0ab' has a line feed in it");
}

TEST_CASE("a tuning database with a line feed in its name is a wrong value") {
    const Environment environment = make_environment("PLUGIN_", {{"PLUGIN_TUNE_DB", "/a\nb"}}, false);
    CHECK_THROWS_WITH_AS(environment.tune_database(),
                         "PLUGIN_TUNE_DB, column 1: expected an absolute path, found '/a\\x0ab'", Error);
}

TEST_CASE("the tuning database lies in the user's cache unless it is named, whatever the scan cache is") {
    const auto database = [](const std::string &name, const std::string &value) {
        return make_environment("PLUGIN_", {{"HOME", "/home/ann"}, {name, value}}, false).tune_database();
    };
    CHECK(database("PLUGIN_SCAN_CACHE", "off") == "/home/ann/.cache/opdock/tune.sqlite");
    CHECK(database("PLUGIN_TUNE_DB", "/srv/t.sqlite") == "/srv/t.sqlite");
    CHECK(make_environment("PLUGIN_", {}, false).tune_database().empty());
    CHECK(make_environment("PLUGIN_", {{"HOME", "/home/ann"}}, false).tune_database("/cache") == "/cache/tune.sqlite");
}

TEST_CASE("a value of 1 MiB is cut after a whole entry, with a warning") {
    const std::string entry = repeated("a", 1023) + ",";
    const Environment environment =
        make_environment("PLUGIN_", {{"PLUGIN_DENY_VENDORS", repeated(entry, 1024)}}, false);
    const std::string &value = *environment.find(Variable::deny_vendors);
    CHECK(value.size() == 64 * 1024 - 1); // 64 names, without the last separator or a part of the next
    CHECK(parse_vendors(value, environment.place(Variable::deny_vendors)).size() == 1);
    REQUIRE(environment.warnings.size() == 1);
    CHECK(environment.warnings[0] == "PLUGIN_DENY_VENDORS is longer than 65536 bytes; the rest is ignored");
}

TEST_CASE("a value of 10,000 entries is cut after 1,024, with a warning") {
    std::string value = "v0";
    for (int i = 1; i < 10'000; ++i) {
        value += ",v" + std::to_string(i);
    }
    const Environment environment = make_environment("PLUGIN_", {{"PLUGIN_ALLOW_VENDORS", value}}, false);
    const auto vendors = parse_vendors(*environment.find(Variable::allow_vendors), Place{"PLUGIN_ALLOW_VENDORS"});
    REQUIRE(vendors.size() == 1024);
    CHECK(vendors.back() == "v1023");
    REQUIRE(environment.warnings.size() == 1);
    CHECK(environment.warnings[0] == "PLUGIN_ALLOW_VENDORS is longer than 1024 entries; the rest is ignored");
}

TEST_CASE("of a list whose first entry is longer than the limit nothing is kept, with a warning") {
    const Environment environment =
        make_environment("PLUGIN_", {{"PLUGIN_DENY_VENDORS", std::string(64 * 1024 + 1, 'a') + ",acme"}}, false);
    CHECK((environment.find(Variable::deny_vendors)->empty())); // 64 KiB, which no message shows
    CHECK(environment.warnings.size() == 1);
}

TEST_CASE("orders per op are cut between ops, and modules at either separator") {
    const Environment environment =
        make_environment("PLUGIN_",
                         {{"PLUGIN_PER_OP", "gelu=default|vendor;silu=" + repeated("vendor|", 10'000) + "vendor"},
                          {"PLUGIN_MODULES", "/a:/b,/" + repeated("c", 1 << 20)}},
                         false);
    CHECK(*environment.find(Variable::per_op) == "gelu=default|vendor");
    CHECK(*environment.find(Variable::modules) == "/a:/b");
    CHECK(environment.warnings.size() == 2);
}

TEST_CASE("a list may end in a separator, and be as long as the limit says") {
    const auto kept = [](const std::string &value) {
        const Environment environment = make_environment("PLUGIN_", {{"PLUGIN_DENY_VENDORS", value}}, false);
        CHECK(environment.warnings.empty());
        return *environment.find(Variable::deny_vendors);
    };
    CHECK(kept("acme,") == "acme,");
    const std::string longest = repeated(repeated("a", 1023) + ",", 64);
    CHECK((kept(longest) == longest)); // 64 KiB, which no message shows
}

TEST_CASE("a value without separators is cut at its last byte") {
    const std::string longest = "/" + repeated("a", 64 * 1024 - 1);
    for (const std::string &value : {longest, longest + "b"}) {
        const Environment environment = make_environment("PLUGIN_", {{"PLUGIN_CONFIG", value}}, false);
        CHECK((*environment.find(Variable::config) == longest));
        CHECK(environment.warnings.size() == (value == longest ? 0 : 1));
    }
}

TEST_CASE("a prefix of four bytes is long enough to have a slip in it, one of three is not") {
    const auto warnings = [](const char *prefix, const char *name) {
        return make_environment(prefix, {{name, "1"}}, false).warnings;
    };
    CHECK(warnings("OPD_", "OPF_STRICT") ==
          std::vector<std::string>{"'OPF_STRICT' is set but means nothing to opdock; did you mean 'OPD_STRICT'?"});
    CHECK(warnings("OP_", "OQ_STRICT").empty());
}

TEST_CASE("as many entries as the limit allows are all kept") {
    std::string value = "v0";
    for (int i = 1; i < 1024; ++i) {
        value += ",v" + std::to_string(i);
    }
    const Environment environment = make_environment("PLUGIN_", {{"PLUGIN_ALLOW_VENDORS", value}}, false);
    CHECK(*environment.find(Variable::allow_vendors) == value);
    CHECK(environment.warnings.empty());
}

TEST_CASE("a switch of 1 MiB is an error that stays short") {
    const Environment environment = make_environment("PLUGIN_", {{"PLUGIN_STRICT", repeated("1", 1 << 20)}}, false);
    CHECK(message_of([&] { environment.is_on(Variable::strict); }).size() < 250);
}

TEST_CASE("the process's own environment is captured with its home") {
    const Environment environment = capture_environment("OPDOCK_UNIT_TEST_");
    CHECK(environment.prefix == "OPDOCK_UNIT_TEST_");
    CHECK(environment.values.empty());
    CHECK_FALSE(environment.secure);
}

TEST_CASE("the search path for libraries is that of the program's start") {
    const std::string at_start = capture_environment("OPDOCK_UNIT_TEST_").library_path;
    const char *value = getenv("LD_LIBRARY_PATH");
    CHECK(at_start == (value != nullptr ? value : ""));
    setenv("LD_LIBRARY_PATH", "/opt/opdock/too/late", 1); // too late: the dynamic loader does not see it
    CHECK(capture_environment("OPDOCK_UNIT_TEST_").library_path == at_start);
    if (at_start.empty()) {
        unsetenv("LD_LIBRARY_PATH");
    } else {
        setenv("LD_LIBRARY_PATH", at_start.c_str(), 1);
    }
}

TEST_CASE("of several search paths for libraries the last counts, as the dynamic loader has it") {
    using namespace std::string_literals;
    std::istringstream environment("LD_LIBRARY_PATH=/a\0OTHER=/b\0LD_LIBRARY_PATH=/c\0LD_LIBRARY_PATHS=/d\0"s);
    CHECK(library_path_in(environment) == "/c");
}

TEST_CASE("the documentation's tables of variables are the program's") {
    std::set<std::string> expected;
    for (const VariableInfo &row : all_variables) {
        std::string values(row.values);
        for (std::size_t bar = values.find('|'); bar != std::string::npos; bar = values.find('|', bar + 2)) {
            values.insert(bar, "\\"); // as Markdown requires inside a table
        }
        expected.insert("| " + variable_name(row.id, "PLUGIN_") + " | " + values + " | " + std::string(row.fallback) +
                        " | " + std::string(row.meaning) + " |");
    }
    for (const char *document : {"/README.md", "/docs/policy.md"}) {
        CAPTURE(document);
        std::ifstream stream(opdock::test::source_folder().string() + document);
        std::set<std::string> rows;
        for (std::string line; std::getline(stream, line);) {
            if (line.starts_with("| PLUGIN_")) {
                rows.insert(line);
            }
        }
        const bool has_all = document == std::string_view("/docs/policy.md");
        CHECK((has_all ? rows == expected : !rows.empty() && std::ranges::includes(expected, rows)));
    }
}
