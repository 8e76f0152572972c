#include "dispatch/shadow.hpp"

#include <cstring>
#include <filesystem>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "fake_device.hpp"
#include "made_host.hpp"
#include "metadata.hpp"
#include "temporary_directory.hpp"
#include "tensor_files.hpp"
#include "thrown_error.hpp"

using namespace opdock;
using namespace opdock::test;
using core::RawEnvironment;
using nlohmann::json;

namespace {

json shadows_of(MadeHost &host, const std::string &impl_id) {
    for (const json &one : host->describe_counters()) {
        if (one.at("impl_id") == impl_id) {
            return one.at("shadows");
        }
    }
    return {};
}

json counts(int agreed, int disagreed, int left_out) {
    return {{"agreed", agreed}, {"disagreed", disagreed}, {"left_out", left_out}};
}

uint64_t served(MadeHost &host, const std::string &impl_id) {
    return host->served_count("test.add", impl_id.c_str());
}

} // namespace

TEST_CASE("a shadow that computes the same is counted, and nothing else shows") {
    MadeHost host(RawEnvironment{{"PLUGIN_SHADOW", "test.add=reference@1/1"}});
    host.add("default.one", OPDOCK_KIND_DEFAULT, "", 1);
    Made &reference = host.add("reference.same", OPDOCK_KIND_REFERENCE, "", 1);
    Rows rows;
    CHECK(rows.added(host.op()) == 1);
    CHECK(rows.added(host.op()) == 1);
    CHECK(reference.calls == 2);
    CHECK(shadows_of(host, "default.one") == counts(2, 0, 0));
    CHECK(served(host, "default.one") == 2);
    CHECK(served(host, "reference.same") == 0);
    CHECK(host.logged("shadow") == 0);
}

TEST_CASE("results that differ are told with op, implementations and place, and are the program's own") {
    MadeHost host(RawEnvironment{{"PLUGIN_SHADOW", "all=impl:reference.other@1/1"}});
    host.add("default.one", OPDOCK_KIND_DEFAULT, "", 1);
    host.add("reference.other", OPDOCK_KIND_REFERENCE, "", 2);
    Rows rows;
    for (int i = 0; i < 5; ++i) {
        CHECK(rows.added(host.op()) == 1);
    }
    CHECK(shadows_of(host, "default.one") == counts(0, 5, 0));
    CHECK(host.logged("Op 'test.add' on cpu:0: 'default.one' and its shadow 'reference.other' disagree: in 'output', "
                      "element 0 is 2, expected 3") == 1);
}

TEST_CASE("one call in so many has a shadow, the first of each kind of call among them") {
    MadeHost host(RawEnvironment{{"PLUGIN_SHADOW", "test.add=reference@1/3"}});
    host.add("default.one", OPDOCK_KIND_DEFAULT);
    Made &reference = host.add("reference.same", OPDOCK_KIND_REFERENCE);
    Rows rows;
    for (int i = 0; i < 7; ++i) {
        CHECK(rows.added(host.op()) == 0);
    }
    CHECK(reference.calls == 3);
}

TEST_CASE("an op's own rule goes before the one for all, and other ops have no shadow") {
    MadeHost host(RawEnvironment{{"PLUGIN_SHADOW", "all=impl:reference.a@1/1;test.add=impl:reference.b@1/1"}});
    host.add("default.one", OPDOCK_KIND_DEFAULT);
    Made &a = host.add("reference.a", OPDOCK_KIND_REFERENCE);
    Made &b = host.add("reference.b", OPDOCK_KIND_REFERENCE);
    Rows rows;
    CHECK(rows.added(host.op()) == 0);
    CHECK(a.calls == 0);
    CHECK(b.calls == 1);
}

TEST_CASE("inputs that a call writes are copied before it, and compared after it") {
    MadeHost host(RawEnvironment{{"PLUGIN_SHADOW", "test.update=reference@1/1"}});
    const auto adds_to_state = [](float factor) {
        return [factor](const opdock_problem &, const opdock_call &call) {
            for (int i = 0; i < 3; ++i) {
                static_cast<float *>(call.data[0])[i] += factor * static_cast<const float *>(call.data[1])[i];
                static_cast<float *>(call.data[2])[i] = 7;
            }
            return OPDOCK_OK;
        };
    };
    auto made = std::make_unique<Made>("default.one", OPDOCK_KIND_DEFAULT);
    made->op = "test.update";
    made->work = adds_to_state(1);
    host.add(std::move(made));
    made = std::make_unique<Made>("reference.other", OPDOCK_KIND_REFERENCE);
    made->op = "test.update";
    made->work = adds_to_state(1);
    Made &reference = host.add(std::move(made));
    std::vector<float> state = {1, 2, 3}, input = {10, 20, 30}, output(3);
    const Tensor s{state.data(), f32, {3}}, x{input.data(), f32, {3}}, y{output.data(), f32, {3}};
    CHECK(host.op("test.update").try_call({s, x}, {y}) == OPDOCK_OK);
    CHECK(state == std::vector<float>{11, 22, 33});
    CHECK(shadows_of(host, "default.one") == counts(1, 0, 0));
    reference.work = adds_to_state(2);
    CHECK(host.op("test.update").try_call({s, x}, {y}) == OPDOCK_OK);
    CHECK(state == std::vector<float>{21, 42, 63});
    CHECK(shadows_of(host, "default.one") == counts(1, 1, 0));
    CHECK(host.logged("in 'state', ") == 1);
}

TEST_CASE("a call in place has a shadow, which gets the input as it was") {
    MadeHost host(RawEnvironment{{"PLUGIN_SHADOW", "test.add=reference@1/1"}});
    host.add("default.one", OPDOCK_KIND_DEFAULT, {}, 1);
    host.add("reference.other", OPDOCK_KIND_REFERENCE, {}, 1);
    std::vector<float> data = {1, 2, 3};
    const Tensor x{data.data(), f32, {3}};
    CHECK(host.op().try_call({x}, {x}) == OPDOCK_OK);
    CHECK(data == std::vector<float>{2, 3, 4});
    CHECK(shadows_of(host, "default.one") == counts(1, 0, 0));
}

TEST_CASE("outputs that the data fill in part are not compared") {
    MadeHost host(RawEnvironment{{"PLUGIN_SHADOW", "test.head=reference@1/1"}});
    Made one("default.one", OPDOCK_KIND_DEFAULT), other("reference.other", OPDOCK_KIND_REFERENCE);
    for (Made *made : {&one, &other}) {
        made->op = "test.head";
        made->work = [made](const opdock_problem &, const opdock_call &call) {
            static_cast<float *>(call.data[1])[0] = 1;
            static_cast<float *>(call.data[1])[1] = static_cast<float>(made->kind); // past the count
            *static_cast<int64_t *>(call.data[2]) = 1;
            return OPDOCK_OK;
        };
    }
    host.module("heads", [&](opdock_registry *registry) {
        const opdock_status status = declare(registry, "test.head(x: T[n]) -> (values: T[m], m: i64[]) where m <= n");
        register_made(registry, one);
        register_made(registry, other);
        return status;
    });
    std::vector<float> input = {1, 2}, values(2);
    int64_t count = 0;
    const Tensor x{input.data(), f32, {2}}, v{values.data(), f32, {2}}, m{&count, i64, {}};
    CHECK(host.op("test.head").try_call({x}, {v, m}) == OPDOCK_OK);
    CHECK(host.logged("has no shadow: the op counts how much of its outputs is filled") == 1);
}

TEST_CASE("elements between those of a strided tensor are not compared") {
    MadeHost host(RawEnvironment{{"PLUGIN_SHADOW", "test.add=reference@1/1"}});
    const auto adds_by_strides = [](const opdock_problem &problem, const opdock_call &call) {
        const DLTensor &in = *problem.tensors[0], &out = *problem.tensors[1];
        for (int64_t i = 0; i < in.shape[0]; ++i) {
            static_cast<float *>(call.data[1])[i * out.strides[0]] =
                static_cast<const float *>(call.data[0])[i * in.strides[0]] + 1;
        }
        return OPDOCK_OK;
    };
    host.add("default.one", OPDOCK_KIND_DEFAULT).work = adds_by_strides;
    host.add("reference.same", OPDOCK_KIND_REFERENCE).work = adds_by_strides;
    std::vector<float> in = {1, -1, 2, -2, 3}, out = {0, 100, 0, 200, 0};
    const int64_t shape[] = {3}, strides[] = {2};
    DLTensor x{in.data(), {kDLCPU, 0}, 1, f32, const_cast<int64_t *>(shape), const_cast<int64_t *>(strides), 0};
    DLTensor y = x;
    y.data = out.data();
    const DLTensor *const inputs[] = {&x}, *const outputs[] = {&y};
    opdock_args args = {};
    args.struct_size = sizeof args;
    args.n_inputs = args.n_outputs = 1;
    args.inputs = inputs;
    args.outputs = outputs;
    CHECK(opdock_call_op(&host->op("test.add"), &args) == OPDOCK_OK);
    CHECK(out == std::vector<float>{2, 100, 3, 200, 4});
    CHECK(shadows_of(host, "default.one") == counts(1, 0, 0));
}

TEST_CASE("what its shadow disagrees with leaves the chain where the rule says drop, until its health is reset") {
    MadeHost host(RawEnvironment{{"PLUGIN_SHADOW", "test.add=impl:reference.other@1/1,drop"}});
    host.add("default.one", OPDOCK_KIND_DEFAULT, "", 1);
    host.add("reference.other", OPDOCK_KIND_REFERENCE, "", 2);
    Rows rows;
    CHECK(rows.added(host.op()) == 1); // already computed
    CHECK(rows.added(host.op()) == 2);
    CHECK(rows.added(host.op()) == 2);
    const std::string why =
        "it and its shadow 'reference.other' disagree (PLUGIN_SHADOW): in 'output', element 0 is 2, "
        "expected 3";
    CHECK(host.logged("Op 'test.add': 'default.one' leaves the chain on cpu:0: " + why +
                      ". opdock_reset_health (C++: host.reset_health) brings it back.") == 1);
    const json dropped = host->explain("test.add", "cpu", nullptr, nullptr).at("dropped").at(0);
    CHECK(dropped.at("impl_id") == "default.one");
    CHECK(dropped.at("rule") == "health");
    CHECK(dropped.at("reason") == why);
    host->reset_health("test.add", "default.one");
    CHECK(rows.added(host.op()) == 1);
    CHECK(rows.added(host.op()) == 2);
    CHECK(host.logged("'default.one' leaves the chain") == 2);
}

TEST_CASE("in a frozen host, whose choices stand, nothing is dropped") {
    MadeHost host(RawEnvironment{{"PLUGIN_SHADOW", "all=impl:reference.other@drop"}});
    host.add("default.one", OPDOCK_KIND_DEFAULT, "", 1);
    host.add("reference.other", OPDOCK_KIND_REFERENCE, "", 2);
    (void)host->freeze(nullptr);
    Rows rows;
    CHECK(rows.added(host.op()) == 1);
    CHECK(rows.added(host.op()) == 1);
    CHECK(shadows_of(host, "default.one") == counts(0, 1, 0));
    CHECK(host.logged("leaves the chain") == 0);
}

namespace {

std::vector<float> values_in(const std::string &file, const std::string &name) {
    const files::TensorData tensor = files::read_safetensors(file, name);
    REQUIRE(tensor.dtype == OPDOCK_F32);
    std::vector<float> values(tensor.bytes.size() / sizeof(float));
    std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
    return values;
}

// The only file in the folder.
std::string file_in(const std::filesystem::path &folder) {
    std::vector<std::string> files;
    for (const auto &entry : std::filesystem::directory_iterator(folder)) {
        files.push_back(entry.path());
    }
    REQUIRE(files.size() == 1);
    return files.front();
}

} // namespace

TEST_CASE("a call whose results differ is written with its inputs of before, its results and the shadow's") {
    const TemporaryDirectory directory;
    const std::string folder = directory.path() / "calls";
    MadeHost host(RawEnvironment{{"PLUGIN_SHADOW", "test.update=reference@1/1"}, {"PLUGIN_CALL_FILES", folder}});
    const auto adds_to_state = [](float factor) {
        return [factor](const opdock_problem &, const opdock_call &call) {
            for (int i = 0; i < 2; ++i) {
                static_cast<float *>(call.data[0])[i] += factor * static_cast<const float *>(call.data[1])[i];
                static_cast<float *>(call.data[2])[i] = 7;
            }
            return OPDOCK_OK;
        };
    };
    for (const float factor : {1.0F, 2.0F}) {
        auto made = std::make_unique<Made>(factor == 1 ? "default.one" : "reference.other",
                                           factor == 1 ? OPDOCK_KIND_DEFAULT : OPDOCK_KIND_REFERENCE);
        made->op = "test.update";
        made->work = adds_to_state(factor);
        host.add(std::move(made));
    }
    std::vector<float> state = {1, 2}, input = {10, 20}, output(2);
    const Tensor s{state.data(), f32, {2}}, x{input.data(), f32, {2}}, y{output.data(), f32, {2}};
    CHECK(host.op("test.update").try_call({s, x}, {y}) == OPDOCK_OK);
    const std::string file = file_in(folder);
    CHECK(values_in(file, "state") == std::vector<float>{1, 2});
    CHECK(values_in(file, "input") == std::vector<float>{10, 20});
    CHECK(values_in(file, "program.state") == std::vector<float>{11, 22});
    CHECK(values_in(file, "shadow.state") == std::vector<float>{21, 42});
    CHECK(values_in(file, "program.output") == std::vector<float>{7, 7});
    CHECK(values_in(file, "shadow.output") == std::vector<float>{7, 7});
    const files::Metadata metadata = files::read_safetensors_metadata(file);
    CHECK(metadata.at("op") == "test.update");
    CHECK(metadata.at("implementation") == "default.one");
    CHECK(metadata.at("shadow") == "reference.other");
    CHECK(metadata.at("difference") == "in 'state', element 0 is 11, expected 21");
    CHECK(metadata.at("strides") == "{}");
    CHECK(host.logged("Op 'test.update' on cpu:0: '" + file + "' has the call, and plugin-run replays it") == 1);
}

TEST_CASE("the tensors of a strided call are written without their gaps, and with their strides beside them") {
    const TemporaryDirectory directory;
    MadeHost host(RawEnvironment{{"PLUGIN_SHADOW", "test.add=reference@1/1"}, {"PLUGIN_CALL_FILES", directory.path()}});
    const auto adds_by_strides = [](float bias) {
        return [bias](const opdock_problem &problem, const opdock_call &call) {
            const DLTensor &in = *problem.tensors[0], &out = *problem.tensors[1];
            for (int64_t i = 0; i < in.shape[0]; ++i) {
                static_cast<float *>(call.data[1])[i * out.strides[0]] =
                    static_cast<const float *>(call.data[0])[i * in.strides[0]] + bias;
            }
            return OPDOCK_OK;
        };
    };
    host.add("default.one", OPDOCK_KIND_DEFAULT).work = adds_by_strides(1);
    host.add("reference.other", OPDOCK_KIND_REFERENCE).work = adds_by_strides(2);
    std::vector<float> in = {1, -1, 2, -2, 3}, out = {0, 100, 0, 200, 0};
    const Tensor x{in.data(), f32, {3}, opdock::cpu, {2}}, y{out.data(), f32, {3}, opdock::cpu, {2}};
    CHECK(host.op().try_call({x}, {y}, {{"scale", 0.5}}) == OPDOCK_OK);
    CHECK(out == std::vector<float>{2, 100, 3, 200, 4});
    const std::string file = file_in(directory.path());
    CHECK(values_in(file, "input") == std::vector<float>{1, 2, 3});
    CHECK(values_in(file, "program.output") == std::vector<float>{2, 3, 4});
    CHECK(values_in(file, "shadow.output") == std::vector<float>{3, 4, 5});
    CHECK(files::read_safetensors_metadata(file).at("strides") == R"({"input":[2],"output":[2]})");
    CHECK(files::read_safetensors_metadata(file).at("attributes") == R"({"scale":"0.5"})");
}

TEST_CASE("calls that agree are not written, and of those that differ the first few") {
    const TemporaryDirectory directory;
    MadeHost host(RawEnvironment{{"PLUGIN_SHADOW", "test.add=reference@1/1"}, {"PLUGIN_CALL_FILES", directory.path()}});
    host.add("default.one", OPDOCK_KIND_DEFAULT, "", 1);
    Made &reference = host.add("reference.other", OPDOCK_KIND_REFERENCE, "", 1);
    Rows rows;
    CHECK(rows.added(host.op()) == 1);
    CHECK(std::filesystem::is_empty(directory.path()));
    reference.bias = 2;
    for (int i = 0; i < 5; ++i) {
        CHECK(rows.added(host.op()) == 1);
    }
    CHECK(std::distance(std::filesystem::directory_iterator(directory.path()), {}) == 3);
    CHECK(host.logged("has the call, and plugin-run replays it") == 3);
    CHECK(host.logged("no more of 'default.one' are written") == 1);
    CHECK(shadows_of(host, "default.one") == counts(1, 5, 0));
}

TEST_CASE("calls of given numbers are written as they are, with a shadow and without") {
    const TemporaryDirectory directory;
    const std::string folder = directory.path();
    for (const bool has_shadow : {false, true}) {
        CAPTURE(has_shadow);
        RawEnvironment environment{{"PLUGIN_CALL_FILES", folder + ";test.add@2..3"}};
        if (has_shadow) {
            environment["PLUGIN_SHADOW"] = "test.add=reference@1/1";
        }
        MadeHost host(environment);
        Made &serving = host.add("default.one", OPDOCK_KIND_DEFAULT, "", 1);
        host.add("reference.same", OPDOCK_KIND_REFERENCE, "", 1);
        Rows rows;
        for (int i = 0; i < 5; ++i) {
            rows.in[0] = static_cast<float>(10 * (i + 1));
            CHECK(rows.added(host.op()) == 1);
        }
        CHECK(serving.calls == 5);
        for (const int number : {2, 3}) {
            const std::string file = folder + "/test.add-default.one-cpu-0-" + std::to_string(::getpid()) + "-call-" +
                                     std::to_string(number) + ".safetensors";
            CHECK(values_in(file, "input")[0] == 10 * number);
            CHECK(values_in(file, "program.output")[0] == 10 * number + 1);
            CHECK(files::read_safetensors(file).size() == (has_shadow ? 3 : 2));
            CHECK(files::read_safetensors_metadata(file).contains("shadow") == has_shadow);
            CHECK(host.logged("'" + file + "' has call " + std::to_string(number) + " of 'default.one'") == 1);
        }
        CHECK(std::distance(std::filesystem::directory_iterator(folder), {}) == 2);
        CHECK(shadows_of(host, "default.one") == counts(has_shadow ? 5 : 0, 0, 0));
    }
}

TEST_CASE("a folder that cannot be written to costs the program nothing but a warning") {
    const TemporaryDirectory directory;
    const std::string no_folder = directory.write("file", "");
    MadeHost host(RawEnvironment{{"PLUGIN_SHADOW", "test.add=reference@1/1"}, {"PLUGIN_CALL_FILES", no_folder}});
    host.add("default.one", OPDOCK_KIND_DEFAULT, "", 1);
    host.add("reference.other", OPDOCK_KIND_REFERENCE, "", 2);
    Rows rows;
    for (int i = 0; i < 5; ++i) {
        CHECK(rows.added(host.op()) == 1);
    }
    CHECK(host.logged("the call is not written, and no other will be: '" + no_folder + "/") == 1);
    CHECK(shadows_of(host, "default.one") == counts(0, 5, 0));
}

TEST_CASE("a call without a shadow to be had is served, and the log says why") {
    MadeHost host(RawEnvironment{{"PLUGIN_SHADOW", "test.add=reference|default@1/1"}});
    host.add("default.one", OPDOCK_KIND_DEFAULT);
    Rows rows;
    CHECK(rows.added(host.op()) == 0);
    CHECK(shadows_of(host, "default.one") == counts(0, 0, 1));
    CHECK(
        host.logged("a call of 'default.one' has no shadow: nothing but itself is registered for the CPU in the order "
                    "reference|default") == 1);
}

TEST_CASE("a shadow that fails or throws is none of the program's concern") {
    MadeHost host(RawEnvironment{{"PLUGIN_SHADOW", "test.add=reference@1/1"}});
    host.add("default.one", OPDOCK_KIND_DEFAULT);
    Made &reference = host.add("reference.bad", OPDOCK_KIND_REFERENCE);
    reference.status = OPDOCK_FAILED;
    Rows rows;
    CHECK(rows.added(host.op()) == 0);
    CHECK(shadows_of(host, "default.one") == counts(0, 0, 1));
    reference.work = [](const opdock_problem &, const opdock_call &) -> opdock_status { throw 7; };
    CHECK(rows.added(host.op()) == 0);
    CHECK(shadows_of(host, "default.one") == counts(0, 0, 2));
}

TEST_CASE("a call that fails is not compared, and falls back as ever") {
    MadeHost host(RawEnvironment{{"PLUGIN_SHADOW", "test.add=reference@1/1"}});
    host.add("default.bad", OPDOCK_KIND_DEFAULT).status = OPDOCK_UNSUPPORTED;
    Made &reference = host.add("reference.good", OPDOCK_KIND_REFERENCE);
    Rows rows;
    CHECK(rows.added(host.op()) == 0);
    CHECK(reference.calls == 1);
    CHECK(shadows_of(host, "default.bad") == counts(0, 0, 0));
    CHECK(shadows_of(host, "reference.good") == counts(0, 0, 1)); // it would only have itself
}

TEST_CASE("prepared calls have shadows") {
    MadeHost host(RawEnvironment{{"PLUGIN_SHADOW", "test.add=reference@1/2"}});
    host.add("default.one", OPDOCK_KIND_DEFAULT, "", 1);
    host.add("reference.other", OPDOCK_KIND_REFERENCE, "", 2);
    Rows rows;
    const Prepared prepared = host.op().prepare({rows.x}, {rows.y});
    for (int i = 0; i < 4; ++i) {
        void *const data[] = {rows.in.data(), rows.out.data()};
        CHECK(prepared.run(data) == OPDOCK_OK);
    }
    CHECK(rows.out[0] == 2);
    CHECK(shadows_of(host, "default.one") == counts(0, 2, 0));
}

TEST_CASE("wrong rules are errors with the variable and what was expected") {
    const struct {
        const char *value;
        const char *message;
    } cases[] = {
        {"gelu", "PLUGIN_SHADOW, column 1: expected OP=TOKEN@1/N, such as gelu=reference@1/1000, found 'gelu'"},
        {"gelu=reference@2", "PLUGIN_SHADOW, column 16: expected a rate such as 1/1000 behind '@', found '2'"},
        {"gelu=reference@1/0", "expected a rate such as 1/1000"},
        {"gelu=reference@1/x", "expected a rate such as 1/1000"},
        {"gelu=refrence@1/2", "PLUGIN_SHADOW, column 6: expected a token"},
        {"a=default;b=default;a=reference", "PLUGIN_SHADOW, column 21: 'a' is given twice; keep one"},
        {"a=default@1/2,drip", "PLUGIN_SHADOW, column 15: expected 'drop' or nothing behind the rate, found 'drip'"},
        {"a=default@dropped", "PLUGIN_SHADOW, column 11: expected a rate such as 1/1000 behind '@', found 'dropped'"},
        {"a=default@drop,1/2", "expected 'drop' or nothing behind the rate, found '1/2'"},
        {"ge lu=default", "PLUGIN_SHADOW, column 3: expected the name of an op"},
    };
    for (const auto &one : cases) {
        CAPTURE(one.value);
        const auto error = thrown_by([&] { core::parse_shadow_rules(one.value, core::Place{"PLUGIN_SHADOW"}); });
        CHECK(error.status() == OPDOCK_INVALID_POLICY);
        CAPTURE(error.what());
        CHECK(contains(error.what(), one.message));
    }
    const auto rules = core::parse_shadow_rules(" gelu = reference @1/7 ; all=vendor:acme|default", core::Place{"x"});
    REQUIRE(rules.size() == 2);
    CHECK(rules[0].one_in == 7);
    CHECK_FALSE(rules[0].drops);
    CHECK(rules[1].one_in == 1000);
    CHECK(rules[1].order.size() == 2);
    const auto dropping = core::parse_shadow_rules("a=default@1/7,drop;b=default@ drop", core::Place{"x"});
    CHECK(dropping[0].one_in == 7);
    CHECK(dropping[0].drops);
    CHECK(dropping[1].one_in == 1000);
    CHECK(dropping[1].drops);
    CHECK(core::shadow_rule_for(rules, "gelu") == &rules[0]);
    CHECK(core::shadow_rule_for(rules, "silu") == &rules[1]);
}
