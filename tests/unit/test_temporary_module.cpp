// Modules that the program removes while the host is open.
#include <atomic>
#include <thread>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "fake_device.hpp"
#include "made_host.hpp"
#include "thrown_error.hpp"

using namespace opdock;
using namespace opdock::test;

namespace {

// Registers `made`, which the host does not own.
void add_temporary(MadeHost &host, Made &made, const std::string &id = "jit") {
    next_entry = [&](opdock_registry *registry) {
        declare(registry, test_ops[0]);
        register_made(registry, made);
        return OPDOCK_OK;
    };
    host->register_module(id, "", run_next_entry, nullptr, true);
}

} // namespace

TEST_CASE("an implementation that was taken away serves no call, and the next one does") {
    MadeHost host;
    host.add("reference.two", OPDOCK_KIND_REFERENCE, {}, 2);
    auto made = std::make_unique<Made>("default.jit", OPDOCK_KIND_DEFAULT, "", 5.0F);
    add_temporary(host, *made);
    Rows rows;
    CHECK(rows.added(host.op()) == 5);
    const Prepared call = host.op().prepare({rows.x}, {rows.y});
    CHECK(call.impl() == "default.jit");
    host->unregister_module("jit");
    made.reset();
    CHECK(call.stale());
    CHECK(call.run({rows.in.data(), rows.out.data()}) == OPDOCK_UNSUPPORTED);
    CHECK(contains(last_error(), "its module was unregistered\nPrepare the call again"));
    CHECK_FALSE(contains(last_error(), "vendor"));
    CHECK(rows.added(host.op()) == 2);
}

TEST_CASE("a module that goes while a call decides is passed over") {
    static core::Host *open = nullptr;
    MadeHost host;
    open = &*host;
    host.add("reference.two", OPDOCK_KIND_REFERENCE, {}, 2);
    auto first = std::make_unique<Made>("default.first", OPDOCK_KIND_DEFAULT, "", 1.0F);
    first->priority = 1;
    first->adjust = [](opdock_impl &impl) {
        impl.available = [](const opdock_host_api *, void *, DLDevice) -> opdock_status {
            open->unregister_module("jit");
            return OPDOCK_UNSUPPORTED;
        };
    };
    host.add(std::move(first));
    Made made("default.jit", OPDOCK_KIND_DEFAULT, "", 5.0F);
    made.adjust = [](opdock_impl &impl) {
        impl.available = [](const opdock_host_api *, void *, DLDevice) -> opdock_status { return OPDOCK_OK; };
    };
    add_temporary(host, made);
    Rows rows;
    CHECK(rows.added(host.op()) == 2);
}

TEST_CASE("a module of the same id comes again, with another signature where the op was its own") {
    MadeHost host;
    for (const char *signature :
         {"jit.op(x: T[..., n]) -> (y: T[..., n])", "jit.op(x: T[..., n], *, a: int = 1) -> (y: T[..., n])"}) {
        auto made = std::make_unique<Made>("default.jit", OPDOCK_KIND_DEFAULT, "", 3.0F);
        made->op = "jit.op";
        next_entry = [&](opdock_registry *registry) {
            declare(registry, signature);
            register_made(registry, *made);
            return OPDOCK_OK;
        };
        host->register_module("jit", "", run_next_entry, nullptr, true);
        const Op op = host.op("jit.op");
        Rows rows;
        CHECK(rows.added(op) == 3);
        host->unregister_module("jit");
        CHECK(rows.call(op) == OPDOCK_UNKNOWN_OP);
        CHECK(contains(last_error(), "op 'jit.op': no plugin declares it any more"));
    }
}

TEST_CASE("plans and device states go with a module, once") {
    static int plans, states;
    plans = states = 0;
    {
        MadeHost host;
        Made made("default.jit", OPDOCK_KIND_DEFAULT, "", 1.0F);
        made.adjust = [](opdock_impl &impl) {
            impl.plan_create = [](const opdock_problem *, void **plan) -> opdock_status {
                *plan = &++plans;
                return OPDOCK_OK;
            };
            impl.plan_destroy = [](const opdock_host_api *, void *, DLDevice, void *) { --plans; };
            impl.device_init = [](const opdock_host_api *, void *, DLDevice, void **state) -> opdock_status {
                *state = &++states;
                return OPDOCK_OK;
            };
            impl.device_fini = [](const opdock_host_api *, void *, DLDevice, void *) { --states; };
        };
        add_temporary(host, made);
        Rows rows;
        CHECK(rows.added(host.op()) == 1);
        const Prepared call = host.op().prepare({rows.x}, {rows.y});
        CHECK(plans == 2);
        CHECK(states == 1);
        host->unregister_module("jit");
        CHECK(plans == 0);
        CHECK(states == 0);
    }
    CHECK(plans == 0);
    CHECK(states == 0);
}

TEST_CASE("a plan that stayed null of a thread that ended does not go with a module") {
    static int destroyed;
    destroyed = 0;
    MadeHost host;
    Made made("default.jit", OPDOCK_KIND_DEFAULT, "", 1.0F);
    made.adjust = [](opdock_impl &impl) {
        impl.plan_create = [](const opdock_problem *, void **) -> opdock_status { return OPDOCK_OK; };
        impl.plan_destroy = [](const opdock_host_api *, void *, DLDevice, void *) { ++destroyed; };
    };
    add_temporary(host, made);
    std::thread([&] {
        Rows rows;
        CHECK(rows.added(host.op()) == 1);
    }).join();
    Rows rows;
    CHECK(rows.added(host.op()) == 1);
    host->unregister_module("jit");
    CHECK(destroyed == 0);
}

TEST_CASE("a module that is taken away leaves the devices that another one provides") {
    for (const char *id : {"a", "z"}) { // before and after the provider's id
        CAPTURE(std::string(id));
        HostWithFake t;
        t.add("default.one", 1);
        Made made("default.jit", OPDOCK_KIND_DEFAULT, "", 5.0F);
        add_temporary(t.host, made, id);
        t.host->unregister_module(id);
        FakeRows rows;
        CHECK(rows.call(t.host.op()) == OPDOCK_OK);
    }
}

TEST_CASE("taking a module away waits for its kernels, and calls go on meanwhile") {
    MadeHost host;
    host.add("reference.two", OPDOCK_KIND_REFERENCE, {}, 2);
    std::atomic<bool> stop{false};
    std::atomic<int> failures{0};
    std::vector<std::jthread> threads;
    for (int i = 0; i < 2; ++i) {
        threads.emplace_back([&] {
            Rows rows;
            while (!stop) {
                const float added = rows.added(host.op());
                failures += added == 2 || added == 7 ? 0 : 1;
            }
        });
    }
    for (int round = 0; round < 200; ++round) {
        auto made = std::make_unique<Made>("default.jit", OPDOCK_KIND_DEFAULT, "", 7.0F);
        add_temporary(host, *made);
        Rows rows;
        CHECK(rows.added(host.op()) == 7);
        host->unregister_module("jit");
        made.reset(); // a kernel that still ran would use it
    }
    stop = true;
    threads.clear();
    CHECK(failures == 0);
}

TEST_CASE("a kernel that is waited for may have the host load what it calls") {
    MadeHost host;
    host.add("reference.two", OPDOCK_KIND_REFERENCE, {}, 2);
    Made made("default.jit", OPDOCK_KIND_DEFAULT, "", 5.0F);
    std::atomic<bool> runs{false};
    made.work = [&](const opdock_problem &, const opdock_call &) {
        runs = true;
        while (host->explain("test.add", nullptr, nullptr, {}).at("chain")[0] == "default.jit") {
            std::this_thread::yield(); // until the module can no longer be found, and is only waited for
        }
        host->register_module("other", "", [](opdock_registry *) -> opdock_status { return OPDOCK_OK; });
        return OPDOCK_OK;
    };
    add_temporary(host, made);
    opdock_status status = OPDOCK_FAILED;
    std::jthread caller([&] {
        Rows rows;
        status = rows.call(host.op());
    });
    while (!runs) {
        std::this_thread::yield();
    }
    host->unregister_module("jit");
    caller.join();
    CHECK(status == OPDOCK_OK);
}

TEST_CASE("only a module that was registered to go can be taken away") {
    MadeHost host;
    host.add("default.one", OPDOCK_KIND_DEFAULT, {}, 1);
    const auto refusal = [&](const char *id) {
        const core::Error error = thrown_by([&] { host->unregister_module(id); });
        CHECK(error.status() == OPDOCK_INVALID_ARGUMENT);
        return std::string(error.what());
    };
    CHECK(contains(refusal("module-1"), "it was registered permanently"));
    CHECK(contains(refusal("jit"), "no module has this id"));
    next_entry = [](opdock_registry *registry) {
        return registry->register_shutdown(
            registry, [](void *) {}, nullptr);
    };
    const core::Error error = thrown_by([&] { host->register_module("jit", "", run_next_entry, nullptr, true); });
    CHECK(contains(error.what(), "registers a shutdown function, but a temporary module"));
}
