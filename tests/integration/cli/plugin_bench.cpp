// plugin-bench on the cpu and reference plugins and on fixtures. Speed depends on the machine; the tests check what is
// timed, printed and written.
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

struct PluginBench : Tool {
    PluginBench() : Tool(PLUGIN_BENCH, {CPU_PLUGIN, REFERENCE_PLUGIN, fixture("tunable"), fixture("good")}) {}

    std::string path(const std::string &name) const { return (home().path() / name).string(); }
    json timed(const std::vector<std::string> &arguments) const {
        std::vector<std::string> all = arguments;
        all.emplace_back("--json");
        const Finished finished = run(all);
        INFO(finished.err);
        REQUIRE(finished.code == 0);
        return json::parse(finished.out);
    }
};

const std::vector<std::string> quickly = {"--rounds", "3", "--budget", "1m"}; // batches stay short

std::vector<std::string> rmsnorm_and(const std::vector<std::string> &more) {
    std::vector<std::string> arguments = {"rmsnorm_fwd", "--shape", "input=f32[8,100]", "--shape", "weight=f32[100]"};
    arguments.insert(arguments.end(), quickly.begin(), quickly.end());
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
}

std::string content(const std::string &file) {
    std::ostringstream text;
    text << std::ifstream(file).rdbuf();
    return text.str();
}

} // namespace

TEST_CASE("all implementations of an op are timed side by side, with rates and what a call costs") {
    const PluginBench bench;
    const json document = bench.timed(rmsnorm_and({}));
    CHECK(document["schema"] == "opdock.plugin-bench/1");
    CHECK(document["device"] == "cpu:0");
    CHECK(document["ceilings"]["copy"]["bytes_per_second"] > 0);
    CHECK(document["ceilings"]["copy"]["measured"].size() == 2);
    CHECK(document["ceilings"]["matmul"].empty());
    REQUIRE(document["shapes"].size() == 1);
    const json &shape = document["shapes"][0];
    CHECK(shape["outcome"] == "timed");
    CHECK(shape["bytes"] == 2 * 3200 + 400);
    CHECK(shape["flops"].is_null());
    CHECK(shape["copies"] == 1);
    REQUIRE(shape["implementations"].size() == 2);
    for (const json &one : shape["implementations"]) {
        CHECK(one["outcome"] == "timed");
        CHECK(one["microseconds"] > 0);
        CHECK(one["samples"] >= 1);
        CHECK(one["of_copy"] > 0);
    }
    REQUIRE(document["calls"].size() == 1);
    CHECK(document["calls"][0]["impl_id"] == "default.cpu");
    for (const char *way : {"kernel", "prepared", "handle", "by_name"}) {
        CHECK(document["calls"][0][way]["ns"] > 0);
    }
}

TEST_CASE("the report names the ceilings and each implementation, and progress goes to stderr") {
    const PluginBench bench;
    const Finished finished = bench.run(rmsnorm_and({}));
    CHECK(finished.code == 0);
    CHECK(contains(finished.out, "  copies at "));
    CHECK(contains(finished.out, "\nrmsnorm_fwd input=f32[8,100] weight=f32[100]\n  "));
    CHECK(contains(finished.out, "  reference.cpp  "));
    CHECK(contains(finished.out, "A CALL on the host"));
    CHECK(contains(finished.err, "1 of 1: rmsnorm_fwd input=f32[8,100] weight=f32[100]: "));
    CHECK_FALSE(contains(finished.err, "\r"));
}

TEST_CASE("--impl leaves the others out, and --cold takes turns through copies") {
    const PluginBench bench;
    const json document = bench.timed(rmsnorm_and({"--impl", "reference.cpp", "--cold"}));
    CHECK(document["cold"]);
    REQUIRE(document["shapes"][0]["implementations"].size() == 1);
    CHECK(document["shapes"][0]["implementations"][0]["impl_id"] == "reference.cpp");
    CHECK(document["shapes"][0]["copies"] > 100);
}

TEST_CASE("optional outputs that are asked for are computed, counted and told") {
    const PluginBench bench;
    const json asked = bench.timed(rmsnorm_and({"--output", "rsigma"}))["shapes"][0];
    CHECK(asked["outputs"] == json{"rsigma"});
    CHECK(asked["bytes"] == 2 * 3200 + 400 + 32); // one f32 for each row
    CHECK(bench.timed(rmsnorm_and({}))["shapes"][0]["outputs"].empty());

    const std::string shapes = bench.path("shapes.yaml");
    std::ofstream(shapes) << R"(- op: layernorm_bwd
  inputs: {grad: "f32[8,100]", input: "f32[8,100]", mu: "f32[8]", rsigma: "f32[8]", weight: "f32[100]"}
- op: layernorm_bwd
  inputs: {grad: "f32[8,100]", input: "f32[8,100]", mu: "f32[8]", rsigma: "f32[8]", weight: "f32[100]"}
  outputs: [grad_weight, grad_bias]
)";
    std::vector<std::string> arguments = {"--shapes", shapes};
    arguments.insert(arguments.end(), quickly.begin(), quickly.end());
    const json document = bench.timed(arguments);
    REQUIRE(document["shapes"].size() == 2);
    CHECK(document["shapes"][0]["bytes"] == 3 * 3200 + 2 * 32 + 400);
    CHECK(document["shapes"][1]["bytes"] == 3 * 3200 + 2 * 32 + 400 + 2 * 400);
    for (const json &one : document["shapes"][1]["implementations"]) {
        CHECK(one["outcome"] == "timed");
    }
    CHECK(contains(bench.run(arguments).out, " weight=f32[100] +grad_weight +grad_bias\n"));
}

TEST_CASE("outputs that cannot be asked for are said before anything is timed") {
    const PluginBench bench;
    check_error(bench.run(rmsnorm_and({"--output", "rsimga"})), 2, "did you mean 'rsigma'?");
    check_error(bench.run(rmsnorm_and({"--output", "output"})), 2, "--output output: it is not optional");
    const std::string shapes = bench.path("shapes.yaml");
    std::ofstream(shapes) << "- op: relu\n  inputs: {input: \"f32[8]\"}\n- op: relu\n  inputs: {input: \"f32[8]\"}\n"
                             "  outputs: [grad]\n";
    check_error(bench.run({"--shapes", shapes}), 1, shapes + ":3:3: --output 'grad': relu has no such argument");
    CHECK(contains(bench.run({"layernorm_bwd"}).out, "    --output grad_bias "));
}

TEST_CASE("linear ops are held against a matmul of their dtype") {
    const PluginBench bench;
    const json document = bench.timed({"linear_fwd", "--shape", "input=f32[16,32]", "--shape", "weight=f32[8,32]",
                                       "--impl", "reference.cpp", "--rounds", "1", "--budget", "1ms"});
    CHECK(document["shapes"][0]["flops"] == 2 * 16 * 32 * 8);
    CHECK(document["ceilings"]["matmul"].contains("f32"));
    CHECK(document["shapes"][0]["implementations"][0]["flops_per_second"] > 0);
}

TEST_CASE("a linear op whose dtype matmul lacks is timed without that ceiling") {
    const PluginBench bench;
    const json document =
        bench.timed({"linear_fp8", "--shape", "input=random:e4m3[16,32]", "--shape", "weight=random:e4m3[8,32]",
                     "--shape", "input_scale=ones:f32[1]", "--shape", "weight_scale=ones:f32[1]", "--attr", "dtype=f32",
                     "--impl", "reference.cpp", "--rounds", "1", "--budget", "1ms"});
    CHECK(document["shapes"][0]["flops"] == 2 * 16 * 32 * 8);
    CHECK(document["shapes"][0]["implementations"][0]["of_matmul"].is_null());
}

TEST_CASE("an op that writes its input is timed, and so are kernels with knobs") {
    const PluginBench bench;
    const std::string shapes = bench.path("shapes.yaml");
    std::ofstream(shapes) << R"(- op: fixture.update
  inputs: {state: "f32[100]"}
- op: fixture.work
  impl: vendor.tunable
  inputs: {input: "f32[100]"}
)";
    const json document = bench.timed({"--shapes", shapes, "--rounds", "2", "--budget", "5ms"});
    REQUIRE(document["shapes"].size() == 2);
    CHECK(document["shapes"][0]["bytes"] == 804);
    CHECK(document["shapes"][0]["outcome"] == "timed");
    CHECK(document["shapes"][1]["implementations"].size() == 1);
    CHECK(document["calls"].size() == 2);
}

TEST_CASE("all brings sizes of its own, for the ops that are named") {
    const PluginBench bench;
    const json document = bench.timed({"relu", "fixture.work", "--all", "--impl", "default.cpu", "--impl",
                                       "vendor.tunable", "--rounds", "1", "--budget", "1ms"});
    CHECK(document["shapes"].size() == 6 + 3); // two dtypes and three sizes; one dtype
    CHECK(document["left_out"].empty());
    check_error(bench.run({"relu", "--all", "--impl", "vendor.tunable"}), 1, "there is nothing to time on cpu");
}

TEST_CASE("an earlier document is compared with, and what it lacks is new") {
    const PluginBench bench;
    const std::string before = bench.path("before.json");
    json document = bench.timed(rmsnorm_and({}));
    document["shapes"][0]["implementations"][0]["microseconds"] = 1e-9; // a time that cannot be reached again
    document["shapes"][0]["implementations"][0]["spread"] = 0.0;
    document["shapes"][0]["implementations"][1]["impl_id"] = "vendor.gone";
    std::ofstream(before) << document;
    const Finished finished = bench.run(rmsnorm_and({"--compare", before}));
    INFO(finished.err);
    CHECK(finished.code == 0);
    CHECK(contains(finished.out, "\nSINCE " + before + "\n"));
    CHECK(contains(finished.out, "x slower, spread "));
    CHECK(contains(finished.out, "vendor.gone: gone\n"));
    const Finished failing = bench.run(rmsnorm_and({"--compare", before, "--fail-above", "1.1", "--json"}));
    CHECK(failing.code == 1);
    CHECK(json::parse(failing.out)["comparison"]["rows"].size() == 3);
    check_error(bench.run(rmsnorm_and({"--compare", bench.path("absent.json")})), 1, "absent.json");
    std::ofstream(before) << "{}";
    check_error(bench.run(rmsnorm_and({"--compare", before})), 1, "expected the output of 'plugin-bench --json'");
}

TEST_CASE("tables and drawings are written, and not over others without --force") {
    PluginBench bench;
    const std::string table = bench.path("ops.csv");
    const std::string drawing = bench.path("ops.svg");
    bench.with("PATH", "/nonexistent");
    check_error(bench.run(rmsnorm_and({"--plot", drawing})), 1, "--plot needs gnuplot");
    CHECK(bench.run(rmsnorm_and({"--csv", table})).code == 0);
    CHECK(content(table).starts_with("device,op,call,"));
    CHECK(contains(content(table), "\ncpu:0,rmsnorm_fwd,\"rmsnorm_fwd input=f32[8,100] weight=f32[100]\",6800,,"));
    check_error(bench.run(rmsnorm_and({"--csv", table})), 1, "--force overwrites it");
    if (!std::filesystem::exists("/usr/bin/gnuplot")) {
        return;
    }
    bench.with("PATH", "/usr/bin:/bin");
    const Finished finished = bench.run(rmsnorm_and({"--csv", table, "--force", "--plot", drawing}));
    INFO(finished.err);
    CHECK(finished.code == 0);
    CHECK(contains(content(drawing), "</svg>"));
    CHECK(contains(content(drawing), "rmsnorm_fwd  f32  default.cpu"));
}

TEST_CASE("--format csv prints what --csv writes, and --format json what --json prints") {
    const PluginBench bench;
    const std::string table = bench.path("ops.csv");
    const Finished finished = bench.run(rmsnorm_and({"--format", "csv", "--csv", table}));
    INFO(finished.err);
    CHECK(finished.code == 0);
    CHECK(contains(finished.out, "\ncpu:0,rmsnorm_fwd,"));
    CHECK(finished.out == content(table));
    const json document = json::parse(bench.run(rmsnorm_and({"--format", "json"})).out);
    CHECK(document["schema"] == "opdock.plugin-bench/1");
    CHECK(document["shapes"].size() == 1);
    const std::vector<std::string> unknown = {"rmsnorm_fdw", "--shape", "a=f32[1]"};
    const auto printed = [&](const char *option) {
        std::vector<std::string> all = unknown;
        all.emplace_back(option);
        return bench.run(all).out;
    };
    CHECK(contains(printed("--json"), "UNKNOWN_OP"));
    CHECK(printed("--format=json") == printed("--json"));
    CHECK(printed("--format=csv").empty());
}

TEST_CASE("an interruption prints what is done and exits with 128 and the signal") {
    for (const int signal : {SIGINT, SIGTERM}) {
        PluginBench bench;
        const std::string shapes = bench.path("shapes.yaml");
        std::ofstream(shapes) << R"(- {op: relu, inputs: {input: "f32[100]"}}
- {op: relu, inputs: {input: "f32[200]"}}
- {op: relu, inputs: {input: "f32[300]"}}
)";
        const Finished finished = bench.run_and_interrupt(
            {"--shapes", shapes, "--rounds", "10000", "--budget", "3s", "--json"}, "2 of 3: relu", signal);
        INFO(finished.err);
        CHECK(finished.code == 128 + signal);
        const json document = json::parse(finished.out);
        CHECK(document["interrupted"]);
        REQUIRE(document["shapes"].size() == 3);
        CHECK(document["shapes"][0]["outcome"] == "timed");
        CHECK(document["shapes"][2]["outcome"] == "skipped");
    }
}

TEST_CASE("what every implementation declines is said with the reasons, and is a failure") {
    const PluginBench bench;
    const Finished finished = bench.run({"rmsnorm_fwd", "--shape", "input=bf16[8,100]", "--shape", "weight=f16[100]",
                                         "--rounds", "1", "--budget", "1ms", "--json"});
    CHECK(finished.code == 1);
    const json document = json::parse(finished.out);
    CHECK(document["calls"].empty());
    CHECK(document["ceilings"]["copy"]["measured"].size() == 1);
    const json &shape = document["shapes"][0];
    CHECK(shape["outcome"] == "declined");
    for (const json &one : shape["implementations"]) {
        CHECK(one["outcome"] == "declined");
        CHECK(contains(one["reason"], "f16"));
    }
}

TEST_CASE("a call that the op does not take ends plugin-bench before anything is measured") {
    const PluginBench bench;
    const std::vector<std::string> wrong = {"rmsnorm_fwd", "--shape", "input=f32[8,100]", "--shape", "weight=f32[99]"};
    const Finished finished = bench.run(wrong);
    check_error(finished, 1, "weight");
    CHECK(finished.out.empty());
    std::vector<std::string> as_json = wrong;
    as_json.emplace_back("--json");
    const json document = json::parse(bench.run(as_json).out);
    CHECK(document["schema"] == "opdock.plugin-bench.error/1");
    CHECK(document["error"]["status"] == "INVALID_ARGUMENT");
}

TEST_CASE("a call without tensors is timed on the device that was named, and not on the CPU") {
    Tool bench(PLUGIN_BENCH, {fixture("registers_everything"), fixture("without_tensors")});
    bench.with("PLUGIN_DENY_VENDORS", "acme"); // none of its kernels may run
    const Finished finished = bench.run({"acme.wait", "--attr", "n=3", "--device", "npu:1"});
    CHECK(finished.code == 1);
    CHECK(contains(finished.out, "op 'acme.wait' has no implementation left for npu:1:"));
    CHECK(contains(finished.out, "is denied by PLUGIN_DENY_VENDORS"));
}

TEST_CASE("wrong usage of plugin-bench exits with 2, what is absent with 1") {
    const PluginBench bench;
    check_error(bench.run({}), 2, "there is nothing to time: ");
    check_error(bench.run({"rmsnorm_fwd", "--shape", "input=f32[8,100]"}), 2, "rmsnorm_fwd needs 'weight'");
    check_error(bench.run({"rmsnorm_fdw", "--shape", "a=f32[1]"}), 1, "did you mean 'rmsnorm_fwd'");
    check_error(bench.run(rmsnorm_and({"--impl", "default.cup"})), 1, "did you mean 'default.cpu'");
    check_error(bench.run(rmsnorm_and({"--modules", fixture("no_note")})), 1, ": rejected (OPDOCK-E010): ");
    check_error(bench.run(rmsnorm_and({"--device", "cuda"})), 1,
                "there is no device cuda: no plugin provides devices of this type");
    const Finished finished = bench.run({"rmsnorm_fdw", "--shape", "a=f32[1]", "--json"});
    CHECK(json::parse(finished.out)["schema"] == "opdock.plugin-bench.error/1");
    CHECK(json::parse(finished.out)["error"]["status"] == "UNKNOWN_OP");
    const Finished expected = bench.run({"rmsnorm_fwd"});
    CHECK(expected.code == 0);
    CHECK(contains(expected.out, "--shape weight=SOURCE"));
    CHECK(contains(bench.run({"--version"}).out, "plugin-bench (opdock) " OPDOCK_VERSION));
}
