// plugin-check on a plugin that tries to pass as right.
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include <sys/types.h>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "tools.hpp"

using nlohmann::json;
using opdock::test::contains;
using opdock::test::Finished;
using opdock::test::fixture;
using opdock::test::TemporaryDirectory;
using opdock::test::Tool;

namespace {

struct PluginCheck : Tool {
    explicit PluginCheck(const std::vector<std::string> &plugins = {}) : Tool(PLUGIN_CHECK, plugins) {}
};

json checked(const PluginCheck &tool, const std::string &op, const std::string &file = fixture("forges"),
             const std::vector<std::string> &more = {}) {
    std::vector<std::string> arguments = {file,     "--op", op,          "--impl", "vendor.forges",
                                          "--seed", "4",    "--timeout", "5m",     "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Finished finished = tool.run(arguments);
    INFO(finished.out);
    INFO(finished.err);
    const json document = json::parse(finished.out, nullptr, false);
    REQUIRE(document.is_object());
    REQUIRE(document.contains("ops"));
    REQUIRE(document.at("ops").size() == 1);
    const bool is_sound =
        document.at("ops")[0].at("findings").empty() && document.at("files")[0].at("findings").empty();
    CHECK(finished.code == (is_sound ? 0 : 1));
    return document.at("ops")[0];
}

std::set<std::string> checks_of(const json &op) {
    std::set<std::string> checks;
    for (const json &finding : op.at("findings")) {
        checks.insert(finding.at("check").get<std::string>());
    }
    return checks;
}

} // namespace

TEST_CASE("a plugin that calls itself reference, or brings references, is not what standard ops are compared with") {
    const PluginCheck tool;
    for (const char *const file : {"forges", "called_reference"}) {
        CAPTURE(file);
        const std::vector<std::string> alone = {"--case", "5"};
        const std::vector<std::string> named = {"--case", "5", "--modules", fixture(file)};
        CHECK(checks_of(checked(tool, "relu", fixture(file), alone)).contains("wrong"));
        CHECK(checks_of(checked(tool, "relu", fixture(file), named)).contains("wrong"));
        // Found through the usual search for plugins.
        const PluginCheck with_another({fixture("called_reference")});
        CHECK(checks_of(checked(with_another, "relu", fixture(file), alone)).contains("wrong"));
    }
}

TEST_CASE("where opdock's own reference is not installed a standard op is not sound unseen") {
    const TemporaryDirectory directory;
    std::filesystem::copy_file(OPDOCK_LIBRARY, directory.path() / std::filesystem::path(OPDOCK_LIBRARY).filename());
    PluginCheck tool;
    tool.with("LD_LIBRARY_PATH", directory.path().string());
    for (const std::string &named : {fixture("called_reference"), std::string(REFERENCE_PLUGIN)}) {
        const json op = checked(tool, "relu", fixture("forges"), {"--case", "5", "--modules", named});
        CHECK(checks_of(op) == std::set<std::string>{"not-compared"});
        CHECK(contains(op.at("findings")[0].at("message").get<std::string>(), "is missing from its place"));
        CHECK(op.at("has_reference") == false);
    }
}

TEST_CASE("an op of a vendor's own is compared with what the plugin brings, and that is said") {
    const json op = checked(PluginCheck(), "forges.sound");
    CHECK(op.at("findings").empty());
    CHECK(op.at("has_reference") == true);
    CHECK(op.at("notes") == json{"its values were compared with those of 'reference.forges', which the same plugin "
                                 "brings"});
}

TEST_CASE("an answer that a kernel forges is a finding, and makes nothing right") {
    const PluginCheck tool;
    for (const char *const op :
         {"forges.line", "forges.answer", "forges.other_types", "forges.endless", "forges.empty"}) {
        CAPTURE(op);
        const json found = checked(tool, op);
        CHECK(checks_of(found).contains("worker"));
        CHECK(contains(found.at("findings")[0].at("message").get<std::string>(), "descriptor 3"));
    }
}

TEST_CASE("a kernel that takes the worker's descriptors away, or leaves, is a finding") {
    const PluginCheck tool;
    for (const char *const op : {"forges.closes", "forges.leaves"}) {
        CAPTURE(op);
        CHECK(checks_of(checked(tool, op)).contains("crash"));
    }
}

TEST_CASE("a call that the reference computes cannot be refused as none") {
    CHECK(checks_of(checked(PluginCheck(), "silu")).contains("failed"));
}

TEST_CASE("after a broken answer the other ops are still checked") {
    const Finished finished =
        PluginCheck().run({fixture("forges"), "--op", "forges.other_types", "--op", "forges.line", "--op",
                           "forges.sound", "--impl", "vendor.forges", "--seed", "4", "--json"});
    INFO(finished.out);
    CHECK(finished.code == 1);
    const json ops = json::parse(finished.out).at("ops");
    REQUIRE(ops.size() == 3);
    CHECK(checks_of(ops[0]).contains("worker")); // sorted by name
    CHECK(checks_of(ops[1]).contains("worker"));
    CHECK(ops[2].at("op") == "forges.sound");
    CHECK(ops[2].at("findings").empty());
    CHECK(ops[2].at("ran") > 0);
}

TEST_CASE("the memory of the process that judges is closed to the plugin") {
    CHECK(checks_of(checked(PluginCheck(), "forges.reaches_for_parent")).empty());
}

TEST_CASE("a process that a plugin puts out of reach ends before the report is written") {
    const TemporaryDirectory directory;
    const std::filesystem::path file = directory.path() / "daemon";
    PluginCheck tool;
    tool.with("FORGES_DAEMON", file.string());
    checked(tool, "forges.leaves_daemon");
    std::ifstream in(file);
    pid_t daemon = 0;
    in >> daemon;
    REQUIRE(daemon > 1);
    CHECK(kill(daemon, 0) != 0);
    CHECK(errno == ESRCH);
}
