// Kernels that call other ops through the host.
#include <barrier>
#include <thread>

#include <doctest/doctest.h>

#include "composite.hpp"
#include "made_host.hpp"

using namespace opdock;
using namespace opdock::test;

namespace {

// Calls `op` with the tensors of the problem that a kernel received.
opdock_status call_on(const opdock_problem &problem, const opdock_call &call, const char *op) {
    DLTensor x = *problem.tensors[0];
    DLTensor y = *problem.tensors[1];
    x.data = call.data[0];
    y.data = call.data[1];
    const std::array<TensorArg, 1> in = {x}, out = {y};
    return problem.host->call_op(&problem, op, &Args(in, out).c());
}

} // namespace

TEST_CASE("an input that is only read may be constant") {
    MadeHost host;
    host.add("default.one", OPDOCK_KIND_DEFAULT, {}, 1);
    const std::vector<float> in = {1, 2, 3};
    std::vector<float> out(3);
    CHECK(host.op().try_call({Tensor::read_only(in.data(), f32, {1, 3})}, {Tensor(out.data(), f32, {1, 3})}) ==
          OPDOCK_OK);
    CHECK(out[2] == 4);
}

TEST_CASE("a composite that calls its own op is served by the next implementation, not by itself") {
    MadeHost host;
    Made &composite = host.add("default.composite", OPDOCK_KIND_DEFAULT);
    host.add("reference.three", OPDOCK_KIND_REFERENCE, {}, 3);
    composite.work = [](const opdock_problem &problem, const opdock_call &call) {
        return call_on(problem, call, "test.add");
    };
    Rows rows;
    for (int i = 0; i < 3; ++i) {
        CHECK(rows.added(host.op()) == 3);
    }
    CHECK(composite.calls == 3);
    CHECK(host->served_count("test.add", "default.composite") == 3);
}

TEST_CASE("composites that call each other do not go round in circles") {
    MadeHost host;
    Made &one = host.add("default.one", OPDOCK_KIND_DEFAULT);
    Made &two = host.add("vendor.two", OPDOCK_KIND_VENDOR, "two");
    host.add("reference.three", OPDOCK_KIND_REFERENCE, {}, 3);
    one.work = two.work = [](const opdock_problem &problem, const opdock_call &call) {
        return call_on(problem, call, "test.add");
    };
    Rows rows;
    CHECK(rows.added(host.op()) == 3);
    CHECK(rows.added(host.op()) == 3);
    CHECK(one.calls == 2);
    CHECK(two.calls == 2);
}

TEST_CASE("a composite without anyone to call may decline with the message it got") {
    MadeHost host;
    Made &composite = host.add("default.composite", OPDOCK_KIND_DEFAULT);
    composite.work = [](const opdock_problem &problem, const opdock_call &call) {
        return call_on(problem, call, "test.unheard");
    };
    Rows rows;
    CHECK(rows.call(host.op()) == OPDOCK_ALL_FAILED);
    CHECK(contains(last_error(), "test.unheard"));
}

TEST_CASE("a prepared composite does not call itself either") {
    MadeHost host;
    Made &composite = host.add("default.composite", OPDOCK_KIND_DEFAULT);
    host.add("reference.three", OPDOCK_KIND_REFERENCE, {}, 3);
    composite.work = [](const opdock_problem &problem, const opdock_call &call) {
        return call_on(problem, call, "test.add");
    };
    Rows rows;
    const Prepared call = host.op().prepare({rows.x}, {rows.y});
    CHECK(call.impl() == "default.composite");
    CHECK(call.run({rows.in.data(), rows.out.data()}) == OPDOCK_OK);
    CHECK(rows.out[0] == 4);
}

namespace {

int plans; // of `planning`, not yet destroyed

std::unique_ptr<Made> planning(const char *impl_id) {
    plans = 0;
    auto made = std::make_unique<Made>(impl_id, OPDOCK_KIND_DEFAULT);
    made->adjust = [](opdock_impl &impl) {
        impl.plan_create = [](const opdock_problem *, void **plan) -> opdock_status {
            ++plans;
            *plan = &plans;
            return OPDOCK_OK;
        };
        impl.plan_destroy = [](const opdock_host_api *, void *, DLDevice, void *) { --plans; };
    };
    return made;
}

} // namespace

TEST_CASE("a composite that calls its op with many shapes keeps its own problem") {
    MadeHost host;
    Made &composite = host.add(planning("default.composite"));
    host.add("reference.three", OPDOCK_KIND_REFERENCE, {}, 3);
    composite.work = [](const opdock_problem &problem, const opdock_call &call) -> opdock_status {
        const int64_t *const shape = problem.tensors[0]->shape;
        for (int64_t rows = 1; rows <= 12; ++rows) {
            std::vector<float> scratch(12);
            const Tensor y(scratch.data(), f32, {1, rows});
            const Tensor x(call.data[0], f32, {1, rows});
            const std::array<TensorArg, 1> inputs = {x}, outputs = {y};
            const opdock_status status = problem.host->call_op(&problem, "test.add", &Args(inputs, outputs).c());
            if (status != OPDOCK_OK) {
                return status;
            }
        }
        if (plans == 0) {
            return OPDOCK_FAILED; // the kernel's arguments may be gone as well
        }
        return problem.tensors[0]->shape == shape && shape[0] == 2 && shape[1] == 6 ? OPDOCK_OK : OPDOCK_FAILED;
    };
    std::vector<float> in(12, 1), out(12);
    for (int i = 0; i < 3; ++i) {
        CHECK(host.op().try_call({Tensor(in.data(), f32, {2, 6})}, {Tensor(out.data(), f32, {2, 6})}) == OPDOCK_OK);
    }
    CHECK(host->served_count("test.add", "default.composite") == 3);
}

TEST_CASE("the calls of a composite are forgotten as those of others are") {
    MadeHost host;
    Made &composite = host.add(planning("default.composite"));
    host.add("reference.three", OPDOCK_KIND_REFERENCE, {}, 3);
    composite.work = [](const opdock_problem &problem, const opdock_call &call) {
        return call_on(problem, call, "test.add");
    };
    std::vector<float> in(40, 1), out(40);
    for (int64_t n = 1; n <= 40; ++n) {
        CHECK(host.op().try_call({Tensor(in.data(), f32, {1, n})}, {Tensor(out.data(), f32, {1, n})}) == OPDOCK_OK);
        CHECK(plans <= static_cast<int>(core::Slot::n_ways));
    }
    CHECK(plans > 1);
    host.close();
    CHECK(plans == 0);
}

namespace {

MadeHost *asking_host; // the host, for functions without state
std::string heard;     // result of the call that they made

opdock_status call_own_op(const opdock_host_api * /*host*/, void * /*user_data*/, DLDevice /*device*/) {
    Rows rows;
    const opdock_status status = rows.call(asking_host->op());
    heard = status == OPDOCK_OK ? "served" : last_error();
    return OPDOCK_OK;
}

} // namespace

TEST_CASE("available() that calls its own op gets an error") {
    MadeHost host;
    asking_host = &host;
    auto made = std::make_unique<Made>("default.asks", OPDOCK_KIND_DEFAULT, "", 1.0f);
    made->adjust = [](opdock_impl &impl) { impl.available = call_own_op; };
    host.add(std::move(made));
    host.add("reference.three", OPDOCK_KIND_REFERENCE, {}, 3);
    Rows rows;
    CHECK(rows.added(host.op()) == 1);
    CHECK(contains(heard, "its available() or device_init() made the call"));
    CHECK(rows.added(host.op()) == 1);
}

namespace {

std::unique_ptr<Made> asks_in_device_init() {
    auto made = std::make_unique<Made>("default.asks", OPDOCK_KIND_DEFAULT, "", 1.0f);
    made->adjust = [](opdock_impl &impl) {
        impl.device_init = [](const opdock_host_api *api, void *user_data, DLDevice device, void ** /*state*/) {
            return call_own_op(api, user_data, device);
        };
        impl.device_fini = [](const opdock_host_api *, void *, DLDevice, void *) {};
    };
    return made;
}

} // namespace

TEST_CASE("device_init() that calls its own op gets an error") {
    MadeHost host;
    asking_host = &host;
    auto made = asks_in_device_init();
    host.add(std::move(made));
    Rows rows;
    CHECK(rows.added(host.op()) == 1);
    CHECK(contains(heard, "its available() or device_init() made the call"));
}

TEST_CASE("device_init() that calls its own op is served by another implementation of it") {
    MadeHost host;
    asking_host = &host;
    auto made = asks_in_device_init();
    Made &asks = host.add(std::move(made));
    Made &three = host.add("reference.three", OPDOCK_KIND_REFERENCE, {}, 3);
    Rows rows;
    CHECK(rows.added(host.op()) == 1);
    CHECK(heard == "served");
    CHECK(three.calls == 1);
    CHECK(asks.calls == 1);
}

TEST_CASE("available() and device_init() that call another op are served, and get the host's extensions") {
    static bool has_composite;
    const auto call_update = [](const opdock_host_api *api, void *, DLDevice) -> opdock_status {
        has_composite = opdock_composite_of(api) != nullptr;
        float state[] = {1};
        float in[] = {1};
        float out[] = {0};
        return asking_host->op("test.update")
            .try_call({Tensor(state, f32, {1}), Tensor(in, f32, {1})}, {Tensor(out, f32, {1})});
    };
    static constexpr opdock_status (*call)(const opdock_host_api *, void *, DLDevice) = call_update;
    for (const bool by_state : {false, true}) {
        CAPTURE(by_state);
        has_composite = false;
        MadeHost host;
        asking_host = &host;
        auto made = std::make_unique<Made>("default.asks", OPDOCK_KIND_DEFAULT, "", 1.0f);
        made->adjust = [=](opdock_impl &impl) {
            if (by_state) {
                impl.device_init = [](const opdock_host_api *api, void *data, DLDevice device, void ** /*state*/) {
                    return call(api, data, device);
                };
                impl.device_fini = [](const opdock_host_api *, void *, DLDevice, void *) {};
            } else {
                impl.available = call;
            }
        };
        host.add(std::move(made));
        auto update = std::make_unique<Made>("default.updates", OPDOCK_KIND_DEFAULT);
        update->op = "test.update";
        Made &updates = host.add(std::move(update));
        Rows rows;
        CHECK(rows.added(host.op()) == 1);
        CHECK(updates.calls == 1);
        CHECK(has_composite);
    }
}

namespace {

std::barrier<> *both_are_asked;

// Calls `op` while another thread makes the opposite call.
template<bool is_add>
opdock_status call_other_op(const opdock_host_api * /*host*/, void * /*user_data*/, DLDevice /*device*/) {
    both_are_asked->arrive_and_wait();
    float in[] = {1};
    float out[] = {0};
    const Tensor x(in, f32, {1});
    const Tensor y(out, f32, {1});
    float state[] = {1};
    const opdock_status status = is_add ? asking_host->op("test.update").try_call({Tensor(state, f32, {1}), x}, {y})
                                        : asking_host->op("test.add").try_call({x}, {y});
    both_are_asked->arrive_and_wait(); // both threads are here before either goes on
    return status == OPDOCK_OK ? OPDOCK_FAILED : OPDOCK_OK;
}

} // namespace

TEST_CASE("two available() or device_init() that call each other's op do not wait for each other") {
    for (const bool by_state : {false, true}) {
        CAPTURE(by_state);
        MadeHost host;
        asking_host = &host;
        std::barrier both(2);
        both_are_asked = &both;
        for (const bool is_add : {true, false}) {
            auto made =
                std::make_unique<Made>(is_add ? "default.adds" : "default.updates", OPDOCK_KIND_DEFAULT, "", 1.0f);
            made->op = is_add ? "test.add" : "test.update";
            made->adjust = [=](opdock_impl &impl) {
                if (by_state) {
                    impl.device_init = [](const opdock_host_api *api, void *data, DLDevice device, void **state) {
                        return *state == nullptr ? call_other_op<true>(api, data, device) : OPDOCK_OK;
                    };
                    if (!is_add) {
                        impl.device_init = [](const opdock_host_api *api, void *data, DLDevice device, void **state) {
                            return *state == nullptr ? call_other_op<false>(api, data, device) : OPDOCK_OK;
                        };
                    }
                    impl.device_fini = [](const opdock_host_api *, void *, DLDevice, void *) {};
                } else {
                    impl.available = is_add ? call_other_op<true> : call_other_op<false>;
                }
            };
            host.add(std::move(made));
        }
        float in[] = {1};
        float out[] = {0};
        float other[] = {0};
        const Tensor x(in, f32, {1});
        std::thread thread([&] { CHECK(host.op("test.add").try_call({x}, {Tensor(out, f32, {1})}) == OPDOCK_OK); });
        float state[] = {1};
        CHECK(host.op("test.update").try_call({Tensor(state, f32, {1}), x}, {Tensor(other, f32, {1})}) == OPDOCK_OK);
        thread.join();
        CHECK(out[0] == 2);
        CHECK(other[0] == 2);
    }
}

TEST_CASE("an entry that calls an op gets an error") {
    MadeHost host;
    asking_host = &host;
    host.add("default.one", OPDOCK_KIND_DEFAULT, "", 1.0f);
    host.module("calls", [](opdock_registry *) { return call_own_op(nullptr, nullptr, {kDLCPU, 0}); });
    CHECK(contains(heard, "a plugin's entry must not call ops"));
    Rows rows;
    CHECK(rows.added(host.op()) == 1);
}

TEST_CASE("a composite's part is prepared with its plan, and has its workspace from it") {
    MadeHost host;
    Made &composite = host.add(made_composite());
    auto three = std::make_unique<Made>("reference.three", OPDOCK_KIND_REFERENCE, "", 3.0F);
    three->adjust = [](opdock_impl &impl) {
        impl.workspace_size = [](const opdock_problem *, uint64_t *bytes) -> opdock_status {
            *bytes = 300;
            return OPDOCK_OK;
        };
    };
    std::vector<std::pair<void *, uint64_t>> workspaces;
    three->work = [&](const opdock_problem &, const opdock_call &call) {
        workspaces.emplace_back(call.workspace, call.workspace_size);
        return OPDOCK_OK;
    };
    Made &part = host.add(std::move(three));
    Rows rows;
    CHECK(rows.call(host.op()) == OPDOCK_OK);
    CHECK(composite.calls == 1);
    CHECK(part.calls == 1);
    const Prepared call = host.op().prepare({rows.x}, {rows.y});
    CHECK(call.impl() == "default.composite");
    CHECK(call.workspace_size() == 300);
    alignas(256) std::array<std::byte, 512> memory;
    std::array<void *, 2> data = {rows.in.data(), rows.out.data()};
    opdock_call raw = {
        OPDOCK_STRUCT_SIZE(opdock_call, workspace_size), 0, 2, 0, data.data(), nullptr, memory.data(), 300};
    CHECK(opdock_prepared_run(call.c(), &raw) == OPDOCK_OK);
    CHECK(workspaces.back() == std::pair<void *, uint64_t>(memory.data(), 300));
}

TEST_CASE("a part without a workspace has one of the host's, and one with other tensors is refused") {
    MadeHost host;
    std::unique_ptr<Made> composite = made_composite();
    uint32_t n_data = 2;
    composite->work = [&](const opdock_problem &problem, const opdock_call &call) {
        opdock_call bare = call;
        bare.n_data = n_data;
        bare.workspace = nullptr;
        bare.workspace_size = 0;
        return opdock_composite_of(problem.host)->run(&problem, composite_plan(problem).part, &bare);
    };
    host.add(std::move(composite));
    auto part = std::make_unique<Made>("reference.part", OPDOCK_KIND_REFERENCE);
    part->adjust = [](opdock_impl &impl) {
        impl.workspace_size = [](const opdock_problem *, uint64_t *bytes) -> opdock_status {
            *bytes = 300;
            return OPDOCK_OK;
        };
    };
    uint64_t found = 0;
    part->work = [&](const opdock_problem &, const opdock_call &call) {
        found = call.workspace != nullptr ? call.workspace_size : 0;
        return OPDOCK_OK;
    };
    host.add(std::move(part));
    Rows rows;
    CHECK(rows.call(host.op()) == OPDOCK_OK);
    CHECK(found == 300);
    n_data = 1;
    const Prepared call = host.op().prepare({rows.x}, {rows.y});
    CHECK(call.run({rows.in.data(), rows.out.data()}) == OPDOCK_INVALID_ARGUMENT);
    CHECK(contains(last_error(), "the call was prepared with 2 tensors, but 1 pointer is given"));
}

TEST_CASE("a composite is no part of itself, and parts that call it are served by others") {
    MadeHost host;
    Made &composite = host.add(made_composite());
    Made &caller = host.add("vendor.caller", OPDOCK_KIND_VENDOR, "caller");
    host.add("reference.three", OPDOCK_KIND_REFERENCE, {}, 3);
    caller.work = [](const opdock_problem &problem, const opdock_call &call) {
        return call_on(problem, call, "test.add");
    };
    Rows rows;
    CHECK(rows.added(host.op()) == 3);
    CHECK(rows.added(host.op()) == 3);
    CHECK(composite.calls == 2);
    CHECK(caller.calls == 2);
}

TEST_CASE("a composite whose part nobody can be prepared for is passed over, with the reason") {
    MadeHost host;
    host.add(made_composite());
    Rows rows;
    CHECK(rows.call(host.op()) == OPDOCK_ALL_FAILED);
    CHECK(
        contains(last_error(), "plan_create: op 'test.add': no implementation can be prepared for this call on cpu:0"));
    CHECK(contains(last_error(), "'default.composite' is running on this thread and must not call itself"));
    host.add("reference.three", OPDOCK_KIND_REFERENCE, {}, 3);
    CHECK(rows.added(host.op()) == 3);
}

TEST_CASE("of a part that cannot be prepared there is neither a part nor a workspace") {
    static CompositePlan prepared;
    prepared = {reinterpret_cast<opdock_part *>(&prepared), 64};
    MadeHost host;
    auto composite = made_composite();
    composite->adjust = [](opdock_impl &impl) {
        plan_as_composite(impl);
        impl.plan_create = [](const opdock_problem *problem, void **) {
            const std::array<TensorArg, 1> in = {*problem->tensors[0]}, out = {*problem->tensors[1]};
            return opdock_composite_of(problem->host)
                ->prepare(problem, "test.nothing", &Args(in, out).c(), &prepared.part, &prepared.bytes);
        };
    };
    host.add(std::move(composite));
    Rows rows;
    rows.call(host.op());
    CHECK(prepared.part == nullptr);
    CHECK(prepared.bytes == 0);
}

TEST_CASE("the failure of a part is the composite's, with its sentence") {
    MadeHost host;
    host.add(made_composite());
    Made &part = host.add("reference.part", OPDOCK_KIND_REFERENCE);
    part.work = [](const opdock_problem &problem, const opdock_call &) {
        return problem.host->fail(problem.host, OPDOCK_OUT_OF_MEMORY, "no room for the part");
    };
    Rows rows;
    CHECK(rows.call(host.op()) == OPDOCK_OUT_OF_MEMORY);
    CHECK(contains(last_error(), "no room for the part"));
}

TEST_CASE("a part that throws has failed, and may have written") {
    MadeHost host;
    host.add(made_composite());
    Made &part = host.add("reference.part", OPDOCK_KIND_REFERENCE);
    part.work = [](const opdock_problem &, const opdock_call &) -> opdock_status {
        throw std::runtime_error("half way");
    };
    Rows rows;
    CHECK(rows.call(host.op()) == OPDOCK_ALL_FAILED);
    CHECK(contains(last_error(), "default.composite: FAILED: it threw: half way"));
}
