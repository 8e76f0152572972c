#include "dispatch/shadow.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "fake_device.hpp"
#include "made_host.hpp"
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
    CHECK(shadows_of(host, "reference.good") == counts(0, 0, 1)); // it has none but itself
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
    CHECK(rules[1].one_in == 1000);
    CHECK(rules[1].order.size() == 2);
    CHECK(core::shadow_rule_for(rules, "gelu") == &rules[0]);
    CHECK(core::shadow_rule_for(rules, "silu") == &rules[1]);
}
