#include "dispatch/prepare.hpp"

#include <array>
#include <thread>

#include <doctest/doctest.h>

#include "made_host.hpp"
#include "signature/layout.hpp"

using namespace opdock;
using namespace opdock::test;

TEST_CASE("a prepared call runs with new pointers, and counts") {
    MadeHost host;
    host.add("default.one", OPDOCK_KIND_DEFAULT, {}, 1);
    Rows rows;
    const Prepared call = host.op().prepare({rows.x}, {rows.y});
    std::vector<float> in = {10, 20, 30, 40, 50, 60}, out(6);
    CHECK(call.run({in.data(), out.data()}) == OPDOCK_OK);
    CHECK(out == std::vector<float>{11, 21, 31, 41, 51, 61});
    CHECK(call.impl() == "default.one");
    CHECK(host->served_count("test.add", "default.one") == 1);
}

TEST_CASE("a call can be prepared before there is data") {
    MadeHost host;
    host.add("default.one", OPDOCK_KIND_DEFAULT, {}, 1);
    const Prepared call = host.op().prepare({Tensor(nullptr, f32, {1, 3})}, {Tensor(nullptr, f32, {1, 3})});
    std::vector<float> in = {1, 2, 3}, out(3);
    CHECK(call.run({in.data(), out.data()}) == OPDOCK_OK);
    CHECK(out[2] == 4);
}

TEST_CASE("a prepared call says how its pointers have to be aligned") {
    for (const uint32_t alignment : {0U, 64U}) {
        MadeHost host;
        auto one = std::make_unique<Made>("default.one", OPDOCK_KIND_DEFAULT);
        one->alignment = alignment;
        host.add(std::move(one));
        const Prepared call = host.op().prepare({Tensor(nullptr, f32, {1, 3})}, {Tensor(nullptr, f32, {1, 3})});
        CHECK(call.alignment() == alignment);
    }
}

TEST_CASE("preparing passes over what declines, and what supports() declines") {
    MadeHost host;
    auto picky = std::make_unique<Made>("default.picky", OPDOCK_KIND_DEFAULT, "", 1.0f);
    picky->adjust = [](opdock_impl &impl) {
        impl.supports = [](const opdock_problem *problem) -> opdock_status {
            return problem->tensors[0]->shape[0] == 1
                       ? OPDOCK_OK
                       : problem->host->fail(problem->host, OPDOCK_UNSUPPORTED, "one row only");
        };
    };
    host.add(std::move(picky));
    Rows rows;
    CHECK(host.op().prepare({Tensor(nullptr, f32, {1, 3})}, {Tensor(nullptr, f32, {1, 3})}).impl() == "default.picky");
    CHECK_THROWS_WITH_AS(host.op().prepare({rows.x}, {rows.y}), doctest::Contains("one row only"), Error);
    host.add("reference.any", OPDOCK_KIND_REFERENCE, {}, 3);
    CHECK(host.op().prepare({rows.x}, {rows.y}).impl() == "reference.any");
}

TEST_CASE("strict preparing takes the first of the chain or fails") {
    MadeHost host(core::RawEnvironment{{"PLUGIN_STRICT", "on"}});
    auto picky = std::make_unique<Made>("default.picky", OPDOCK_KIND_DEFAULT);
    picky->required_flags = OPDOCK_IMPL_NEEDS_CONTIGUOUS;
    host.add(std::move(picky));
    host.add("reference.any", OPDOCK_KIND_REFERENCE, {}, 3);
    Rows rows;
    std::vector<float> wide(12);
    CHECK_THROWS_WITH_AS(host.op().prepare({Tensor(wide.data(), f32, {2, 3}, cpu, {6, 1})}, {rows.y}),
                         doctest::Contains("contiguous"), Error);
}

TEST_CASE("a prepared call keeps its implementation through changes of policy and health, and knows it is stale") {
    MadeHost host;
    Made &one = host.add("default.one", OPDOCK_KIND_DEFAULT, {}, 1);
    host.add("vendor.acme", OPDOCK_KIND_VENDOR, "acme", 2);
    Rows rows;
    const Prepared call = host.op().prepare({rows.x}, {rows.y});
    CHECK_FALSE(call.stale());
    host->set_program_policy(host.policy("prefer", "vendor"));
    CHECK(opdock_prepared_stale(call.c()) == 1);
    CHECK(call.run({rows.in.data(), rows.out.data()}) == OPDOCK_OK);
    CHECK(rows.out[0] == 2);

    const Prepared second = host.op().prepare({rows.x}, {rows.y});
    CHECK(second.impl() == "vendor.acme");
    CHECK_FALSE(second.stale());
    host->set_program_policy(nullptr);
    one.status = OPDOCK_FAILED_CLEAN;
    const Prepared third = host.op().prepare({rows.x}, {rows.y});
    for (int i = 0; i < 3; ++i) {
        rows.call(host.op());
    }
    CHECK(third.stale());
    CHECK(third.run({rows.in.data(), rows.out.data()}) == OPDOCK_FAILED_CLEAN); // as returned, and without a fallback
}

TEST_CASE("a call is stale from the beginning when the policy changes while it is prepared") {
    static std::function<void()> asked;
    MadeHost host;
    auto one = std::make_unique<Made>("default.one", OPDOCK_KIND_DEFAULT, "", 1.0F);
    one->adjust = [](opdock_impl &impl) {
        impl.supports = [](const opdock_problem *) {
            asked();
            return OPDOCK_OK;
        };
    };
    host.add(std::move(one));
    host.add("vendor.acme", OPDOCK_KIND_VENDOR, "acme", 2);
    asked = [&] { host->set_program_policy(host.policy("prefer", "vendor")); };
    Rows rows;
    const Prepared prepared = host.op().prepare({rows.x}, {rows.y});
    CHECK(prepared.impl() == "default.one");
    CHECK(prepared.stale());
}

TEST_CASE("a policy given to prepare counts for that call alone") {
    MadeHost host;
    host.add("default.one", OPDOCK_KIND_DEFAULT, {}, 1);
    host.add("vendor.acme", OPDOCK_KIND_VENDOR, "acme", 2);
    Rows rows;
    const std::array<TensorArg, 1> in = {rows.x}, out = {rows.y};
    const opdock_args args = core::full_args(Args(in, out).c());
    core::OpEntry &add = host->op("test.add");
    CHECK(core::prepare(add, args, host.policy("prefer", "vendor"))->attempt->implementation.impl_id == "vendor.acme");
    CHECK(core::prepare(add, args, nullptr)->attempt->implementation.impl_id == "default.one");
}

TEST_CASE("a prepared call says how much workspace it needs and is given it") {
    MadeHost host;
    auto made = std::make_unique<Made>("default.one", OPDOCK_KIND_DEFAULT);
    void *seen = nullptr;
    made->work = [&](const opdock_problem &, const opdock_call &call) {
        seen = call.workspace;
        return OPDOCK_OK;
    };
    made->adjust = [](opdock_impl &impl) {
        impl.workspace_size = [](const opdock_problem *problem, uint64_t *bytes) -> opdock_status {
            *bytes = static_cast<uint64_t>(problem->tensors[0]->shape[0]) * 100;
            return OPDOCK_OK;
        };
    };
    host.add(std::move(made));
    Rows rows;
    const Prepared call = host.op().prepare({rows.x}, {rows.y});
    CHECK(call.workspace_size() == 200);
    std::vector<char> memory(200 + 255);
    void *const aligned =
        reinterpret_cast<void *>((reinterpret_cast<uintptr_t>(memory.data()) + 255) & ~uintptr_t{255});
    CHECK(call.run({rows.in.data(), rows.out.data()}, nullptr, aligned) == OPDOCK_OK);
    CHECK(seen == aligned);

    // Without one, the host's is passed.
    seen = nullptr;
    CHECK(call.run({rows.in.data(), rows.out.data()}) == OPDOCK_OK);
    CHECK(seen != nullptr);
    CHECK(reinterpret_cast<uintptr_t>(seen) % 256 == 0);

    std::array<void *, 2> data = {rows.in.data(), rows.out.data()};
    opdock_call small = {OPDOCK_STRUCT_SIZE(opdock_call, workspace_size), 0, 2, 0, data.data(), nullptr, aligned, 199};
    CHECK(opdock_prepared_run(call.c(), &small) == OPDOCK_INVALID_ARGUMENT);
    CHECK(last_error() == "op 'test.add': 'default.one': the given workspace has 199 bytes; 'default.one' needs 200");
}

TEST_CASE("attributes are fixed when a call is prepared") {
    MadeHost host;
    auto made = std::make_unique<Made>("default.one", OPDOCK_KIND_DEFAULT);
    std::vector<std::string> seen;
    made->work = [&](const opdock_problem &problem, const opdock_call &) {
        seen.push_back(problem.attributes[1].as.s + std::to_string(problem.attributes[0].as.f));
        return OPDOCK_OK;
    };
    host.add(std::move(made));
    Rows rows;
    std::string name = "first";
    const Prepared call = host.op().prepare({rows.x}, {rows.y}, {{"name", name}, {"scale", 2}});
    name = "other"; // the caller may reuse the memory of its arguments
    CHECK(call.run({rows.in.data(), rows.out.data()}) == OPDOCK_OK);
    CHECK(seen == std::vector<std::string>{"first2.000000"});
}

TEST_CASE("one prepared call runs on several threads at once") {
    MadeHost host;
    host.add("default.one", OPDOCK_KIND_DEFAULT, {}, 1);
    Rows rows;
    const Prepared call = host.op().prepare({rows.x}, {rows.y});
    std::vector<std::thread> threads;
    std::atomic<int> wrong{0};
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&, t] {
            const float base = static_cast<float>(t);
            std::vector<float> in(6, base), out(6);
            for (int i = 0; i < 2000; ++i) {
                wrong += call.run({in.data(), out.data()}) != OPDOCK_OK || out[5] != base + 1;
            }
        });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    CHECK(wrong == 0);
}

TEST_CASE("preparing validates like calling") {
    MadeHost host;
    host.add("default.one", OPDOCK_KIND_DEFAULT, {}, 1);
    Rows rows;
    CHECK_THROWS_AS(host.op().prepare({rows.x}, {Tensor(nullptr, f32, {6})}), Error);
    CHECK_THROWS_AS(host.op().prepare({rows.x}, {rows.y}, {{"nope", 1}}), Error);
}

TEST_CASE("what the kernel of a prepared call says of its failure is the last error") {
    MadeHost host;
    auto failing = std::make_unique<Made>("default.one", OPDOCK_KIND_DEFAULT);
    failing->work = [](const opdock_problem &problem, const opdock_call &) {
        return problem.host->fail(problem.host, OPDOCK_FAILED, "the tile is too small");
    };
    host.add(std::move(failing));
    Rows rows;
    const Prepared call = host.op().prepare({rows.x}, {rows.y});
    std::vector<float> in(6), out(6);
    CHECK(call.run({in.data(), out.data()}) == OPDOCK_FAILED);
    CHECK(std::string(opdock_last_error()) == "the tile is too small");
}

TEST_CASE("what the kernel of a prepared call throws comes out of the run, and is not held against it") {
    MadeHost host;
    Made &one = host.add("default.one", OPDOCK_KIND_DEFAULT, {}, 1);
    Rows rows;
    const Prepared call = host.op().prepare({rows.x}, {rows.y});
    one.work = [](const opdock_problem &, const opdock_call &) -> opdock_status { throw std::runtime_error("no"); };
    for (int i = 0; i < 4; ++i) {
        CHECK_THROWS_WITH_AS((void)call.run({rows.in.data(), rows.out.data()}), "no", std::runtime_error);
    }
    one.work = nullptr;
    CHECK(host.op().prepare({rows.x}, {rows.y}).impl() == "default.one");
    CHECK(host->counters().front().of(core::Count::failed) == 4);
}

TEST_CASE("a kernel that declines what was prepared is an error that says what to do") {
    MadeHost host;
    auto declining = std::make_unique<Made>("default.one", OPDOCK_KIND_DEFAULT);
    declining->work = [](const opdock_problem &problem, const opdock_call &) {
        return problem.host->fail(problem.host, OPDOCK_UNSUPPORTED, "no odd rows");
    };
    host.add(std::move(declining));
    Rows rows;
    const Prepared call = host.op().prepare({rows.x}, {rows.y});
    CHECK(call.run({rows.in.data(), rows.out.data()}) == OPDOCK_UNSUPPORTED);
    CHECK(
        last_error() ==
        "no odd rows\n'default.one' accepted the call when it was prepared but declines to run it, so each run fails. "
        "Call the op without preparing it, which tries the next implementation, or prepare it with a policy that "
        "chooses another implementation. The vendor can decline such calls in `supports`, which is called earlier.");
}

TEST_CASE("a kernel of a prepared call that gives no reason is not blamed with what was said before") {
    MadeHost host;
    auto failing = std::make_unique<Made>("default.one", OPDOCK_KIND_DEFAULT);
    bool speaks = true;
    failing->work = [&](const opdock_problem &problem, const opdock_call &) -> opdock_status {
        return speaks ? problem.host->fail(problem.host, OPDOCK_FAILED, "the tile is too small") : OPDOCK_FAILED;
    };
    host.add(std::move(failing));
    Rows rows;
    const Prepared call = host.op().prepare({rows.x}, {rows.y});
    CHECK(call.run({rows.in.data(), rows.out.data()}) == OPDOCK_FAILED);
    CHECK(last_error() == "the tile is too small");
    speaks = false;
    CHECK(call.run({rows.in.data(), rows.out.data()}) == OPDOCK_FAILED);
    CHECK(last_error() == "op 'test.add': 'default.one' returned FAILED: it gave no reason");
    CHECK(host.op().try_call({rows.x}, {Tensor(nullptr, f32, {6})}) == OPDOCK_INVALID_ARGUMENT);
    CHECK(call.run({rows.in.data(), rows.out.data()}) == OPDOCK_FAILED);
    CHECK(last_error() == "op 'test.add': 'default.one' returned FAILED: it gave no reason");
}

TEST_CASE("what was said before a call was prepared is not about its runs") {
    MadeHost host;
    auto made = std::make_unique<Made>("default.one", OPDOCK_KIND_DEFAULT);
    made->status = OPDOCK_OK;
    made->adjust = [](opdock_impl &impl) {
        impl.supports = [](const opdock_problem *problem) -> opdock_status {
            problem->host->fail(problem->host, OPDOCK_UNSUPPORTED, "thought better of");
            return OPDOCK_OK;
        };
        impl.kernel = [](const opdock_problem *, const opdock_call *) -> opdock_status { return 77; };
    };
    host.add(std::move(made));
    Rows rows;
    const Prepared call = host.op().prepare({rows.x}, {rows.y});
    CHECK(call.run({rows.in.data(), rows.out.data()}) == 77);
    CHECK(last_error() ==
          "op 'test.add': 'default.one' returned status 77, which is not a plugin's status: it gave no reason");
}

TEST_CASE("a prepared call with another number of pointers is an error and not a crash") {
    MadeHost host;
    const Made &made = host.add("default.one", OPDOCK_KIND_DEFAULT);
    Rows rows;
    const Prepared call = host.op().prepare({rows.x}, {rows.y});
    CHECK(call.n_data() == 2);
    CHECK(call.run({rows.in.data()}) == OPDOCK_INVALID_ARGUMENT);
    CHECK(last_error() == "op 'test.add': the call was prepared with 2 tensors, but 1 pointer is given");
    CHECK(call.run({rows.in.data(), rows.out.data(), nullptr}) == OPDOCK_INVALID_ARGUMENT);
    CHECK(last_error() == "op 'test.add': the call was prepared with 2 tensors, but 3 pointers are given");
    opdock_call raw = {};
    raw.struct_size = OPDOCK_STRUCT_SIZE(opdock_call, workspace_size);
    CHECK(opdock_prepared_run(call.c(), &raw) == OPDOCK_INVALID_ARGUMENT);
    CHECK(last_error() == "op 'test.add': the call was prepared with 2 tensors, but 0 pointers are given");
    CHECK(made.calls == 0);
}

namespace {

constexpr const char *short_form = "test.grow(a: T[n]) -> (output: T[n])";
constexpr const char *long_form = "test.grow(a: T[n], b: T[n]?) -> (output: T[n], extra: T[n]?)";

// A kernel for one of the forms: output = a + b + bias, and extra = a if it is requested.
opdock_status grow(const opdock_problem *problem, const opdock_call *call) {
    const auto &made = *static_cast<const Made *>(problem->user_data);
    const auto pointer = [&](uint32_t parameter) {
        return parameter < problem->n_inputs + problem->n_outputs
                   ? static_cast<float *>(call->data[problem->tensor_offsets[parameter]])
                   : nullptr;
    };
    const float *a = pointer(0);
    const float *b = problem->n_inputs > 1 ? pointer(1) : nullptr;
    float *output = pointer(problem->n_inputs);
    float *extra = pointer(problem->n_inputs + 1);
    CHECK(call->n_data == problem->n_tensors);
    for (int64_t i = 0; i < problem->tensors[0]->shape[0]; ++i) {
        output[i] = a[i] + (b != nullptr ? b[i] : 0) + made.bias;
        if (extra != nullptr) {
            extra[i] = a[i];
        }
    }
    return OPDOCK_OK;
}

// A module that declares `form` and implements it.
void add_growing(MadeHost &host, Made &made, const char *form) {
    made.op = "test.grow";
    made.adjust = [](opdock_impl &impl) { impl.kernel = grow; };
    host.module(made.impl_id, [&](opdock_registry *registry) {
        declare(registry, form);
        register_made(registry, made);
        return OPDOCK_OK;
    });
}

struct Growing {
    std::vector<float> a = {1, 2}, b = {10, 20}, output = {-1, -1}, extra = {-1, -1};
    Tensor ta{a.data(), f32, {2}}, tb{b.data(), f32, {2}}, toutput{output.data(), f32, {2}},
        textra{extra.data(), f32, {2}};
};

} // namespace

TEST_CASE("a longer form that is declared after a call was prepared changes nothing of its runs") {
    MadeHost host;
    Made known("default.short", OPDOCK_KIND_DEFAULT, "", 100), later("default.long", OPDOCK_KIND_DEFAULT, "", 200);
    later.priority = -1;
    add_growing(host, known, short_form);
    Growing one;
    const Op op = host.op("test.grow");
    const Prepared before = op.prepare({one.ta}, {one.toutput});
    add_growing(host, later, long_form);
    CHECK(before.run({one.a.data(), one.output.data()}) == OPDOCK_OK);
    CHECK(one.output == std::vector<float>{101, 102});
}

TEST_CASE("a program that knows a shorter form prepares calls of a longer one, and runs them with its own pointers") {
    MadeHost host;
    Made known("default.short", OPDOCK_KIND_DEFAULT, "", 100), later("default.long", OPDOCK_KIND_DEFAULT, "", 200);
    add_growing(host, known, short_form);
    add_growing(host, later, long_form);
    const Op op = host.op("test.grow");
    for (const bool is_short_first : {true, false}) {
        CAPTURE(is_short_first);
        host->set_program_policy(
            host.policy("per_op", is_short_first ? "test.grow=impl:default.short" : "test.grow=impl:default.long"));
        Growing one;
        const Prepared call = op.prepare({one.ta}, {one.toutput});
        CHECK(call.impl() == (is_short_first ? "default.short" : "default.long"));
        CHECK(call.n_data() == 2);
        CHECK(call.run({one.a.data(), one.output.data()}) == OPDOCK_OK); // the first run, and those after it
        CHECK(call.run({one.a.data(), one.output.data()}) == OPDOCK_OK);
        const float bias = is_short_first ? 100 : 200;
        CHECK(one.output == std::vector<float>{bias + 1, bias + 2});
    }
}

TEST_CASE("a prepared call gives its kernel each pointer in its place, however many tensors the op has") {
    for (const size_t n_inputs : {size_t{29}, size_t{30}, size_t{31}, size_t{60}}) {
        CAPTURE(n_inputs);
        std::string parameters;
        for (size_t i = 0; i < n_inputs; ++i) {
            parameters += "x" + std::to_string(i) + ": T[n], ";
        }
        const std::string signature = "test.wide(" + parameters + "last: T[n]?) -> (output: T[n])";
        MadeHost host;
        Made made("default.one", OPDOCK_KIND_DEFAULT);
        made.op = "test.wide";
        made.work = [&](const opdock_problem &problem, const opdock_call &call) -> opdock_status {
            CHECK(call.n_data == n_inputs + 2);
            CHECK(problem.n_tensors == n_inputs + 2);
            CHECK(call.data[n_inputs] == nullptr);
            float sum = 0;
            for (size_t i = 0; i < n_inputs; ++i) {
                sum = 2 * sum + *static_cast<const float *>(call.data[i]);
            }
            *static_cast<float *>(call.data[n_inputs + 1]) = sum;
            return OPDOCK_OK;
        };
        host.module("wide", [&](opdock_registry *registry) {
            declare(registry, signature.c_str());
            register_made(registry, made);
            return OPDOCK_OK;
        });
        std::vector<float> values(n_inputs);
        std::vector<Tensor> tensors;
        std::vector<TensorArg> inputs;
        std::vector<void *> pointers;
        float expected = 0, output = -1;
        for (size_t i = 0; i < n_inputs; ++i) {
            values[i] = static_cast<float>(i % 3);
            expected = 2 * expected + values[i];
        }
        tensors.reserve(n_inputs);
        for (float &value : values) {
            inputs.emplace_back(tensors.emplace_back(&value, f32, std::vector<int64_t>{1}));
            pointers.push_back(&value);
        }
        pointers.push_back(&output);
        const Tensor y(&output, f32, {1});
        const std::array<TensorArg, 1> outputs = {y};
        const Prepared call = host.op("test.wide").prepare(Args(inputs, outputs)); // without `last`
        CHECK(call.run(pointers) == OPDOCK_OK);
        CHECK(output == expected);
    }
}

TEST_CASE("a prepared call that writes nothing but one tensor is told in the singular") {
    MadeHost host;
    Made made("default.one", OPDOCK_KIND_DEFAULT);
    made.op = "test.seed";
    made.work = [](const opdock_problem &, const opdock_call &) -> opdock_status { return OPDOCK_OK; };
    host.module("seed", [&](opdock_registry *registry) {
        declare(registry, "test.seed(mut state: f32[n]) -> ()");
        register_made(registry, made);
        return OPDOCK_OK;
    });
    float state = 0;
    const Tensor x(&state, f32, {1});
    const std::array<TensorArg, 1> inputs = {x};
    const Prepared call = host.op("test.seed").prepare(Args(inputs, {}));
    CHECK(call.run({&state}) == OPDOCK_OK);
    CHECK(call.run({&state, &state}) == OPDOCK_INVALID_ARGUMENT);
    CHECK(last_error() == "op 'test.seed': the call was prepared with 1 tensor, but 2 pointers are given");
}

TEST_CASE("an implementation of a shorter form serves prepared calls that spell out what it lacks as absent") {
    MadeHost host;
    Made known("default.short", OPDOCK_KIND_DEFAULT, "", 100), later("default.long", OPDOCK_KIND_DEFAULT, "", 200);
    known.priority = 1;
    add_growing(host, known, short_form);
    add_growing(host, later, long_form);
    Growing one;
    const Op op = host.op("test.grow");
    const Prepared call = op.prepare({one.ta, nullptr}, {one.toutput, nullptr});
    CHECK(call.impl() == "default.short");
    CHECK(call.n_data() == 4);
    CHECK(call.run({one.a.data(), nullptr, one.output.data(), nullptr}) == OPDOCK_OK);
    CHECK(one.output == std::vector<float>{101, 102});
    const Prepared longer = op.prepare({one.ta, one.tb}, {one.toutput, one.textra});
    CHECK(longer.impl() == "default.long");
    CHECK(longer.run({one.a.data(), one.b.data(), one.output.data(), one.extra.data()}) == OPDOCK_OK);
    CHECK(one.output == std::vector<float>{211, 222});
    CHECK(one.extra == one.a);
}

TEST_CASE("the caller's mistake and lost memory end preparing, and a failure goes on to the next") {
    static opdock_status answer;
    for (const opdock_status status : {OPDOCK_INVALID_ARGUMENT, OPDOCK_OUT_OF_MEMORY, OPDOCK_FAILED}) {
        CAPTURE(status);
        answer = status;
        MadeHost host;
        auto first = std::make_unique<Made>("default.first", OPDOCK_KIND_DEFAULT);
        first->adjust = [](opdock_impl &impl) {
            impl.plan_create = [](const opdock_problem *problem, void **) {
                return problem->host->fail(problem->host, answer, "no plan today");
            };
            impl.plan_destroy = [](const opdock_host_api *, void *, DLDevice, void *) {};
        };
        host.add(std::move(first));
        host.add("reference.second", OPDOCK_KIND_REFERENCE);
        Rows rows;
        if (status == OPDOCK_FAILED) {
            CHECK(std::string(opdock_prepared_impl(host.op().prepare({&rows.x}, {&rows.y}).c())) == "reference.second");
            continue;
        }
        try {
            (void)host.op().prepare({&rows.x}, {&rows.y});
            FAIL("it was prepared");
        } catch (const opdock::Error &error) {
            CHECK(error.status() == status);
            CHECK(contains(error.what(), "no plan today"));
        }
    }
}

TEST_CASE("the log says who serves prepared calls, once, and after whom") {
    MadeHost host(core::RawEnvironment{{"PLUGIN_PREFER", "vendor"}});
    auto declines = std::make_unique<Made>("vendor.declines", OPDOCK_KIND_VENDOR, "acme");
    declines->adjust = [](opdock_impl &impl) {
        impl.supports = [](const opdock_problem *problem) {
            return problem->host->fail(problem->host, OPDOCK_UNSUPPORTED, "not this");
        };
    };
    host.add(std::move(declines));
    host.add("default.good", OPDOCK_KIND_DEFAULT);
    Rows rows;
    CHECK(host.logged("Op 'test.add'") == 0);
    (void)host.op().prepare({rows.x}, {rows.y});
    (void)host.op().prepare({rows.x}, {rows.y});
    rows.call(host.op());
    CHECK(host.logged(
              "Op 'test.add' using 'default.good' (kind=default) after 'vendor.declines': UNSUPPORTED: not this") == 1);
    CHECK(host.logged("Op 'test.add'") == 1);
}
