// The GPU plugins on a machine without a GPU: they load, list their ops, and say why none of them runs here.
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "tools.hpp"

using namespace opdock::test;
using nlohmann::json;

namespace {

struct GpuPlugin {
    std::string file;
    std::string id;
    std::string impl_id;
    std::string kind;
    std::string vendor;
    std::string query;
};

const std::vector<GpuPlugin> plugins = {
#ifdef OPDOCK_CUDA_PLUGIN
    {OPDOCK_CUDA_PLUGIN, "opdock_cuda", "vendor.cuda", "cuda", "cuda", "nvidia-smi"},
#endif
#ifdef OPDOCK_HIP_PLUGIN
    {OPDOCK_HIP_PLUGIN, "opdock_hip", "vendor.hip", "rocm", "hip", "rocm-smi"},
#endif
};

} // namespace

TEST_CASE("a GPU plugin's file is one that a host takes") {
    for (const GpuPlugin &plugin : plugins) {
        CAPTURE(plugin.id);
        const Finished finished = PluginLs({}).run({"--check", plugin.file});
        CHECK(finished.code == 0);
        CHECK(contains(finished.out, "status             ok\n"));
    }
}

TEST_CASE("a GPU plugin loads without a GPU and registers kernels of its own for every op") {
    for (const GpuPlugin &plugin : plugins) {
        CAPTURE(plugin.id);
        const Finished finished = PluginLs({plugin.file}).run({"--json"});
        REQUIRE(finished.code == 0);
        CHECK(finished.err.empty());
        const json document = json::parse(finished.out);
        REQUIRE(document.at("plugins").size() == 1);
        CHECK(document.at("plugins")[0].at("id") == plugin.id);
        CHECK(document.at("plugins")[0].at("status") == "loaded");
        CHECK(document.at("plugins")[0].at("warnings").empty());
        CHECK_FALSE(document.at("ops").empty());
        for (const json &op : document.at("ops")) {
            CAPTURE(op.at("op"));
            std::size_t own = 0;
            for (const json &implementation : op.at("implementations")) {
                own += implementation.at("impl_id") == plugin.impl_id ? 1 : 0;
                CHECK(implementation.at("device") == plugin.kind);
                CHECK(implementation.at("capture_safe") == true);
            }
            CHECK(own == 1);
        }
    }
}

TEST_CASE("a GPU plugin registers its vendor as PyTorch knows the device, named as its implementations are") {
    for (const GpuPlugin &plugin : plugins) {
        CAPTURE(plugin.id);
        const json document = json::parse(PluginLs({plugin.file}).run({"--json"}).out);
        const json expected = {{{"name", plugin.vendor},
                                {"device_name", "cuda"},
                                {"dispatch_key", "CUDA"},
                                {"device_query_command", plugin.query}}};
        CHECK(document.at("vendors") == expected);
        CHECK(document.at("plugins")[0].at("vendor") == plugin.vendor);
        for (const json &op : document.at("ops")) {
            CAPTURE(op.at("op"));
            for (const json &implementation : op.at("implementations")) {
                CHECK(implementation.at("vendor") == plugin.vendor);
                CHECK(implementation.at("impl_id").get<std::string>().starts_with("vendor." + plugin.vendor));
            }
        }
    }
}

#ifdef OPDOCK_CUDA_PLUGIN
TEST_CASE("attention goes to cuDNN before the plugin's own kernels, which alone promise the same gradients each time") {
    const json document = json::parse(PluginLs({OPDOCK_CUDA_PLUGIN}).run({"--json"}).out);
    const json first_cudnn = {"vendor.cuda-cudnn", "vendor.cuda"};
    std::size_t found = 0;
    for (const json &op : document.at("ops")) {
        for (const json &implementation : op.at("implementations")) {
            if (implementation.at("impl_id") == "vendor.cuda-cudnn") {
                ++found;
                CAPTURE(op.at("op"));
                CHECK(implementation.at("dtypes") == json({"f16", "bf16"}));
                CHECK(implementation.at("deterministic") == (op.at("op") == "attention_fwd"));
                CHECK(op.at("chains").back().at("dtypes") == implementation.at("dtypes"));
                CHECK(op.at("chains").back().at("chain") == first_cudnn);
            } else {
                CHECK(implementation.at("deterministic") == true);
            }
        }
    }
    CHECK(found == 2); // attention_fwd and attention_bwd
}
#endif

TEST_CASE("a policy denies a GPU plugin by its vendor") {
    for (const GpuPlugin &plugin : plugins) {
        CAPTURE(plugin.id);
        PluginLs tool({plugin.file});
        tool.with("PLUGIN_DENY_VENDORS", plugin.vendor);
        const Finished finished = tool.run({"--why", "gelu", "--device", plugin.kind + ":4095"});
        CHECK(contains(finished.out, "vendor '" + plugin.vendor + "' is denied by PLUGIN_DENY_VENDORS"));
        CHECK(finished.err.empty()); // the vendor exists
    }
}

TEST_CASE("asked for a decision on a GPU that is not there, plugin-ls says why it is not") {
    for (const GpuPlugin &plugin : plugins) {
        CAPTURE(plugin.id);
        // An index that no machine has, so that the test also holds on a machine with a GPU.
        const std::string device = plugin.kind + ":4095";
        const Finished text = PluginLs({plugin.file}).run({"--why", "gelu", "--device", device});
        CHECK(contains(text.out, "DEVICE " + device + " can run no implementation\n"));
        const Finished finished = PluginLs({plugin.file}).run({"--why", "gelu", "--device", device, "--json"});
        const auto problem = json::parse(finished.out).at("device_problem").get<std::string>();
        const bool is_explained = contains(problem, "no device can be used: ") || contains(problem, "there are ");
        CHECK_MESSAGE(is_explained, problem);
    }
}

TEST_CASE("plugin-bench says on which devices an implementation runs, and what a type of devices lacks") {
    for (const GpuPlugin &plugin : plugins) {
        CAPTURE(plugin.id);
        const Tool bench(PLUGIN_BENCH, {CPU_PLUGIN, plugin.file});
        const Finished forgotten = bench.run({"gelu", "--shape", "input=f32[8]", "--impl", plugin.impl_id});
        CHECK(forgotten.code == 1);
        CHECK(contains(forgotten.err,
                       "'gelu' has no such implementation on cpu, but on " + plugin.kind + "; see --device"));
        const Finished absent = bench.run({"gelu", "--shape", "input=f32[8]", "--device", plugin.kind + ":4095"});
        CHECK(absent.code == 1);
        CHECK(contains(absent.err, "there is no device " + plugin.kind + ":4095: "));
    }
}

TEST_CASE("plugin-check and plugin-tune ask for the device before they do anything that needs it") {
    for (const GpuPlugin &plugin : plugins) {
        CAPTURE(plugin.id);
        const std::string device = plugin.kind + ":4095";
        const std::string reason = "there is no device " + device;
        const Finished check = Tool(PLUGIN_CHECK, {plugin.file}).run({"--impl", plugin.impl_id, "--device", device});
        CHECK(check.code == 1);
        CHECK(contains(check.err, reason));
        CHECK(check.out.empty());
        const Finished tune = Tool(PLUGIN_TUNE, {plugin.file}).run({"--all", "--device", device});
        CHECK(tune.code == 1);
        CHECK(contains(tune.err, reason));
        CHECK(tune.out.empty());
    }
}

TEST_CASE("devices are listed, and of a kind without one the reason") {
    const Finished finished = PluginLs({plugins.front().file}).run({"--devices"});
    CHECK(finished.code == 0);
    CHECK(contains(finished.out, "  cpu:0"));
    CHECK(contains(finished.out, "  " + plugins.front().kind));
    const json document = json::parse(PluginLs({plugins.front().file}).run({"--devices", "--json"}).out);
    CHECK(document.at("schema") == "opdock.plugin-ls.devices/1");
    for (const json &device : document.at("devices")) {
        CHECK(device.contains("type"));
        CHECK(device.contains("problem") != device.contains("name"));
    }
    const Finished report = PluginLs({plugins.front().file}).run({"--bug-report"});
    CHECK(contains(report.out, "\nDEVICES\n" + finished.out));
}

TEST_CASE("PLUGIN_SKIP_CUDA keeps the CUDA plugin out, and no other") {
    for (const GpuPlugin &plugin : plugins) {
        CAPTURE(plugin.id);
        PluginLs tool({plugin.file});
        tool.with("PLUGIN_SKIP_CUDA", "1");
        const Finished finished = tool.run({});
        const bool is_cuda = plugin.kind == "cuda";
        CHECK(contains(finished.out, (is_cuda ? "skipped  " : "loaded  ") + plugin.file));
        CHECK(contains(finished.out, "PLUGIN_SKIP_CUDA is set") == is_cuda);
        CHECK(contains(finished.out, plugin.impl_id) != is_cuda);
    }
}
