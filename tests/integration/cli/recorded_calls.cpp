// Files that PLUGIN_TRACE and PLUGIN_RECORD make of a program's calls, and the tools that read them. The program is
// plugin-run.
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "tools.hpp"

using namespace opdock::test;
using nlohmann::json;

namespace {

const std::vector<std::string> plugins = {CPU_PLUGIN, REFERENCE_PLUGIN, fixture("tunable")};

std::string content(const std::string &file) {
    std::ostringstream text;
    text << std::ifstream(file).rdbuf();
    return text.str();
}

// A program whose calls are traced and recorded.
struct Watched : PluginRun {
    Watched() : PluginRun(plugins) {
        with("PLUGIN_TRACE", trace).with("PLUGIN_RECORD", record);
        with("PLUGIN_LOG_LEVEL", "INFO");
    }

    std::string trace = (home().path() / "trace.json").string();
    std::string record = (home().path() / "record.yaml").string();
};

json printed(const Finished &finished) {
    INFO(finished.err);
    REQUIRE(finished.code == 0);
    return json::parse(finished.out);
}

const std::vector<std::string> norm = {"rmsnorm_fwd", "--in", "input=random:f32[8,100]", "--in",
                                       "weight=random:f32[100]"};

} // namespace

TEST_CASE("a program that ends leaves a trace that needs no conversion") {
    Watched program;
    CHECK(program.run(norm).code == 0);
    const json events = json::parse(content(program.trace)).at("traceEvents");
    REQUIRE(!events.empty());
    CHECK(events[0].at("name") == "rmsnorm_fwd");
    CHECK(events[0].at("args").at("call") == "input=f32[8,100] weight=f32[100]");
    const Finished converted = PluginLs(plugins).run({"--trace", program.trace});
    CHECK(converted.code == 1);
    CHECK(contains(converted.err, "open it in Perfetto"));
}

TEST_CASE("plugin-ls --trace reads what a killed program left, whose record is whole or absent") {
    Watched program;
    const Finished killed = program.run_and_interrupt(
        {"gelu", "--in", "input=random:f32[512,512]", "--repeat", "1000000"}, "using 'default.cpu'", SIGKILL);
    CHECK(killed.code == 128 + SIGKILL);
    CHECK_FALSE(std::filesystem::exists(program.trace));
    for (const std::string &name : {program.trace, program.trace + ".ring"}) {
        const json events = printed(PluginLs(plugins).run({"--trace", name})).at("traceEvents");
        REQUIRE(!events.empty());
        CHECK(events[0].at("name") == "gelu");
        CHECK(events[0].at("args").at("implementation") == "default.cpu");
    }
}

TEST_CASE("plugin-ls --trace says what is no trace") {
    const PluginLs ls(plugins);
    const std::string file = (ls.home().path() / "notes").string();
    std::ofstream(file) << "shopping list";
    const Finished finished = ls.run({"--trace", file});
    CHECK(finished.code == 1);
    CHECK(contains(finished.err, "notes: expected a trace that an opdock host was writing"));
    CHECK(ls.run({"--trace", file + ".absent"}).code == 1);
}

TEST_CASE("plugin-bench and plugin-check run what was recorded, and leave the record as it is") {
    Watched program;
    CHECK(program.run(norm).code == 0);
    const std::string recorded = content(program.record);
    INFO(recorded);
    CHECK(contains(recorded, "- op: \"rmsnorm_fwd\"\n  device: \"cpu:0\"\n  served_by: \"default.cpu\"\n"));

    Tool bench(PLUGIN_BENCH, plugins);
    bench.with("PLUGIN_RECORD", program.record).with("PLUGIN_TRACE", program.trace);
    const json timed = printed(bench.run({"--shapes", program.record, "--rounds", "3", "--budget", "1m", "--json"}));
    REQUIRE(timed.at("shapes").size() == 1);
    CHECK(timed.at("shapes")[0].at("op") == "rmsnorm_fwd");
    CHECK(timed.at("shapes")[0].at("inputs")[0].at("source") == "f32[8,100]");
    CHECK(timed.at("shapes")[0].at("outcome") == "timed");
    CHECK(content(program.record) == recorded);

    Tool check(PLUGIN_CHECK, plugins);
    check.with("PLUGIN_RECORD", program.record);
    const json checked =
        printed(check.run({"--impl", "default.cpu", "--shapes", program.record, "--seed", "7", "--json"}));
    REQUIRE(checked.at("ops").size() == 1);
    CHECK(checked.at("ops")[0].at("op") == "rmsnorm_fwd");
    CHECK(checked.at("ops")[0].at("call") == "rmsnorm_fwd input=f32[8,100] weight=f32[100]");
    CHECK(checked.at("ops")[0].at("findings").empty());
    CHECK(content(program.record) == recorded);
}

TEST_CASE("recorded calls come in their order, and those that cannot be made here are left out with the reason") {
    const PluginRun place(plugins);
    const std::string record = (place.home().path() / "record.yaml").string();
    std::ofstream(record) << R"(
- {op: relu, device: "cpu:0", served_by: default.cpu, calls: 5, share: 0.5, inputs: {input: "f32[100,10]"}, strides: {input: "[1,100]"}}
- {op: relu, device: "cpu:0", served_by: default.cpu, calls: 4, share: 0.2, inputs: {input: "f32[10,10]"}, strides: {input: "[64,1]"}}
- {op: acme.unknown, device: "cpu:0", served_by: vendor.acme, calls: 3, share: 0.1, inputs: {input: "f32[10]"}}
- {op: relu, device: "cuda:0", served_by: default.cuda, calls: 2, share: 0.1, inputs: {input: "f32[10]"}}
- {op: gelu, device: "cpu:0", served_by: default.cpu, calls: 1, share: 0.1, inputs: {input: "f32[10]"}}
)";
    const Tool bench(PLUGIN_BENCH, plugins);
    const json timed = printed(bench.run({"--shapes", record, "--rounds", "3", "--budget", "1m", "--json"}));
    REQUIRE(timed.at("shapes").size() == 2);
    CHECK(timed.at("shapes")[0].at("op") == "relu");
    CHECK(timed.at("shapes")[0].at("strides")[0].at("strides") == "[1,100]");
    CHECK(timed.at("shapes")[1].at("op") == "gelu");
    const json &left_out = timed.at("left_out");
    REQUIRE(left_out.size() == 3);
    CHECK(contains(left_out[0].at("reason"),
                   "record.yaml:3:3: strides of 'input': '[64,1]': expected strides of a tensor "
                   "without gaps"));
    CHECK(contains(left_out[1].at("reason"), "record.yaml:4:3: "));
    CHECK(contains(left_out[2].at("reason"), "it ran on cuda:0; see --device"));
}

TEST_CASE("plugin-tune tunes who served a recorded call, where that has configs to try") {
    const PluginRun place(plugins);
    const std::string record = (place.home().path() / "record.yaml").string();
    std::ofstream(record) << R"(
- {op: relu, device: "cpu:0", served_by: reference.cpp, calls: 5, inputs: {input: "f32[10]"}}
- {op: relu, device: "cpu:0", served_by: vendor.gone, calls: 5, inputs: {input: "f32[11]"}}
- {op: rmsnorm_fwd, device: "cpu:0", served_by: default.cpu, calls: 4, inputs: {input: "f32[8,100]", weight: "f32[100]"}}
)";
    const Tool tune(PLUGIN_TUNE, plugins);
    const json tuned = printed(tune.run({"--shapes", record, "--budget", "100ms", "--dry-run", "--json"}));
    REQUIRE(tuned.at("shapes").size() == 1);
    CHECK(tuned.at("shapes")[0].at("op") == "rmsnorm_fwd");
    CHECK(tuned.at("shapes")[0].at("impl_id") == "default.cpu");
    REQUIRE(tuned.at("left_out").size() == 2);
    CHECK(contains(tuned.at("left_out")[0].at("reason"), "'reference.cpp' has no knobs"));
    CHECK(contains(tuned.at("left_out")[1].at("reason"), "'vendor.gone' served the call, but is not available here"));
}
