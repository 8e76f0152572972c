// Errors of plugin-run: nothing is called, nothing is written.
#include <filesystem>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "tools.hpp"

using namespace opdock::test;
using nlohmann::json;

namespace {

const std::vector<std::string> rmsnorm = {"rmsnorm_fwd", "--in", "input=ones:f32[2,4]", "--in", "weight=ones:f32[4]"};

std::vector<std::string> rmsnorm_and(const std::vector<std::string> &more) {
    std::vector<std::string> arguments = rmsnorm;
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
}

void check_only_error(const Finished &finished, int code, const std::string &message) {
    check_error(finished, code, message);
    CHECK(finished.out.empty());
}

} // namespace

TEST_CASE("an op alone is answered with its signature and each argument") {
    const PluginRun tool({REFERENCE_PLUGIN});
    const Finished finished = tool.run({"rmsnorm_fwd"});
    CHECK(finished.code == 0);
    CHECK(contains(finished.out, "rmsnorm_fwd\n  rmsnorm_fwd(input: T[..., n], weight: U[n]"));
    CHECK(contains(finished.out, "    --in weight=SOURCE "));
    CHECK(contains(finished.out, "SOURCE is FILE.npy"));
    CHECK_FALSE(contains(finished.out, "missing"));
    CHECK_FALSE(contains(finished.err, "plugin-run: "));
    const json document = json::parse(tool.run({"rmsnorm_fwd", "--json"}).out);
    CHECK(document["schema"] == "opdock.plugin-run.signature/1");
    CHECK(document["inputs"].size() == 2);
}

TEST_CASE("what is missing for a call is named, with the signature") {
    const Finished finished = PluginRun({REFERENCE_PLUGIN}).run({"rmsnorm_fwd", "--in", "input=ones:f32[2,4]"});
    check_only_error(finished, 2, "rmsnorm_fwd needs 'weight'\n  rmsnorm_fwd(input: T[..., n], weight: U[n]");
    CHECK(contains(finished.err, "    --in input=SOURCE "));
    CHECK(contains(finished.err, "  > --in weight=SOURCE "));
    CHECK(contains(finished.err, "--attr eps=FLOAT "));
    CHECK(contains(finished.err, "--output rsigma[=FILE] "));
    CHECK(contains(finished.err, "\nTry 'plugin-run --help'.\n"));
    CHECK_FALSE(contains(finished.err, "\n\n"));
    check_only_error(PluginRun({REFERENCE_PLUGIN}).run({"rmsnorm_fwd", "--impl", "reference.cpp"}), 2,
                     "rmsnorm_fwd needs 'input', 'weight'\n");
}

TEST_CASE("no such argument leaves no empty line") {
    const Finished finished = PluginRun({REFERENCE_PLUGIN}).run(rmsnorm_and({"--in", "wieght=ones:f32[4]"}));
    CHECK(contains(finished.err, "\nTry 'plugin-run --help'.\n"));
    CHECK_FALSE(contains(finished.err, "\n\n"));
}

TEST_CASE("a tensor that is too large is named, with its bytes") {
    const PluginRun tool({REFERENCE_PLUGIN});
    check_only_error(tool.run({"silu", "--in", "input=random:f32[10000000,10000000]"}), 1,
                     "--in input: not enough memory for f32[10000000,10000000], which takes 400000000000000 bytes");
    check_only_error(
        tool.run({"silu", "--in", "input=random:f32[9223372036854775807,2]"}), 1,
        "--in input: not enough memory for f32[9223372036854775807,2]: the shape has more elements than 63 "
        "bits can count");
}

TEST_CASE("a failure is JSON for who asked for JSON") {
    PluginRun tool({fixture("good"), fixture("default_adder")});
    const auto error_of = [&](const std::vector<std::string> &arguments, int code) {
        const Finished finished = tool.run(arguments);
        CHECK(finished.code == code);
        CHECK(contains(finished.err, "plugin-run: "));
        const json document = json::parse(finished.out);
        CHECK(document["schema"] == "opdock.plugin-run.error/1");
        CHECK_FALSE(document["error"]["message"].get<std::string>().empty());
        return document["error"]["status"].get<std::string>();
    };
    CHECK(error_of({"fixture.add", "--json", "--in", "a=ones:f32[3]"}, 2) == "WRONG_USAGE");
    CHECK(error_of({"--json"}, 2) == "WRONG_USAGE");
    CHECK(error_of({"--format", "json"}, 2) == "WRONG_USAGE");
    CHECK(error_of({"fixture.ad", "--format=json"}, 1) == "UNKNOWN_OP");
    CHECK(error_of({"fixture.ad", "--json"}, 1) == "UNKNOWN_OP");
    CHECK(error_of({"fixture.add", "--json", "--in", "a=/nonexistent.npy", "--in", "b=ones:f32[3]"}, 1) ==
          "TOOL_FAILED");
    CHECK(error_of({"fixture.add", "--json", "--in", "a=ones:bf16[3]", "--in", "b=ones:bf16[3]"}, 1) == "ALL_DROPPED");
}

TEST_CASE("a required attribute that is missing is named") {
    check_only_error(PluginRun({fixture("scaler")}).run({"fixture.scale", "--in", "tensors=ones:f32[4]"}), 2,
                     "fixture.scale needs 'factor'");
}

TEST_CASE("wrong usage exits with 2") {
    const PluginRun tool({REFERENCE_PLUGIN});
    check_only_error(tool.run({}), 2, "expected an op;");
    check_only_error(tool.run({"gelu", "relu"}), 2, "one op at a time");
    check_only_error(tool.run({"gelu", "--imp", "x"}), 2, "did you mean '--impl'");
    check_only_error(tool.run({"gelu", "--shape=input=f32[4]"}), 2, "unknown option '--shape'; did you mean '--in'?");
    check_only_error(tool.run({"gelu", "--from", "x.npy"}), 2, "unknown option '--from'; did you mean '--in'?");
    check_only_error(tool.run({"gelu", "--output-format=json"}), 2,
                     "unknown option '--output-format'; did you mean '--format'?");
    check_only_error(tool.run({"gelu", "--in", "x.npy"}), 2, "NAME=");
    check_only_error(tool.run(rmsnorm_and({"--in", "wieght=ones:f32[4]"})), 2, "did you mean 'weight'");
    check_only_error(tool.run(rmsnorm_and({"--attr", "eps=small"})), 2, "'small' is not of type float");
    check_only_error(tool.run(rmsnorm_and({"--output", "rsgima"})), 2, "did you mean 'rsigma'");
    check_only_error(tool.run(rmsnorm_and({"--repeat", "0"})), 2, "--repeat '0'");
    check_only_error(tool.run({"cross_entropy_fwd", "--in", "logits=ones:f32[2,4]", "--in", "target=random:i64[2]"}), 2,
                     "a range for random integers, such as random:i64[2]:0..100");
}

TEST_CASE("a gated op that is given what another of its kind takes names that one") {
    const PluginRun tool({REFERENCE_PLUGIN});
    for (const auto &[op, other] : {std::pair("geglu", "gelu_and_mul"), {"swiglu", "silu_and_mul"}}) {
        check_only_error(tool.run({op, "--in", "gate=ones:f32[4]", "--in", "up=ones:f32[4]"}), 2,
                         "--in 'gate': " + std::string(op) +
                             " has no such argument; for two tensors, gate and up, use the op '" + other + "'\n");
        check_only_error(tool.run({other, "--in", "input=ones:f32[4]"}), 2,
                         "; for one tensor with both halves, use the op '" + std::string(op) + "'\n");
    }
    check_only_error(tool.run({"geglu", "--in", "inptu=ones:f32[4]"}), 2, "did you mean 'input'?\n");
}

TEST_CASE("bf16 for a .npy file is refused before the call") {
    const PluginRun tool({REFERENCE_PLUGIN});
    const std::string file = tool.home().path().string() + "/y.npy";
    check_only_error(tool.run({"gelu", "--in", "input=ones:bf16[4]", "--output", "output=" + file}), 2, ".safetensors");
    CHECK_FALSE(std::filesystem::exists(file));
}

TEST_CASE("an unknown op exits with 1 and suggests the one that was meant") {
    check_only_error(PluginRun({REFERENCE_PLUGIN}).run({"rmsnorm_fdw"}), 1, "did you mean 'rmsnorm_fwd'");
}

TEST_CASE("an unknown implementation exits with 1 and suggests the one that was meant") {
    check_only_error(PluginRun({REFERENCE_PLUGIN}).run(rmsnorm_and({"--impl", "reference.cp"})), 1,
                     "did you mean 'reference.cpp'");
}

TEST_CASE("a standard op that nobody brings is no misspelling of one that somebody does") {
    const Finished finished = PluginRun({fixture("good")}).run({"add"}); // it provides fixture.add
    check_only_error(finished, 1, "'add' is a standard op that no loaded plugin implements\n");
    CHECK_FALSE(contains(finished.err, "did you mean"));
}

TEST_CASE("a file of --modules that is not taken fails the command with its reason, whoever else would serve") {
    const PluginRun tool({REFERENCE_PLUGIN});
    const auto broken = tool.home().write("broken/plugin.json", R"({"library": 3})");
    check_only_error(tool.run(rmsnorm_and({"--modules", fixture("other_abi")})), 1, ": rejected (OPDOCK-E012): ");
    check_only_error(tool.run({"rmsnorm_fwd", "--modules", fixture("no_note")}), 1, ": rejected (OPDOCK-E010): ");
    check_only_error(tool.run(rmsnorm_and({"--modules", fixture("good"), "--modules", fixture("same_id")})), 1,
                     ": skipped (OPDOCK-E015): ");
    check_only_error(tool.run(rmsnorm_and({"--modules", broken.string()})), 1,
                     "expected the path of a file for 'library'");
    CHECK(tool.run(rmsnorm_and({"--modules", fixture("good")})).code == 0);
    CHECK(PluginRun({REFERENCE_PLUGIN, fixture("other_abi")}).run(rmsnorm).code == 0); // like any other program
}

TEST_CASE("a tensor of more dims than there may be is named, with their number") {
    const PluginRun tool({REFERENCE_PLUGIN});
    check_only_error(tool.run({"silu", "--in", "input=ones:f32[1,1,1,1,1,1,1,1,2]"}), 1,
                     "--in input: f32[1,1,1,1,1,1,1,1,2] has 9 dims; a tensor has at most 8");
    CHECK(tool.run({"silu", "--in", "input=ones:f32[1,1,1,1,1,1,1,2]"}).code == 0);
}

TEST_CASE("shapes that do not fit are the host's error, with nothing written") {
    const PluginRun tool({REFERENCE_PLUGIN});
    const std::string file = tool.home().path().string() + "/y.npy";
    check_only_error(tool.run({"rmsnorm_fwd", "--in", "input=ones:f32[2,4]", "--in", "weight=ones:f32[5]", "--output",
                               "output=" + file}),
                     1, "weight");
    CHECK_FALSE(std::filesystem::exists(file));
}

TEST_CASE("a file that is not there, is no tensor file or lacks the tensor exits with 1") {
    const PluginRun tool({REFERENCE_PLUGIN});
    check_only_error(tool.run({"gelu", "--in", "input=/nonexistent/x.npy"}), 1, "/nonexistent/x.npy");
    const auto text = tool.home().write("x.npy", "this is no array");
    check_only_error(tool.run({"gelu", "--in", "input=" + text.string()}), 1, text.string());
}

TEST_CASE("an output that cannot be written exits with 1") {
    check_only_error(PluginRun({REFERENCE_PLUGIN})
                         .run({"gelu", "--in", "input=ones:f32[4]", "--output", "output=/nonexistent/y.npy"}),
                     1, "/nonexistent/y.npy");
}

TEST_CASE("a device that is not there is an error with what is there") {
    check_only_error(PluginRun({REFERENCE_PLUGIN}).run(rmsnorm_and({"--device", "cuda:0"})), 1,
                     "there is no device cuda:0: no plugin provides devices of this type");
    check_only_error(
        PluginRun({fixture("registers_everything")}).run({"acme.next", "--in", "a=ones:f32[3]", "--device", "npu:7"}),
        1, "there is no device npu:7: plugin 'everything' reports 2 devices");
}

TEST_CASE("a call without tensors is for the device that was named") {
    PluginRun tool({fixture("registers_everything"), fixture("without_tensors")});
    tool.with("PLUGIN_DENY_VENDORS", "acme");
    const Finished finished = tool.run({"acme.wait", "--attr", "n=3", "--device", "npu:1"});
    check_only_error(finished, 1, "npu:1");
    CHECK(contains(finished.err, "is denied by PLUGIN_DENY_VENDORS"));
}

TEST_CASE("in strict mode the first implementation serves or the call fails with its reason") {
    PluginRun tool({fixture("good"), fixture("default_adder")});
    tool.with("PLUGIN_PREFER", "vendor").with("PLUGIN_STRICT", "1").with("FIXTURE_STATUSES", "vendor.acme=1");
    check_only_error(tool.run({"fixture.add", "--in", "a=ones:f32[3]", "--in", "b=ones:f32[3]"}), 1,
                     "vendor.acme was told to return this");
}

TEST_CASE("a forced implementation that fails is not replaced") {
    PluginRun tool({fixture("good"), fixture("default_adder")});
    tool.with("FIXTURE_STATUSES", "vendor.acme=4");
    check_only_error(
        tool.run({"fixture.add", "--in", "a=ones:f32[3]", "--in", "b=ones:f32[3]", "--impl", "vendor.acme"}), 1,
        "vendor.acme was told to return this");
}

TEST_CASE("why a forced implementation cannot serve is told in words of --impl, not of orders and scopes") {
    PluginRun tool({fixture("good"), fixture("default_adder")});
    for (const char *status : {"vendor.acme=0", "vendor.acme=1", "vendor.acme=4"}) {
        tool.with("FIXTURE_STATUSES", status);
        const std::string dtype = std::string(status).back() == '0' ? "bf16" : "f32";
        const Finished finished = tool.run({"fixture.add", "--in", "a=ones:" + dtype + "[3]", "--in",
                                            "b=ones:" + dtype + "[3]", "--impl", "vendor.acme"});
        check_only_error(finished, 1, "\n  vendor.acme: ");
        CHECK(contains(finished.err, "\nNothing else is tried because of --impl vendor.acme.\n"));
        CHECK_FALSE(contains(finished.err, "order"));
        CHECK_FALSE(contains(finished.err, "scope"));
    }
}

TEST_CASE("a wrong setting is an error that names its variable") {
    PluginRun tool({REFERENCE_PLUGIN});
    tool.with("PLUGIN_STRICT", "perhaps");
    check_only_error(tool.run(rmsnorm), 1, "PLUGIN_STRICT");
}

TEST_CASE("a kernel that ends the only thread in its first call is named by the next program") {
    PluginRun tool({fixture("ends_thread_in_kernel")});
    const std::vector<std::string> call = {"badco.next", "--in", "a=ones:f32[4]"};
    CHECK(tool.run(call).out.empty());
    const Finished next = tool.run(call);
    INFO(next.err);
    CHECK(contains(next.err, "ended in its first call of 'vendor.badco' for op 'badco.next'"));
}
