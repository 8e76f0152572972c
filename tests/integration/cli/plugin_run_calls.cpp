// plugin-run on calls that are served.
#include <cmath>
#include <cstring>
#include <filesystem>
#include <random>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>

#include "tensor_files.hpp"
#include "tools.hpp"

using namespace opdock;
using namespace opdock::test;
using nlohmann::json;

namespace {

files::TensorData tensor_of(const std::string &name, const std::vector<int64_t> &shape,
                            const std::vector<float> &values) {
    files::TensorData tensor{name, OPDOCK_F32, shape, {}};
    tensor.bytes.resize(values.size() * sizeof(float));
    std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
    return tensor;
}

std::vector<float> values_of(const files::TensorData &tensor) {
    REQUIRE(tensor.dtype == OPDOCK_F32);
    std::vector<float> values(tensor.bytes.size() / sizeof(float));
    std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
    return values;
}

std::vector<float> random_values(size_t count, unsigned seed) {
    std::mt19937 engine(seed);
    std::vector<float> values(count);
    for (float &value : values) {
        value = static_cast<float>(engine()) / 2147483648.0F - 1.0F;
    }
    return values;
}

const std::vector<std::string> add = {"fixture.add", "--in", "a=ones:f32[3]", "--in", "b=random:f32[3]"};

std::vector<std::string> and_also(std::vector<std::string> arguments, const std::vector<std::string> &more) {
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
}

json report_of(const Finished &finished) {
    INFO(finished.err);
    REQUIRE(finished.code == 0);
    return json::parse(finished.out);
}

} // namespace

TEST_CASE("rmsnorm_fwd on .npy files gives what its formula says") {
    constexpr size_t rows = 5;
    constexpr size_t n = 37;
    constexpr unsigned seed = 20240607;
    MESSAGE("seed ", seed);
    const std::vector<float> x = random_values(rows * n, seed);
    const std::vector<float> w = random_values(n, seed + 1);
    const PluginRun tool({REFERENCE_PLUGIN});
    const std::string folder = tool.home().path().string() + "/";
    files::write_npy(folder + "x.npy", tensor_of("", {rows, n}, x));
    files::write_npy(folder + "w.npy", tensor_of("", {n}, w));
    const Finished finished =
        tool.run({"rmsnorm_fwd", "--in", "input=" + folder + "x.npy", "--in", "weight=" + folder + "w.npy", "--attr",
                  "eps=1e-3", "--output", "output=" + folder + "y.npy", "--output", "rsigma=" + folder + "r.npy"});
    INFO(finished.err);
    REQUIRE(finished.code == 0);
    CHECK(contains(finished.out, "served by  reference.cpp\n"));
    CHECK(contains(finished.out, "written to " + folder + "y.npy\n"));
    CHECK_FALSE(contains(finished.out, "seed"));

    const files::TensorData y = files::read_npy(folder + "y.npy");
    const files::TensorData r = files::read_npy(folder + "r.npy");
    CHECK(y.shape == std::vector<int64_t>{rows, n});
    CHECK(r.shape == std::vector<int64_t>{rows});
    for (size_t row = 0; row < rows; ++row) {
        double squares = 0;
        for (size_t i = 0; i < n; ++i) {
            squares += static_cast<double>(x[row * n + i]) * static_cast<double>(x[row * n + i]);
        }
        const double rsigma = 1.0 / std::sqrt(squares / n + 1e-3);
        CHECK(values_of(r)[row] == doctest::Approx(rsigma).epsilon(1e-5));
        for (size_t i = 0; i < n; ++i) {
            const double expected = static_cast<double>(x[row * n + i]) * rsigma * static_cast<double>(w[i]);
            CHECK(values_of(y)[row * n + i] == doctest::Approx(expected).epsilon(1e-5));
        }
    }
}

TEST_CASE("both in-tree plugins give the same result for the same seed") {
    const PluginRun tool({REFERENCE_PLUGIN, CPU_PLUGIN});
    const auto output_of = [&](const std::string &impl) {
        const json report = report_of(tool.run({"silu_and_mul", "--in", "gate=random:f32[33,65]", "--in",
                                                "up=random:f32[33,65]", "--impl", impl, "--json"}));
        CHECK(report["served"][0]["impl_id"] == impl);
        return report["outputs"][0];
    };
    const json cpu = output_of("default.cpu");
    const json reference = output_of("reference.cpp");
    for (size_t i = 0; i < 5; ++i) {
        CHECK(cpu["first"][i].get<double>() == doctest::Approx(reference["first"][i].get<double>()).epsilon(1e-5));
    }
    CHECK(cpu["max"].get<double>() == doctest::Approx(reference["max"].get<double>()).epsilon(1e-5));
}

TEST_CASE("tensors of .safetensors files are named, and outputs share a file") {
    const PluginRun tool({REFERENCE_PLUGIN});
    const std::string folder = tool.home().path().string() + "/";
    files::write_safetensors(
        folder + "in.safetensors",
        std::vector<files::TensorData>{tensor_of("layer.0.x", {2, 2}, {1, 2, 3, 4}), tensor_of("weight", {2}, {1, 1})});
    const Finished finished =
        tool.run({"rmsnorm_fwd", "--in", "input=" + folder + "in.safetensors:layer.0.x", "--in",
                  "weight=" + folder + "in.safetensors", "--output", "output=" + folder + "out.safetensors:y",
                  "--output", "rsigma=" + folder + "./out.safetensors"});
    INFO(finished.err);
    REQUIRE(finished.code == 0);
    CHECK(files::read_safetensors(folder + "out.safetensors", "y").shape == std::vector<int64_t>{2, 2});
    CHECK(files::read_safetensors(folder + "out.safetensors", "rsigma").shape == std::vector<int64_t>{2});
}

TEST_CASE("bf16 goes in and out of .safetensors") {
    const PluginRun tool({REFERENCE_PLUGIN});
    const std::string file = tool.home().path().string() + "/y.safetensors";
    const json report =
        report_of(tool.run({"gelu", "--in", "input=random:bf16[8,16]", "--output", "output=" + file, "--json"}));
    CHECK(report["outputs"][0]["dtype"] == "bf16");
    CHECK(files::read_safetensors(file, "output").dtype == OPDOCK_BF16);
    const json again = report_of(tool.run({"gelu", "--in", "input=" + file + ":output", "--json"}));
    CHECK(again["inputs"][0]["dtype"] == "bf16");
    CHECK(again["inputs"][0]["shape"] == json{8, 16});
}

TEST_CASE("--output overwrites nothing unasked, and replaces a link rather than follow it") {
    namespace fs = std::filesystem;
    const PluginRun tool({REFERENCE_PLUGIN});
    for (const char *file : {"y.npy", "y.safetensors"}) {
        CAPTURE(file);
        const fs::path path = tool.home().path() / file;
        const auto run = [&](const std::vector<std::string> &more) {
            return tool.run(
                and_also({"gelu", "--in", "input=ones:f32[4]", "--output", "output=" + path.string()}, more));
        };
        const mode_t before = ::umask(0);
        CHECK(run({}).code == 0);
        ::umask(before);
        CHECK(fs::status(path).permissions() == fs::perms(0644));
        const Finished again = run({});
        CHECK(again.code == 1);
        CHECK(contains(again.err, "plugin-run: " + path.string() + ": the file exists; --force overwrites it\n"));
        CHECK(run({"--force"}).code == 0);

        const fs::path theirs = tool.home().write("theirs", "what is theirs");
        fs::remove(path);
        fs::create_symlink(theirs, path);
        CHECK(run({}).code == 1);
        CHECK(fs::is_symlink(path));
        CHECK(run({"--force"}).code == 0);
        CHECK(!fs::is_symlink(path));
        CHECK(fs::file_size(theirs) == 14);
        fs::remove(path);
        fs::create_symlink(tool.home().path() / "nothing", path);
        CHECK(run({}).code == 1);
        CHECK(!fs::exists(tool.home().path() / "nothing"));
    }
}

TEST_CASE("the seed decides the result and is reported") {
    const PluginRun tool({fixture("good")});
    const auto first = report_of(tool.run(and_also(add, {"--json", "--seed", "7"})));
    const auto second = report_of(tool.run(and_also(add, {"--json", "--seed", "7"})));
    const auto other = report_of(tool.run(and_also(add, {"--json", "--seed", "8"})));
    CHECK(first["seed"] == 7);
    CHECK(first["outputs"] == second["outputs"]);
    CHECK(first["outputs"] != other["outputs"]);
    CHECK(contains(tool.run(and_also(add, {"--seed", "7"})).out, "  seed       7\n"));
}

TEST_CASE("random integers serve as targets of a loss") {
    const json report = report_of(PluginRun({REFERENCE_PLUGIN})
                                      .run({"cross_entropy_fwd", "--in", "logits=random:f32[16,10]", "--in",
                                            "target=random:i64[16]:0..10", "--json"}));
    CHECK(report["outputs"][0]["name"] == "loss");
    CHECK(report["outputs"][0]["not_finite"] == 0);
    CHECK(report["outputs"][0]["min"] > 0.0);
}

TEST_CASE("optional outputs are made only when they are asked for") {
    const PluginRun tool({REFERENCE_PLUGIN});
    const std::vector<std::string> call = {"rmsnorm_fwd",        "--in",  "input=ones:f32[2,4]", "--in",
                                           "weight=ones:f32[4]", "--json"};
    const json plain = report_of(tool.run(call));
    REQUIRE(plain["outputs"].size() == 1);
    CHECK(plain["outputs"][0]["name"] == "output");
    const json asked = report_of(tool.run(and_also(call, {"--output", "rsigma"})));
    REQUIRE(asked["outputs"].size() == 1);
    CHECK(asked["outputs"][0]["name"] == "rsigma");
    CHECK(asked["outputs"][0]["shape"] == json{2});
    CHECK(asked["outputs"][0]["file"].is_null());
}

TEST_CASE("the report as JSON has every key of its schema") {
    const json report = report_of(PluginRun({fixture("good")}).run(and_also(add, {"--json", "--repeat", "5"})));
    CHECK(report["schema"] == "opdock.plugin-run/1");
    CHECK(report["op"] == "fixture.add");
    CHECK(report["device"] == "cpu");
    CHECK(report["served"] == json::parse(R"([{"impl_id": "vendor.acme", "calls": 6}])"));
    CHECK(report["seed"] == 0);
    const json &time = report["microseconds"];
    CHECK(time["repeat"] == 5);
    CHECK(time["first"] > 0.0);
    CHECK(time["min"] > 0.0);
    CHECK(time["min"] <= time["median"]);
    CHECK(report["inputs"] == json::parse(R"([{"name": "a", "source": "ones", "dtype": "f32", "shape": [3]},
                                              {"name": "b", "source": "random", "dtype": "f32", "shape": [3]}])"));
    REQUIRE(report["outputs"].size() == 1);
    const json &output = report["outputs"][0];
    CHECK(output["name"] == "output");
    CHECK(output["dtype"] == "f32");
    CHECK(output["shape"] == json{3});
    CHECK(output["min"] <= output["mean"]);
    CHECK(output["mean"] <= output["max"]);
    CHECK(output["not_finite"] == 0);
    CHECK(output["first"].size() == 3);
    CHECK(output["file"].is_null());
    CHECK(output.size() == 11);
    CHECK(report["fallback_to_cpu"] == false);
    CHECK(report.size() == 10);
}

TEST_CASE("repeating shows minimum and median") {
    const Finished finished = PluginRun({fixture("good")}).run(and_also(add, {"--repeat", "3"}));
    CHECK(finished.code == 0);
    CHECK(contains(finished.out, " of 3 calls, after a first of "));
}

TEST_CASE("impl forces an implementation against the policy") {
    PluginRun tool({fixture("good"), fixture("default_adder")});
    CHECK(contains(tool.run(add).out, "served by  default.adder\n"));
    CHECK(contains(tool.run(and_also(add, {"--impl", "vendor.acme"})).out, "served by  vendor.acme\n"));
    CHECK(contains(tool.run(and_also(add, {"--impl", "Vendor.ACME"})).out, "served by  vendor.acme\n"));
}

TEST_CASE("a fallback shows who served in the end, and in the log why") {
    PluginRun tool({fixture("good"), fixture("default_adder")});
    tool.with("PLUGIN_PREFER", "vendor").with("FIXTURE_STATUSES", "vendor.acme=1");
    const Finished finished = tool.run(add);
    CHECK(finished.code == 0);
    CHECK(contains(finished.out, "served by  default.adder\n"));
    CHECK(contains(finished.err, "vendor.acme"));
}

TEST_CASE("a list is given tensor by tensor, and what the op writes can be written out") {
    const PluginRun tool({fixture("scaler")});
    const std::string folder = tool.home().path().string() + "/";
    files::write_npy(folder + "a.npy", tensor_of("", {3}, {1, 2, 3}));
    files::write_npy(folder + "b.npy", tensor_of("", {2}, {10, 20}));
    const Finished finished =
        tool.run({"fixture.scale", "--in", "tensors=" + folder + "a.npy", "--in", "tensors=" + folder + "b.npy",
                  "--attr", "factor=2", "--output", "tensors=" + folder + "a2.npy", "--output",
                  "tensors=" + folder + "b2.npy", "--output", "count"});
    INFO(finished.err);
    REQUIRE(finished.code == 0);
    CHECK(values_of(files::read_npy(folder + "a2.npy")) == std::vector<float>{2, 4, 6});
    CHECK(values_of(files::read_npy(folder + "b2.npy")) == std::vector<float>{20, 40});
    CHECK(contains(finished.out, "  out  count       f32[1]  min 2  max 2  mean 2  first 2\n"));
    CHECK(contains(finished.out, "  out  tensors[1]  f32[2]  min 20  max 40"));
}

TEST_CASE("inputs that the op writes are put back before each repetition") {
    const json report = report_of(
        PluginRun({fixture("scaler")})
            .run({"fixture.scale", "--in", "tensors=ones:f32[4]", "--attr", "factor=3", "--repeat", "4", "--json"}));
    REQUIRE(report["outputs"].size() == 1);
    CHECK(report["outputs"][0]["name"] == "tensors[0]");
    CHECK(report["outputs"][0]["max"] == 3.0);
}

// An instrumented libopdock does not load into plugin-probe, which is not instrumented.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_CASE("a plugin linked with the host cannot open one while it registers, and is none the worse") {
    const Finished finished = PluginRun({fixture("opens_a_host")}).run({"badco.next", "--in", "a=ones:f32[3]"});
    INFO(finished.err);
    CHECK(finished.code == 0);
    CHECK(contains(finished.out, "served by  vendor.badco\n"));
    CHECK(contains(finished.out, "min 2  max 2"));
}
#endif

TEST_CASE("help and version go to stdout") {
    const PluginRun tool({});
    const Finished help = tool.run({"--help"});
    CHECK(help.code == 0);
    CHECK(contains(help.out, "Examples:"));
    CHECK(tool.run({"--version"}).out.rfind("plugin-run (opdock) " OPDOCK_VERSION ", ABI ", 0) == 0);
}

TEST_CASE("an op runs on every device that a plugin provides, with tensors that are copied there and back") {
    const PluginRun tool({fixture("registers_everything")});
    for (const int index : {0, 1}) {
        const std::string device = "npu:" + std::to_string(index);
        const Finished finished =
            tool.run({"acme.next", "--in", "a=ones:f32[3]", "--device", device, "--repeat", "2", "--json"});
        INFO(finished.err);
        REQUIRE(finished.code == 0);
        const json document = json::parse(finished.out);
        CHECK(document["device"] == device);
        CHECK(document["served"] == json::parse(R"([{"impl_id": "vendor.acme", "calls": 3}])"));
        const json &output = document["outputs"][0];
        CHECK(output["min"] == index + 2);
        CHECK(output["max"] == index + 2);
    }
}

TEST_CASE("tools take Transformer Engine's name of an op, and show opdock's") {
    const Finished run =
        PluginRun({REFERENCE_PLUGIN}).run({"dgelu", "--in", "grad=ones:f32[4]", "--in", "input=zeros:f32[4]"});
    CHECK_MESSAGE(run.code == 0, run.err);
    CHECK(run.out.starts_with("gelu_bwd on cpu\n"));
    const PluginLs ls({REFERENCE_PLUGIN});
    CHECK(ls.run({"--op", "dswiglu"}).out.starts_with("swiglu_bwd\n"));
    CHECK(ls.run({"--why", "scaled_softmax_forward"}).out.starts_with("scaled_softmax_fwd on cpu"));
    CHECK(nlohmann::json::parse(ls.run({"--json", "--why", "fused_rope_backward"}).out)["op"] == "fused_rope_bwd");
}
