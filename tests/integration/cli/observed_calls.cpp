// Output that a program's environment requests from its host: PLUGIN_METRICS, PLUGIN_REPORT and profilers.
#include <fstream>
#include <iterator>

#include <doctest/doctest.h>

#include "tools.hpp"

using namespace opdock::test;

namespace {

std::string text_of(const std::filesystem::path &path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

const std::vector<std::string> three_calls = {"gelu", "--in", "input=random:f32[4,8]", "--repeat", "3"};

} // namespace

TEST_CASE(
    "a program that calls leaves a file of counters for monitoring, and one that asks what serves leaves it alone") {
    PluginRun run({CPU_PLUGIN, REFERENCE_PLUGIN});
    const std::filesystem::path file = run.home().path() / "opdock.prom";
    run.with("PLUGIN_METRICS", file.string());
    REQUIRE(run.run(three_calls).code == 0);
    const std::string counters = text_of(file);
    CHECK(contains(counters, "# TYPE opdock_served counter\n"));
    CHECK(contains(counters, R"(opdock_served_total{op="gelu",implementation="default.cpu",plugin="cpu",vendor=""} )"));
    CHECK(counters.ends_with("\n# EOF\n"));

    PluginLs list({CPU_PLUGIN, REFERENCE_PLUGIN});
    list.with("PLUGIN_METRICS", file.string());
    REQUIRE(list.run({"--why", "gelu"}).code == 0);
    CHECK(text_of(file) == counters);
}

TEST_CASE("a report names what serves each op at the start, and what was called at the end") {
    PluginRun run({CPU_PLUGIN, REFERENCE_PLUGIN});
    run.with("PLUGIN_REPORT", "1");
    const auto outcome = run.run(three_calls);
    REQUIRE(outcome.code == 0);
    const auto serves = outcome.err.find(": what serves each op\n  op ");
    const auto called = outcome.err.find(": number of calls of each implementation\n  op ");
    CHECK(serves != std::string::npos);
    CHECK(called != std::string::npos);
    CHECK(serves < called);
    CHECK(contains(outcome.err.substr(0, called), "  default.cpu  'default' in the built-in order "));
    CHECK(contains(outcome.err.substr(called), "\n  gelu  default.cpu     "));
}

TEST_CASE("a wrong value of either variable is an error that names it") {
    PluginRun run({CPU_PLUGIN, REFERENCE_PLUGIN});
    run.with("PLUGIN_METRICS", "counters.prom");
    CHECK(contains(run.run(three_calls).err, "PLUGIN_METRICS, column 1: expected the absolute path of a file"));
    run.with("PLUGIN_METRICS", "/tmp/opdock-%p.prom,often");
    CHECK(contains(run.run(three_calls).err, "PLUGIN_METRICS, column 1: expected seconds"));
}

#ifdef OPDOCK_HAS_NVTX
TEST_CASE("kernels are ranges in the domain opdock of a profiler that listens by NVTX") {
    PluginRun run({CPU_PLUGIN, REFERENCE_PLUGIN});
    const Finished without = run.run(three_calls);
    REQUIRE(without.code == 0);
    CHECK_FALSE(contains(without.err, "nvtx"));
    run.with("NVTX_INJECTION64_PATH", fixture("profiler"));
    const Finished watched = run.run(three_calls);
    REQUIRE(watched.code == 0);
    CHECK(contains(watched.err, "nvtx: opdock { gelu default.cpu\nnvtx: opdock }\n"));
}
#endif
