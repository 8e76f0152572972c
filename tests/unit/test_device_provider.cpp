// The host's calls of a plugin's opdock_device_provider, and its use of the answers.
#include "devices/providers.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "call_arguments.hpp"
#include "composite.hpp"
#include "dispatch/call_thread.hpp"
#include "dispatch/memo.hpp"
#include "fake_device.hpp"
#include "load/plugin_call.hpp"
#include "thrown_error.hpp"

using namespace opdock;
using namespace opdock::test;
using core::RawEnvironment;

namespace {

// The fake device for callbacks of an implementation, which are plain functions, and below what they saw.
FakeKind *watched = nullptr;
std::vector<std::string> seen; // "kernel with 1 current"

void saw(const char *function, DLDevice device) {
    CHECK(device.device_type == kDLExtDev);
    CHECK(watched->current == device.device_id);
    seen.push_back(function + (" " + std::to_string(device.device_id)));
}

int64_t times_seen(const std::string &what) {
    return std::count(seen.begin(), seen.end(), what);
}

// Sets every function that takes a device. Each checks that this device is current.
void give_all_functions(opdock_impl &impl) {
    impl.available = [](const opdock_host_api *, void *, DLDevice device) -> opdock_status {
        saw("available", device);
        return OPDOCK_OK;
    };
    impl.supports = [](const opdock_problem *problem) -> opdock_status {
        saw("supports", problem->device);
        return OPDOCK_OK;
    };
    static const opdock_knob block = {
        OPDOCK_STRUCT_SIZE(opdock_knob, doc), OPDOCK_KNOB_INT, "block", 1, 64, 8, nullptr, nullptr};
    static const opdock_knob *const knobs[] = {&block};
    impl.n_knobs = 1;
    impl.knobs = knobs;
    impl.heuristic = [](const opdock_problem *problem, int64_t *) -> opdock_status {
        saw("heuristic", problem->device);
        return OPDOCK_OK;
    };
    impl.device_init = [](const opdock_host_api *, void *, DLDevice device, void **) -> opdock_status {
        saw("device_init", device);
        return OPDOCK_OK;
    };
    impl.device_fini = [](const opdock_host_api *, void *, DLDevice device, void *) { saw("device_fini", device); };
    impl.plan_create = [](const opdock_problem *problem, void **plan) -> opdock_status {
        saw("plan_create", problem->device);
        *plan = &seen;
        return OPDOCK_OK;
    };
    impl.plan_destroy = [](const opdock_host_api *, void *, DLDevice device, void *) { saw("plan_destroy", device); };
    impl.workspace_size = [](const opdock_problem *problem, uint64_t *bytes) -> opdock_status {
        saw("workspace_size", problem->device);
        *bytes = 0;
        return OPDOCK_OK;
    };
    impl.kernel = [](const opdock_problem *problem, const opdock_call *) -> opdock_status {
        saw("kernel", problem->device);
        return OPDOCK_OK;
    };
}

void ask_for_1000_bytes(opdock_impl &impl) {
    impl.workspace_size = [](const opdock_problem *, uint64_t *bytes) -> opdock_status {
        *bytes = 1000;
        return OPDOCK_OK;
    };
}

// A program's workspace allocator that records its calls.
struct ProgramMemory {
    std::vector<std::pair<int32_t, void *>> allocated; // device id and stream
    std::vector<std::pair<int32_t, void *>> freed;
    alignas(256) std::array<char, 4096> memory = {};

    core::WorkspaceAllocator allocator() {
        return {[](void *user_data, DLDevice device, void *stream, uint64_t) -> void * {
                    auto &self = *static_cast<ProgramMemory *>(user_data);
                    self.allocated.emplace_back(device.device_id, stream);
                    return self.memory.data();
                },
                [](void *user_data, DLDevice device, void *stream, void *) {
                    static_cast<ProgramMemory *>(user_data)->freed.emplace_back(device.device_id, stream);
                },
                this};
    }
};

int a_stream, other_stream; // their addresses are handles

} // namespace

// --- the current device ---------------------------------------------------------------------------------------------

TEST_CASE("the device of a call is current when its kernel runs, whatever was current before") {
    HostWithFake t;
    std::vector<int32_t> current;
    t.add("default.one", 1).work = [&](const opdock_problem &, const opdock_call &) {
        current.push_back(t.fake.current);
        t.fake.current = 77; // as if the program had changed the device in between
        return OPDOCK_OK;
    };
    FakeRows on_0(0), on_1(1);
    for (int i = 0; i < 2; ++i) {
        CHECK(on_1.call(t.host.op()) == OPDOCK_OK);
        CHECK(on_0.call(t.host.op()) == OPDOCK_OK);
        CHECK(on_0.call(t.host.op()) == OPDOCK_OK);
    }
    CHECK(current == std::vector<int32_t>{1, 0, 0, 1, 0, 0});
}

TEST_CASE("a call on a device that is made again is not validated again, and finds the device current") {
    HostWithFake t;
    std::vector<int32_t> current;
    t.add("default.one", 1).work = [&](const opdock_problem &, const opdock_call &) {
        current.push_back(t.fake.current);
        return OPDOCK_OK;
    };
    t.fake.current = 0;
    FakeRows rows(1);
    CHECK(rows.call(t.host.op()) == OPDOCK_OK);
    const core::OpEntry &entry = t.host->op("test.add");
    const core::Memo *const memo = core::call_thread().latest[entry.index % core::CallThread::n_latest].memo;
    REQUIRE(memo != nullptr);
    CHECK(memo->head != nullptr); // calls that look the same are sent to it
    for (int i = 0; i < 3; ++i) {
        CHECK(rows.call(t.host.op()) == OPDOCK_OK);
        CHECK(t.fake.current == 0);
    }
    CHECK(current == std::vector<int32_t>(4, 1));
}

TEST_CASE("after every call and callback the device is current that was") {
    HostWithFake t;
    watched = &t.fake;
    seen.clear();
    t.add("default.one", 1, give_all_functions);
    FakeRows on_1(1);
    t.fake.current = 0;
    const auto check = [&](const char *after) {
        CAPTURE(after);
        CHECK(t.fake.current == 0);
        CHECK(t.fake.count("make_current 1") >= 1);
        CHECK(t.fake.count("make_current 0") == t.fake.count("make_current 1"));
        t.fake.events.clear();
    };
    CHECK(on_1.call(t.host.op()) == OPDOCK_OK);
    check("the first call");
    for (const char *function : {"available", "supports", "heuristic", "device_init", "plan_create", "kernel"}) {
        CAPTURE(function);
        CHECK(times_seen(function + std::string(" 1")) == 1);
    }
    CHECK(on_1.call(t.host.op()) == OPDOCK_OK);
    check("a later call");
    {
        const Prepared prepared = t.host.op().prepare({on_1.x}, {on_1.y});
        check("prepare");
        CHECK(t.host.op().explain({on_1.x}, {on_1.y}).find("heuristic") != std::string::npos);
        check("explaining a call");
    }
    CHECK(times_seen("plan_destroy 1") >= 1);
    check("the end of a prepared call");
    t.host->refresh_availability();
    check("available");
    t.host.close();
    CHECK(times_seen("device_fini 1") == 1);
    check("closing");
}

TEST_CASE("the device that was current is put back also after what went wrong") {
    HostWithFake t;
    Made &one = t.add("default.one", 1);
    FakeRows on_1(1);
    t.fake.current = 0;
    SUBCASE("a kernel fails") {
        one.status = OPDOCK_FAILED;
        CHECK(on_1.call(t.host.op()) == OPDOCK_ALL_FAILED);
        CHECK(contains(last_error(), "default.one was told to"));
    }
    SUBCASE("a kernel throws") {
        one.work = [](const opdock_problem &, const opdock_call &) -> opdock_status {
            throw std::runtime_error("it broke");
        };
        CHECK(on_1.call(t.host.op()) == OPDOCK_ALL_FAILED);
        CHECK(contains(last_error(), "it broke"));
    }
    SUBCASE("the device cannot be made current") {
        t.fake.make_current_status = OPDOCK_FAILED_CLEAN;
        t.fake.make_current_failures = 1;
        CHECK(on_1.call(t.host.op()) == OPDOCK_ALL_FAILED);
        CHECK(contains(last_error(), "make_current: the fake does not answer"));
        CHECK(t.fake.count("make_current 0") == 1); // nobody knows which device is current now
    }
    SUBCASE("there is no workspace") {
        t.add("vendor.two", 2, ask_for_1000_bytes, OPDOCK_KIND_VENDOR);
        one.status = OPDOCK_UNSUPPORTED;
        t.fake.allocate_status = OPDOCK_OUT_OF_MEMORY;
        CHECK(on_1.call(t.host.op()) != OPDOCK_OK);
    }
    CHECK(t.fake.current == 0);
}

TEST_CASE("a kernel that calls an op on another device finds its own current when that returns") {
    HostWithFake t;
    Made &one = t.add("default.one", 1);
    FakeRows on_0(0), on_1(1);
    auto other = std::make_unique<Made>("vendor.pair", OPDOCK_KIND_VENDOR, "acme");
    other->op = "test.pair";
    other->device = "fake";
    std::vector<int32_t> current;
    other->work = [&](const opdock_problem &problem, const opdock_call &) {
        current.push_back(t.fake.current);
        const std::array<TensorArg, 1> inputs = {on_1.x}, outputs = {on_1.y};
        const opdock_status status = problem.host->call_op(&problem, "test.add", &Args(inputs, outputs).c());
        current.push_back(t.fake.current);
        return status;
    };
    t.host.add(std::move(other));
    one.work = [&](const opdock_problem &, const opdock_call &) {
        current.push_back(t.fake.current);
        return OPDOCK_OK;
    };
    t.fake.current = 1;
    std::vector<float> a(3), b(3);
    t.host.op("test.pair")({Tensor(a.data(), f32, {3}, fake_device(0))}, {Tensor(b.data(), f32, {3}, fake_device(0))});
    CHECK(current == std::vector<int32_t>{0, 1, 0});
    CHECK(t.fake.current == 1);
}

TEST_CASE("a call whose device is current already asks which one is, and makes none current") {
    HostWithFake t;
    t.add("default.one", 1);
    FakeRows rows;
    t.fake.current = 0;
    CHECK(rows.added(t.host.op()) == 1);
    t.fake.events.clear();
    CHECK(rows.added(t.host.op()) == 1);
    CHECK(t.fake.events == std::vector<std::string>{"get_current"});
}

TEST_CASE("where no device is current yet, that of the call stays") {
    HostWithFake t;
    t.add("default.one", 1);
    FakeRows on_1(1);
    CHECK(on_1.added(t.host.op()) == 1);
    CHECK(t.fake.current == 1);
    CHECK(t.fake.count("make_current 1") == 1);
    CHECK(t.fake.count("make_current -1") == 0);
}

TEST_CASE("a provider that does not know the current device fails the call with its reason, and keeps the device") {
    HostWithFake t;
    Made &one = t.add("default.one", 1);
    FakeRows on_1(1);
    t.fake.current = 0;
    CHECK(on_1.added(t.host.op()) == 1);
    t.fake.get_current_status = OPDOCK_FAILED_CLEAN;
    t.fake.events.clear();
    CHECK(on_1.call(t.host.op()) == OPDOCK_ALL_FAILED);
    CHECK(contains(last_error(), "get_current: the fake does not know"));
    CHECK(t.fake.count("make_current 1") == 0);
    CHECK(one.calls == 1);
}

TEST_CASE("putting back a device leaves what was said meanwhile, and nothing of its own") {
    HostWithFake t;
    t.fake.current = 0;
    const opdock_host_api &api = t.host->api();
    {
        const core::CurrentDevice current = t.host->devices().enter(fake_device(1));
        REQUIRE(current.status() == OPDOCK_OK);
        CHECK(t.fake.current == 1);
        api.fail(&api, OPDOCK_FAILED, "the kernel's reason");
        t.fake.make_current_status = OPDOCK_FAILED;
    }
    CHECK(core::take_message(OPDOCK_FAILED) == "the kernel's reason");
    {
        t.fake.make_current_status = OPDOCK_OK;
        t.fake.current = 0;
        const core::CurrentDevice current = t.host->devices().enter(fake_device(1));
        t.fake.make_current_status = OPDOCK_FAILED;
    }
    CHECK(core::take_message(OPDOCK_OK).empty());
}

TEST_CASE("a call on the CPU asks the provider of another device nothing") {
    HostWithFake t;
    t.add("default.fake", 1);
    t.host.add("default.cpu", OPDOCK_KIND_DEFAULT, {}, 2);
    Rows rows;
    CHECK(rows.added(t.host.op()) == 2);
    CHECK(rows.added(t.host.op()) == 2);
    CHECK(t.fake.events.empty());
}

TEST_CASE("every function of an implementation that has a device finds it current") {
    HostWithFake t;
    watched = &t.fake;
    seen.clear();
    t.add("default.one", 1, give_all_functions);
    FakeRows on_0(0), on_1(1);
    on_0.call(t.host.op());
    on_1.call(t.host.op());
    on_0.call(t.host.op());
    t.fake.current = 77;
    const Prepared prepared = t.host.op().prepare({on_1.x}, {on_1.y});
    t.fake.current = 77;
    t.host->explain("test.add", "fake:0", nullptr, nullptr);
    t.host->refresh_availability();
    t.fake.current = 77;
    t.host->explain("test.add", "fake:0", nullptr, nullptr);
    for (const char *function : {"available", "heuristic", "device_init", "plan_create", "workspace_size", "kernel"}) {
        CAPTURE(function);
        CHECK(times_seen(function + std::string(" 0")) >= 1);
        CHECK(times_seen(function + std::string(" 1")) >= 1);
    }
    CHECK(times_seen("supports 1") == 2);
    t.fake.current = 77;
    SUBCASE("when the host closes") {}
    SUBCASE("when calls with other shapes push remembered ones out") {
        std::vector<float> in(64), out(64);
        for (int64_t n = 1; n < 20; ++n) {
            t.host.op()({Tensor(in.data(), f32, {n}, fake_device(1))}, {Tensor(out.data(), f32, {n}, fake_device(1))});
        }
        CHECK(times_seen("plan_destroy 0") >= 1);
    }
}

TEST_CASE("closing destroys plans, then device states, then calls the shutdown functions, each device being current") {
    HostWithFake t;
    watched = &t.fake;
    seen.clear();
    t.host.module("with-shutdown", [](opdock_registry *registry) {
        return registry->register_shutdown(
            registry, [](void *) { seen.emplace_back("shutdown"); }, nullptr);
    });
    t.add("default.one", 1, give_all_functions);
    FakeRows on_0(0), on_1(1);
    on_0.call(t.host.op());
    on_1.call(t.host.op());
    seen.clear();
    t.host.close();
    REQUIRE(seen.size() == 5);
    CHECK(seen[0].starts_with("plan_destroy"));
    CHECK(seen[1].starts_with("plan_destroy"));
    CHECK(seen[2].starts_with("device_fini"));
    CHECK(seen[3].starts_with("device_fini"));
    CHECK(seen[4] == "shutdown");
    CHECK(times_seen("device_fini 0") == 1);
    CHECK(times_seen("device_fini 1") == 1);
}

TEST_CASE("state is made once for each device and implementation") {
    HostWithFake t;
    watched = &t.fake;
    seen.clear();
    t.add("default.one", 1, give_all_functions);
    std::vector<float> in(64), out(64);
    for (int round = 0; round < 2; ++round) {
        for (int32_t device : {0, 1}) {
            for (int64_t n = 1; n < 12; ++n) {
                t.host.op()({Tensor(in.data(), f32, {n}, fake_device(device))},
                            {Tensor(out.data(), f32, {n}, fake_device(device))});
            }
        }
    }
    CHECK(times_seen("device_init 0") == 1);
    CHECK(times_seen("device_init 1") == 1);
    CHECK(times_seen("available 0") == 1);
    CHECK(times_seen("available 1") == 1);
}

TEST_CASE("state that could not be made is asked for again, and the implementation is passed over meanwhile") {
    HostWithFake t;
    static int tries;
    tries = 0;
    t.add("default.one", 1, [](opdock_impl &impl) {
        impl.device_init = [](const opdock_host_api *host, void *, DLDevice, void **) {
            return ++tries < 2 ? host->fail(host, OPDOCK_FAILED, "the library is busy") : OPDOCK_OK;
        };
        impl.device_fini = [](const opdock_host_api *, void *, DLDevice, void *) {};
    });
    t.add("reference.two", 2, nullptr, OPDOCK_KIND_REFERENCE);
    FakeRows rows;
    CHECK(rows.added(t.host.op()) == 2);
    CHECK(t.host.logged("device_init: the library is busy") == 1);
    CHECK(rows.added(t.host.op()) == 1);
    CHECK(rows.added(t.host.op()) == 1);
    CHECK(tries == 2);
}

TEST_CASE("after a device could not be made current the next implementation is tried, and the log has the reason") {
    HostWithFake t;
    Made &one = t.add("default.one", 1);
    t.add("reference.two", 2, nullptr, OPDOCK_KIND_REFERENCE);
    FakeRows rows;
    SUBCASE("at the first call") {}
    SUBCASE("at a later call") {
        CHECK(rows.added(t.host.op()) == 1);
    }
    t.fake.current = 1;
    const int calls = one.calls;
    t.fake.make_current_status = OPDOCK_FAILED_CLEAN;
    t.fake.make_current_failures = 1;
    CHECK(rows.added(t.host.op()) == 2);
    CHECK(one.calls == calls);
    CHECK(t.host.logged("make_current: the fake does not answer") == 1);
    CHECK(rows.added(t.host.op()) == 1);
}

TEST_CASE("a device that can be made current for nobody fails the call with the provider's reason") {
    HostWithFake t;
    Made &one = t.add("default.one", 1);
    FakeRows rows;
    CHECK(rows.added(t.host.op()) == 1);
    t.fake.current = 1;
    t.fake.make_current_status = OPDOCK_FAILED_CLEAN;
    CHECK(rows.call(t.host.op()) == OPDOCK_ALL_FAILED);
    CHECK(contains(last_error(), "default.one"));
    CHECK(contains(last_error(), "make_current: the fake does not answer"));
    CHECK(one.calls == 1);
    t.fake.make_current_status = OPDOCK_OK;
    CHECK(rows.added(t.host.op()) == 1);
}

TEST_CASE("strict: a device that cannot be made current fails the call with the reason") {
    HostWithFake t(RawEnvironment{{"PLUGIN_STRICT", "1"}});
    t.add("default.one", 1);
    Made &two = t.add("reference.two", 2, nullptr, OPDOCK_KIND_REFERENCE);
    t.fake.make_current_status = OPDOCK_FAILED_CLEAN;
    FakeRows rows;
    CHECK(rows.call(t.host.op()) == OPDOCK_FAILED_CLEAN);
    CHECK(contains(last_error(), "the fake does not answer"));
    CHECK(contains(last_error(), "PLUGIN_STRICT"));
    CHECK(two.calls == 0);
}

TEST_CASE("a device that does not exist is the caller's mistake, and no function is asked about it") {
    HostWithFake t;
    Made &one = t.add("default.one", 1);
    for (const int32_t index : {2, 1000, -1}) {
        CAPTURE(index);
        FakeRows rows(index);
        CHECK(rows.call(t.host.op()) == OPDOCK_INVALID_ARGUMENT);
        CHECK(contains(last_error(), "fake:" + std::to_string(index)));
        CHECK(contains(last_error(), "2 devices"));
        CHECK_THROWS_WITH_AS(t.host.op().prepare({rows.x}, {rows.y}), doctest::Contains("2 devices"), Error);
    }
    t.host->explain("test.add", "fake:5", nullptr, nullptr);
    CHECK(one.calls == 0);
    CHECK(t.fake.indices.empty());
}

TEST_CASE("a provider that cannot count its devices has none, and its reason is given") {
    HostWithFake t;
    t.fake.count_status = OPDOCK_FAILED;
    t.add("default.one", 1);
    FakeRows rows;
    CHECK(rows.call(t.host.op()) == OPDOCK_INVALID_ARGUMENT);
    CHECK(contains(last_error(), "no driver here"));
    t.fake.count_status = OPDOCK_OK;
    t.host->refresh_availability();
    CHECK(rows.added(t.host.op()) == 1);
}

TEST_CASE("a provider that counts more devices than a machine has, or fewer than none, has none, and that is said") {
    for (const int32_t counted : {1025, 2147483647, -1}) {
        CAPTURE(counted);
        HostWithFake t;
        t.fake.counted = counted;
        t.add("default.one", 1);
        FakeRows rows;
        CHECK(rows.call(t.host.op()) == OPDOCK_INVALID_ARGUMENT);
        const std::string why = "its provider reports " + std::to_string(counted) + " devices; expected 0 to 1024";
        CHECK(contains(last_error(), why));
        const nlohmann::json devices = t.host->describe_devices();
        CHECK(devices.dump().find(why) != std::string::npos);
    }
    HostWithFake t;
    t.fake.counted = 1024;
    t.add("default.one", 1);
    FakeRows rows;
    CHECK(rows.added(t.host.op()) == 1);
}

TEST_CASE("a provider of no devices is listed with that, and one of some is not") {
    for (const int32_t counted : {0, 1, 2}) {
        CAPTURE(counted);
        HostWithFake t;
        t.fake.counted = counted;
        t.add("default.one", 1);
        std::vector<std::string> listed;
        for (const nlohmann::json &device : t.host->describe_devices()) {
            if (device["type"] == "fake") {
                listed.push_back(device.value("problem", device.value("device", "")));
            }
        }
        REQUIRE(listed.size() == std::max<size_t>(1, static_cast<size_t>(counted)));
        const std::vector<std::string> last = {"plugin 'fake-devices' reports 0 devices", "fake:0", "fake:1"};
        CHECK(listed.back() == last[static_cast<size_t>(counted)]);
    }
}

// --- capturing
// --------------------------------------------------------------------------------------------------------

TEST_CASE("an op that was never resolved is refused while its stream is being captured") {
    HostWithFake t;
    Made &one = t.add("default.one", 1);
    FakeRows rows;
    t.fake.captured = &a_stream;
    CHECK(rows.call(t.host.op(), &a_stream) == OPDOCK_NOT_PREPARED);
    CHECK(contains(last_error(), "test.add"));
    CHECK(contains(last_error(), "prepare the call before the capture"));
    CHECK(one.calls == 0);
    CHECK(rows.added(t.host.op(), &other_stream) == 1); // a stream that is not captured
    CHECK(rows.added(t.host.op(), &a_stream) == 1);     // already resolved
}

TEST_CASE("nothing falls back while the stream is being captured, and the message says so") {
    for (const opdock_status status : {OPDOCK_UNSUPPORTED, OPDOCK_FAILED, OPDOCK_FAILED_CLEAN}) {
        CAPTURE(status);
        HostWithFake t;
        Made &one = t.add("default.one", 1);
        Made &two = t.add("reference.two", 2, nullptr, OPDOCK_KIND_REFERENCE);
        FakeRows rows;
        CHECK(rows.added(t.host.op(), &a_stream) == 1);
        one.status = status;
        t.fake.captured = &a_stream;
        CHECK(rows.call(t.host.op(), &a_stream) == status);
        CHECK(contains(last_error(), "default.one was told to"));
        CHECK(contains(last_error(), "the stream is being captured"));
        CHECK(two.calls == 0);
        t.fake.captured = nullptr;
        CHECK(rows.added(t.host.op(), &a_stream) == 2);
    }
}

TEST_CASE("a prepared call runs while its stream is being captured, and asks the provider nothing") {
    HostWithFake t;
    t.add("default.one", 1);
    FakeRows rows;
    const Prepared prepared = t.host.op().prepare({rows.x}, {rows.y});
    t.fake.captured = &a_stream;
    t.fake.events.clear();
    CHECK(prepared.run({rows.in.data(), rows.out.data()}, &a_stream) == OPDOCK_OK);
    CHECK(rows.out[0] == 2);
    CHECK(t.fake.events.empty());
}

TEST_CASE("preparing a call resolves its op for captures") {
    HostWithFake t;
    t.add("default.one", 1);
    FakeRows rows;
    const Prepared prepared = t.host.op().prepare({rows.x}, {rows.y});
    t.fake.captured = &a_stream;
    CHECK(rows.added(t.host.op(), &a_stream) == 1);
}

TEST_CASE("while its stream is being captured a call gets no memory of the provider's for a workspace") {
    // The memory would be freed after the call, but the graph would write to it at each replay.
    HostWithFake t;
    Made &one = t.add("default.one", 1, ask_for_1000_bytes);
    FakeRows rows;
    CHECK(rows.added(t.host.op(), &a_stream) == 1);
    t.fake.captured = &a_stream;
    t.fake.events.clear();
    CHECK(rows.call(t.host.op(), &a_stream) == OPDOCK_INVALID_ARGUMENT);
    CHECK(contains(last_error(), "is being captured"));
    CHECK(contains(last_error(), "1000 bytes"));
    CHECK(t.fake.count("allocate 0") == 0);
    CHECK(one.calls == 1);
    alignas(256) static std::array<char, 1024> memory;
    const std::array<TensorArg, 1> in = {rows.x}, out = {rows.y};
    CHECK(t.host.op().try_call(Args(in, out, {}, &a_stream).workspace(memory.data(), memory.size())) == OPDOCK_OK);
}

TEST_CASE("the program's own allocator may serve a captured stream: it knows what its memory is for") {
    ProgramMemory memory;
    HostWithFake t({}, memory.allocator());
    t.add("default.one", 1, ask_for_1000_bytes);
    FakeRows rows;
    CHECK(rows.added(t.host.op(), &a_stream) == 1);
    t.fake.captured = &a_stream;
    CHECK(rows.added(t.host.op(), &a_stream) == 1);
    CHECK(memory.allocated.size() == 2);
}

TEST_CASE("a composite runs its parts while its stream is being captured, on its own workspace") {
    HostWithFake t;
    t.add("default.composite", 0, plan_as_composite).work = run_as_composite;
    t.add("reference.part", 2, ask_for_1000_bytes, OPDOCK_KIND_REFERENCE);
    FakeRows rows;
    const Prepared prepared = t.host.op().prepare({rows.x}, {rows.y});
    CHECK(prepared.workspace_size() == 1000);
    t.fake.captured = &a_stream;
    t.fake.events.clear();
    alignas(256) static std::array<char, 1024> memory;
    CHECK(prepared.run({rows.in.data(), rows.out.data()}, &a_stream, memory.data()) == OPDOCK_OK);
    CHECK(rows.out[0] == rows.in[0] + 2);
    CHECK(t.fake.events.empty());
}

TEST_CASE("the parts of a composite are on its device") {
    HostWithFake t;
    t.add("default.composite", 0, [](opdock_impl &impl) {
        plan_as_composite(impl);
        impl.plan_create = [](const opdock_problem *problem, void **plan) -> opdock_status {
            opdock_problem elsewhere = *problem;
            elsewhere.device = {kDLCPU, 0};
            return create_composite_plan(&elsewhere, plan);
        };
    });
    t.add("reference.part", 2, nullptr, OPDOCK_KIND_REFERENCE);
    FakeRows rows;
    CHECK(rows.call(t.host.op()) == OPDOCK_INVALID_ARGUMENT);
    CHECK(contains(last_error(), "its tensors are on fake:0, but those of the op that contains it are on cpu:0"));
}

// --- a lost device
// ----------------------------------------------------------------------------------------------------

TEST_CASE("after a device was lost nothing more is tried on it, and every call says why at once") {
    HostWithFake t;
    Made &one = t.add("default.one", 1);
    Made &two = t.add("reference.two", 2, nullptr, OPDOCK_KIND_REFERENCE);
    FakeRows rows;
    one.status = OPDOCK_DEVICE_LOST;
    CHECK(rows.call(t.host.op()) == OPDOCK_DEVICE_LOST);
    CHECK(contains(last_error(), "default.one was told to"));
    CHECK(two.calls == 0);
    CHECK(t.host.logged("Device fake:0 is lost") == 1);

    one.status = OPDOCK_OK;
    t.fake.events.clear();
    for (int i = 0; i < 3; ++i) {
        CHECK(rows.call(t.host.op()) == OPDOCK_DEVICE_LOST);
        CHECK(contains(last_error(), "fake:0 was lost"));
        CHECK(contains(last_error(), "default.one was told to"));
    }
    CHECK_THROWS_WITH_AS(t.host.op().prepare({rows.x}, {rows.y}), doctest::Contains("fake:0 was lost"), Error);
    CHECK(one.calls == 1);
    CHECK(t.fake.count("make_current 0") == 0);
    CHECK(t.host.logged("is lost") == 1);
}

TEST_CASE("after a device that nobody provides was lost calls there fail, also those that are remembered") {
    MadeHost host;
    Made *made[2] = {};
    for (const auto &[at, op] : {std::pair(0, "test.add"), std::pair(1, "test.pair")}) {
        auto one = std::make_unique<Made>("default.one", OPDOCK_KIND_DEFAULT);
        one->op = op;
        one->device = "vulkan";
        one->work = [&status = one->status](const auto &, const auto &) { return status.load(); };
        made[at] = &host.add(std::move(one));
    }
    CallArguments call;
    call.in(OPDOCK_F32, {3}, {1}).out(OPDOCK_F32, {3}, {1});
    call.input(0).device = call.output(0).device = {kDLVulkan, 0};
    const auto called = [&](const char *op) { return opdock_call_op(host.op(op).c(), &call.args()); };
    CHECK(called("test.add") == OPDOCK_OK);
    CHECK(called("test.add") == OPDOCK_OK);
    made[1]->status = OPDOCK_DEVICE_LOST;
    CHECK(called("test.pair") == OPDOCK_DEVICE_LOST);
    CHECK(called("test.add") == OPDOCK_DEVICE_LOST);
    CHECK(made[0]->calls == 2);
}

TEST_CASE("a kernel cannot say that the CPU is lost: it failed, and others serve") {
    MadeHost host(core::RawEnvironment{{"PLUGIN_PREFER", "vendor"}});
    Made &one = host.add("vendor.one", OPDOCK_KIND_VENDOR, "one", 1);
    host.add("default.two", OPDOCK_KIND_DEFAULT, {}, 2);
    one.status = OPDOCK_DEVICE_LOST;
    Rows rows;
    CHECK(rows.added(host.op()) == 2);
    CHECK(rows.added(host.op()) == 2);
    CHECK(host.logged("is lost") == 0);
    CHECK(host.logged("vendor.one was told to") >= 1);
}

TEST_CASE("other devices go on when one is lost") {
    HostWithFake t;
    Made &one = t.add("default.one", 1);
    t.host.add("default.cpu", OPDOCK_KIND_DEFAULT, {}, 5);
    FakeRows on_0(0), on_1(1);
    Rows on_cpu;
    CHECK(on_1.added(t.host.op()) == 1);
    one.status = OPDOCK_DEVICE_LOST;
    CHECK(on_0.call(t.host.op()) == OPDOCK_DEVICE_LOST);
    one.status = OPDOCK_OK;
    CHECK(on_1.added(t.host.op()) == 1);
    CHECK(on_cpu.added(t.host.op()) == 5);
    CHECK(on_0.call(t.host.op()) == OPDOCK_DEVICE_LOST);
}

TEST_CASE("the message of a lost device lists the latest launches there, newest first, and blames none") {
    HostWithFake t;
    Made &one = t.add("default.one", 1);
    auto other = std::make_unique<Made>("vendor.pair", OPDOCK_KIND_VENDOR, "acme");
    other->op = "test.pair";
    other->device = "fake";
    t.host.add(std::move(other));
    FakeRows on_0(0), on_1(1);
    std::vector<float> a(3), b(3);
    t.host.op("test.pair")({Tensor(a.data(), f32, {3}, fake_device(0))}, {Tensor(b.data(), f32, {3}, fake_device(0))});
    on_1.call(t.host.op());
    one.status = OPDOCK_DEVICE_LOST;
    CHECK(on_0.call(t.host.op()) == OPDOCK_DEVICE_LOST);
    const std::string message = last_error();
    CHECK(contains(message, "any of which may be the cause: test.add (default.one), test.pair (vendor.pair)"));
    CHECK_FALSE(contains(message, "default.one), test.add")); // the launch on the other device
    CHECK(t.host.logged("test.add (default.one), test.pair (vendor.pair)") == 1);
}

TEST_CASE("the message of a lost device lists the last eight launches on this thread") {
    const auto listed = [](int before) {
        HostWithFake t;
        Made &one = t.add("default.one", 1);
        FakeRows rows;
        for (int i = 0; i < before; ++i) {
            rows.call(t.host.op());
        }
        one.status = OPDOCK_DEVICE_LOST;
        CHECK(rows.call(t.host.op()) == OPDOCK_DEVICE_LOST);
        const std::string message = last_error();
        int count = 0;
        for (size_t at = message.find("test.add (default.one)"); at != std::string::npos;
             at = message.find("test.add (default.one)", at + 1)) {
            ++count;
        }
        return count;
    };
    CHECK(listed(0) == 1);
    CHECK(listed(1) == 2);
    CHECK(listed(7) == 8);
    CHECK(listed(8) == 8);
    CHECK(listed(30) == 8);
}

TEST_CASE("launches of a host that was closed are not listed") {
    {
        HostWithFake gone;
        gone.add("default.gone", 1);
        FakeRows rows;
        rows.call(gone.host.op());
    }
    HostWithFake t;
    t.add("default.one", 1).status = OPDOCK_DEVICE_LOST;
    FakeRows rows;
    CHECK(rows.call(t.host.op()) == OPDOCK_DEVICE_LOST);
    CHECK(contains(last_error(), "test.add (default.one)"));
    CHECK_FALSE(contains(last_error(), "default.gone"));
}

TEST_CASE("losing the device is no failure of the implementation that noticed") {
    HostWithFake t;
    Made &one = t.add("default.one", 1);
    t.add("reference.two", 2, nullptr, OPDOCK_KIND_REFERENCE);
    FakeRows rows;
    one.status = OPDOCK_FAILED_CLEAN;
    CHECK(rows.added(t.host.op()) == 2);
    CHECK(rows.added(t.host.op()) == 2);
    one.status = OPDOCK_DEVICE_LOST;
    CHECK(rows.call(t.host.op()) == OPDOCK_DEVICE_LOST);
    CHECK(t.host.logged("leaves the chain") == 0);
}

TEST_CASE("a device may be found lost before the kernel runs") {
    HostWithFake t;
    Made &one = t.add("default.one", 1, ask_for_1000_bytes);
    Made &two = t.add("reference.two", 2, nullptr, OPDOCK_KIND_REFERENCE);
    FakeRows rows;
    CHECK(rows.added(t.host.op()) == 1);
    t.fake.current = 1;
    SUBCASE("when it is made current") {
        t.fake.make_current_status = OPDOCK_DEVICE_LOST;
    }
    SUBCASE("when memory is asked for") {
        t.fake.allocate_status = OPDOCK_DEVICE_LOST;
    }
    CHECK(rows.call(t.host.op()) == OPDOCK_DEVICE_LOST);
    t.fake.make_current_status = t.fake.allocate_status = OPDOCK_OK;
    CHECK(rows.call(t.host.op()) == OPDOCK_DEVICE_LOST);
    CHECK(contains(last_error(), "fake:0 was lost"));
    CHECK(one.calls == 1);
    CHECK(two.calls == 0);
}

TEST_CASE("a device found lost while preparing is lost for every call, and no other implementation is prepared") {
    HostWithFake t;
    static int asked;
    static bool is_there;
    asked = 0;
    is_there = false;
    t.add("default.one", 1, [](opdock_impl &impl) {
        impl.supports = [](const opdock_problem *problem) {
            return is_there ? OPDOCK_OK : problem->host->fail(problem->host, OPDOCK_DEVICE_LOST, "it fell off the bus");
        };
    });
    t.add(
        "reference.two", 2,
        [](opdock_impl &impl) {
            impl.supports = [](const opdock_problem *) -> opdock_status {
                ++asked;
                return OPDOCK_OK;
            };
        },
        OPDOCK_KIND_REFERENCE);
    FakeRows rows;
    CHECK_THROWS_WITH_AS(t.host.op().prepare({rows.x}, {rows.y}), doctest::Contains("it fell off the bus"), Error);
    CHECK(asked == 0);
    is_there = true; // too late
    CHECK(rows.call(t.host.op()) == OPDOCK_DEVICE_LOST);
    CHECK(contains(last_error(), "it fell off the bus"));
}

// --- architectures
// ----------------------------------------------------------------------------------------------------

TEST_CASE("an implementation for another architecture is not used there, and explain gives rule and reason") {
    HostWithFake t;
    t.add("default.new", 1, [](opdock_impl &impl) { impl.architectures = "fk_20"; });
    t.add("reference.any", 2, nullptr, OPDOCK_KIND_REFERENCE);
    FakeRows on_0(0), on_1(1);
    CHECK(on_0.added(t.host.op()) == 2);
    CHECK(on_1.added(t.host.op()) == 1);

    const nlohmann::json why = t.host->explain("test.add", "fake:0", nullptr, nullptr);
    CHECK(why["chain"] == nlohmann::json::parse(R"(["reference.any"])"));
    CHECK(why["dropped"][0]["impl_id"] == "default.new");
    CHECK(why["dropped"][0]["rule"] == "architecture");
    CHECK(why["dropped"][0]["reason"] == "it runs on fk_20, not on fk_10");
    CHECK(t.host->explain("test.add", "fake:1", nullptr, nullptr)["chain"].size() == 2);
}

TEST_CASE("this architecture or newer means something where the provider orders its architectures") {
    for (const bool ordered : {true, false}) {
        CAPTURE(ordered);
        FakeKind fake;
        fake.flags = ordered ? OPDOCK_DEVICE_ORDERED_ARCHITECTURES : 0;
        fake.architectures = {"fk_9", "fk_10", "fk_20"};
        MadeHost host;
        host.module("fake-devices", [&](opdock_registry *registry) { return fake.provide(registry); });
        auto made = std::make_unique<Made>("default.new", OPDOCK_KIND_DEFAULT, "", 1.0f);
        made->device = "fake";
        made->adjust = [](opdock_impl &impl) { impl.architectures = "fk_10+"; };
        host.add(std::move(made));
        std::array<bool, 3> served{};
        for (int32_t i = 0; i < 3; ++i) {
            FakeRows rows(i);
            served.at(static_cast<size_t>(i)) = rows.call(host.op()) == OPDOCK_OK;
        }
        CHECK(served == (ordered ? std::array{false, true, true} : std::array{false, false, false}));
    }
}

TEST_CASE("a provider that comes late tells the architecture of devices that were met before") {
    MadeHost host;
    auto made = std::make_unique<Made>("default.new", OPDOCK_KIND_DEFAULT, "", 1.0f);
    made->device = "fake";
    made->adjust = [](opdock_impl &impl) { impl.architectures = "fk_10"; };
    host.add(std::move(made));
    FakeRows rows;
    CHECK(rows.call(host.op()) == OPDOCK_ALL_DROPPED);
    FakeKind fake;
    host.module("fake-devices", [&](opdock_registry *registry) { return fake.provide(registry); });
    CHECK(rows.added(host.op()) == 1);
    host.close();
}

TEST_CASE("the provider's properties are asked once per device, in a struct that says its size") {
    HostWithFake t;
    t.add("default.one", 1);
    FakeRows on_0(0), on_1(1);
    for (int i = 0; i < 3; ++i) {
        on_0.call(t.host.op());
        on_1.call(t.host.op());
    }
    CHECK(t.fake.count("properties 0") == 1);
    CHECK(t.fake.count("properties 1") == 1);
    const uint32_t size = OPDOCK_STRUCT_SIZE(opdock_device_properties, cache);
    CHECK(t.fake.property_sizes == std::vector<uint32_t>{size, size});
}

TEST_CASE("what providers answered is asked again with availability, and decided anew where one says otherwise") {
    FakeKind one, other;
    other.device = "fake2";
    other.stream_type = "OtherStream";
    other.type = kDLOpenCL;
    MadeHost host;
    host.module("one", [&](opdock_registry *registry) { return one.provide(registry); });
    host.module("other", [&](opdock_registry *registry) { return other.provide(registry); });
    const auto is_decided_anew = [&] {
        const uint64_t before = host->generation();
        host->refresh_availability();
        return host->generation() != before;
    };
    for (const FakeKind *kind : {&one, &other}) {
        CHECK(host->devices().missing({static_cast<DLDeviceType>(kind->type), 0}).empty());
    }
    CHECK_FALSE(is_decided_anew());
    for (FakeKind *kind : {&one, &other}) {
        kind->counted = 1;
        CHECK(is_decided_anew());
        CHECK_FALSE(is_decided_anew());
        kind->counted.reset();
        CHECK(is_decided_anew());
    }
    for (const FakeKind *kind : {&one, &other}) {
        for (const int32_t index : {0, 1}) {
            CHECK_FALSE(host->devices().architecture({static_cast<DLDeviceType>(kind->type), index}).empty());
        }
    }
    CHECK_FALSE(is_decided_anew());
    for (FakeKind *kind : {&one, &other}) {
        for (std::string &architecture : kind->architectures) {
            architecture += "0";
            CHECK(is_decided_anew());
            CHECK_FALSE(is_decided_anew());
        }
    }
}

TEST_CASE("a provider whose header knows more properties writes nothing behind those of an older host") {
    FakeKind fake;
    fake.cache = 4096;
    const opdock_device_provider table = fake.table();
    // The struct of a host that did not know the fields from `shared_memory` on; for the provider they were appended.
    constexpr uint32_t known = OPDOCK_STRUCT_SIZE(opdock_device_properties, warp_size);
    static_assert(known < sizeof(opdock_device_properties));
    alignas(opdock_device_properties) std::array<std::byte, sizeof(opdock_device_properties)> memory = {};
    std::fill(memory.begin() + known, memory.end(), std::byte{0xab});
    auto &properties = *reinterpret_cast<opdock_device_properties *>(memory.data());
    properties.struct_size = known;
    CHECK(table.properties(nullptr, table.user_data, 1, &properties) == OPDOCK_OK);
    CHECK(std::string(properties.architecture) == "fk_20");
    CHECK(properties.struct_size == known);
    CHECK(std::all_of(memory.begin() + known, memory.end(), [](std::byte byte) { return byte == std::byte{0xab}; }));
}

TEST_CASE("what a provider says of its device is one line that steers no terminal") {
    HostWithFake t;
    t.fake.model = "Nova\nplugin-ls: fine\x1b[2J";
    t.add("default.one", 1);
    std::string name;
    for (const nlohmann::json &device : t.host->describe_devices()) {
        name = device.value("type", "") == "fake" ? device.value("name", "") : name;
    }
    CHECK(name == "Nova\\x0aplugin-ls: fine\\x1b[2J");
}

TEST_CASE("a host can be described though nobody provides the device of an implementation") {
    MadeHost host;
    auto made = std::make_unique<Made>("default.one", OPDOCK_KIND_DEFAULT);
    made->device = "toaster";
    host.add(std::move(made));
    host.add("default.cpu", OPDOCK_KIND_DEFAULT);
    const nlohmann::json described = host->describe();
    const nlohmann::json &op = described["ops"][0];
    CHECK(op["implementations"].size() == 2);
    CHECK(op["implementations"][1]["device"] == "toaster");
    REQUIRE(op["chains"].size() == 1);
    CHECK(op["chains"][0]["device"] == "cpu");
}

TEST_CASE("an implementation is described as available where one of the devices that were asked says so") {
    static std::atomic<int32_t> good{0};
    for (const int32_t index : {0, 1}) {
        CAPTURE(index);
        good = index;
        HostWithFake t;
        t.add("default.one", 1, [](opdock_impl &impl) {
            impl.available = [](const opdock_host_api *host, void *, DLDevice device) {
                return device.device_id == good ? OPDOCK_OK : host->fail(host, OPDOCK_UNSUPPORTED, "no such unit");
            };
        });
        const auto described = [&] { return t.host->describe()["ops"][0]["implementations"][0]; };
        CHECK(described()["available"] == "unknown");
        FakeRows without(1 - index), with(index);
        CHECK(without.call(t.host.op()) == OPDOCK_ALL_DROPPED);
        CHECK(described()["available"] == "no");
        CHECK(with.call(t.host.op()) == OPDOCK_OK);
        CHECK(described()["available"] == "yes");
    }
}

TEST_CASE("describing asks a provider nothing, and lists what may run on a device that nobody has met") {
    HostWithFake t;
    t.add("default.old", 1, [](opdock_impl &impl) { impl.architectures = "fk_10"; });
    t.add("default.new", 2, [](opdock_impl &impl) { impl.architectures = "fk_20"; });
    const auto chain = [&] { return t.host->describe()["ops"][0]["chains"][0]["chain"]; };
    CHECK(chain() == nlohmann::json::parse(R"(["default.old", "default.new"])"));
    CHECK(t.fake.events.empty());
    FakeRows rows(0);
    rows.call(t.host.op());
    CHECK(chain() == nlohmann::json::parse(R"(["default.old"])"));
}

// --- workspaces
// -------------------------------------------------------------------------------------------------------

TEST_CASE("a workspace comes from the device's provider and goes back right after the kernel, on the same stream") {
    HostWithFake t;
    void *given = nullptr;
    uint64_t size = 0;
    Made &one = t.add("default.one", 1, ask_for_1000_bytes);
    one.work = [&](const opdock_problem &, const opdock_call &call) {
        given = call.workspace;
        size = call.workspace_size;
        t.fake.events.emplace_back("kernel");
        CHECK(t.fake.outstanding == std::vector<const void *>{call.workspace});
        return one.status.load();
    };
    for (const opdock_status status : {OPDOCK_OK, OPDOCK_FAILED_CLEAN}) {
        one.status = status;
        t.fake.events.clear();
        t.fake.streams.clear();
        FakeRows rows(1);
        CHECK((rows.call(t.host.op(), &a_stream) == OPDOCK_OK) == (status == OPDOCK_OK));
        CHECK(given != nullptr);
        CHECK(reinterpret_cast<uintptr_t>(given) % 256 == 0);
        CHECK(size >= 1000);
        CHECK(t.fake.outstanding.empty());
        CHECK(t.fake.streams == std::vector<const void *>{&a_stream, &a_stream});
        const auto allocate = std::find(t.fake.events.begin(), t.fake.events.end(), "allocate 1");
        REQUIRE(t.fake.events.end() - allocate >= 3);
        CHECK(allocate[1] == "kernel");
        CHECK(allocate[2] == "free 1");
    }
}

TEST_CASE("the program's allocator is preferred to the provider's") {
    ProgramMemory memory;
    HostWithFake t({}, memory.allocator());
    void *given = nullptr;
    t.add("default.one", 1, ask_for_1000_bytes).work = [&](const opdock_problem &, const opdock_call &call) {
        given = call.workspace;
        CHECK(memory.freed.empty());
        return OPDOCK_OK;
    };
    FakeRows rows(1);
    CHECK(rows.call(t.host.op(), &a_stream) == OPDOCK_OK);
    CHECK(given == memory.memory.data());
    const std::vector<std::pair<int32_t, void *>> once = {{1, &a_stream}};
    CHECK(memory.allocated == once);
    CHECK(memory.freed == once);
    CHECK(t.fake.count("allocate 1") == 0);
    CHECK(t.fake.count("free 1") == 0);
}

TEST_CASE("the caller's workspace is used when it is large enough and aligned, and refused otherwise") {
    HostWithFake t;
    void *given = nullptr;
    Made &one = t.add("default.one", 1, ask_for_1000_bytes);
    one.work = [&](const opdock_problem &, const opdock_call &call) {
        given = call.workspace;
        return OPDOCK_OK;
    };
    alignas(256) static std::array<char, 2048> memory;
    FakeRows rows;
    CHECK(rows.call_with(t.host.op(), memory.data(), 1000) == OPDOCK_OK);
    CHECK(given == memory.data());
    CHECK(rows.call_with(t.host.op(), memory.data() + 256, 1500) == OPDOCK_OK);
    CHECK(given == memory.data() + 256);

    CHECK(rows.call_with(t.host.op(), memory.data(), 999) == OPDOCK_INVALID_ARGUMENT);
    CHECK(contains(last_error(), "999 bytes"));
    CHECK(contains(last_error(), "'default.one' needs 1000"));
    CHECK(rows.call_with(t.host.op(), memory.data() + 128, 1500) == OPDOCK_INVALID_ARGUMENT);
    CHECK(contains(last_error(), "aligned to 256"));
    CHECK(one.calls == 2);
    CHECK(t.fake.count("allocate 0") == 0);
}

TEST_CASE("a kernel that asks for no workspace gets none, also when the caller brings one") {
    HostWithFake t;
    bool none = false;
    t.add("default.one", 1).work = [&](const opdock_problem &, const opdock_call &call) {
        none = call.workspace == nullptr && call.workspace_size == 0;
        return OPDOCK_OK;
    };
    alignas(256) static std::array<char, 256> memory;
    FakeRows rows;
    CHECK(rows.call_with(t.host.op(), memory.data(), memory.size()) == OPDOCK_OK);
    CHECK(none);
    CHECK(t.fake.count("allocate 0") == 0);
}

TEST_CASE("memory that the provider does not have ends the call with its reason and counts against nobody") {
    HostWithFake t;
    Made &one = t.add("default.one", 1, ask_for_1000_bytes);
    Made &two = t.add("reference.two", 2, nullptr, OPDOCK_KIND_REFERENCE);
    t.fake.allocate_status = OPDOCK_OUT_OF_MEMORY;
    FakeRows rows;
    for (int i = 0; i < 4; ++i) {
        CHECK(rows.call(t.host.op()) == OPDOCK_OUT_OF_MEMORY);
        CHECK(contains(last_error(), "1000 bytes"));
        CHECK(contains(last_error(), "the fake has no memory to give"));
    }
    CHECK(one.calls == 0);
    CHECK(two.calls == 0);
    t.fake.allocate_status = OPDOCK_OK;
    CHECK(rows.added(t.host.op()) == 1);
}

// --- registering a provider
// ---------------------------------------------------------------------------------------------

TEST_CASE("of two providers for one device type the first found serves") {
    HostWithFake t;
    FakeKind second;
    t.host.module("other-devices", [&](opdock_registry *registry) { return second.provide(registry); });
    t.add("default.one", 1);
    FakeRows rows;
    CHECK(rows.added(t.host.op()) == 1);
    CHECK(t.fake.count("make_current 0") >= 1);
    CHECK(second.events.empty());
}

TEST_CASE("a provider that contradicts another module's is rejected, and both are named") {
    HostWithFake t;
    FakeKind second;
    SUBCASE("the same DLDeviceType under another name") {
        second.device = "real";
    }
    SUBCASE("the same name with another DLDeviceType") {
        second.type = kDLVPI;
    }
    SUBCASE("the same name with a vendor's own DLDeviceType") {
        second.type = 1000;
    }
    SUBCASE("the same name with another type of stream") {
        second.stream_type = "OtherStream";
    }
    const std::string why = message_of(
        [&] { t.host.module("other-devices", [&](opdock_registry *registry) { return second.provide(registry); }); });
    CHECK(contains(why, "OPDOCK-E033"));
    CHECK(contains(why, "'other-devices'"));
    CHECK(contains(why, "'fake-devices'"));
    // The advice to take another number applies only to devices without one of their own.
    CHECK(contains(why, "takes a number from 1000 on") == (second.type == kDLExtDev));
    t.add("default.one", 1);
    FakeRows rows;
    CHECK(rows.added(t.host.op()) == 1);
}

TEST_CASE("a plugin that provides one device type or type twice is rejected") {
    FakeKind one, two;
    SUBCASE("the same") {}
    SUBCASE("the same name with another DLDeviceType") {
        two.type = kDLVPI;
    }
    SUBCASE("the same DLDeviceType under another name") {
        two.device = "other";
    }
    MadeHost host;
    const std::string why = message_of([&] {
        host.module("twice", [&](opdock_registry *registry) {
            one.provide(registry);
            CHECK(two.provide(registry) == OPDOCK_INVALID_ARGUMENT);
            return OPDOCK_OK;
        });
    });
    CHECK(contains(why, "OPDOCK-E032"));
}

TEST_CASE("a provider has all functions of the table") {
    using Remove = void (*)(opdock_device_provider &);
    const Remove removals[] = {
        [](opdock_device_provider &table) { table.count = nullptr; },
        [](opdock_device_provider &table) { table.properties = nullptr; },
        [](opdock_device_provider &table) { table.get_current = nullptr; },
        [](opdock_device_provider &table) { table.make_current = nullptr; },
        [](opdock_device_provider &table) { table.allocate = nullptr; },
        [](opdock_device_provider &table) { table.free = nullptr; },
        [](opdock_device_provider &table) { table.copy = nullptr; },
        [](opdock_device_provider &table) { table.stream_create = nullptr; },
        [](opdock_device_provider &table) { table.stream_destroy = nullptr; },
        [](opdock_device_provider &table) { table.stream_synchronize = nullptr; },
        [](opdock_device_provider &table) { table.stream_is_capturing = nullptr; },
        [](opdock_device_provider &table) { table.event_create = nullptr; },
        [](opdock_device_provider &table) { table.event_destroy = nullptr; },
        [](opdock_device_provider &table) { table.event_record = nullptr; },
        [](opdock_device_provider &table) { table.event_elapsed = nullptr; },
    };
    for (size_t i = 0; i < std::size(removals); ++i) {
        CAPTURE(i);
        FakeKind fake;
        MadeHost host;
        const std::string why = message_of([&] {
            host.module("incomplete", [&](opdock_registry *registry) {
                opdock_device_provider table = fake.table();
                removals[i](table);
                return registry->register_device_provider(registry, &table);
            });
        });
        CHECK(contains(why, "OPDOCK-E039"));
        CHECK(contains(why, "device 'fake': a function is null"));
        host.add("default.one", OPDOCK_KIND_DEFAULT);
        CHECK_THROWS_AS(host->explain("test.add", "fake", nullptr, nullptr), core::Error);
    }
}

TEST_CASE("a provider's table states its size, a device type and a name, and requires nothing unknown") {
    struct Fault {
        const char *code;
        void (*make)(opdock_device_provider &);
    };
    const Fault faults[] = {
        {"OPDOCK-E039",
         [](opdock_device_provider &table) {
             table.struct_size = OPDOCK_STRUCT_SIZE(opdock_device_provider, event_record);
         }},
        {"OPDOCK-E039", [](opdock_device_provider &table) { table.dl_device_type = 0; }},
        {"OPDOCK-E039", [](opdock_device_provider &table) { table.dl_device_type = -3; }},
        {"OPDOCK-E035", [](opdock_device_provider &table) { table.device = nullptr; }},
        {"OPDOCK-E035", [](opdock_device_provider &table) { table.device = ""; }},
        {"OPDOCK-E035", [](opdock_device_provider &table) { table.device = "fake:1"; }},
        {"OPDOCK-E040", [](opdock_device_provider &table) { table.required_flags = 1u << 20; }},
    };
    for (const Fault &fault : faults) {
        CAPTURE(&fault - faults);
        FakeKind fake;
        MadeHost host;
        const std::string why = message_of([&] {
            host.module("faulty", [&](opdock_registry *registry) {
                opdock_device_provider table = fake.table();
                fault.make(table);
                return registry->register_device_provider(registry, &table);
            });
        });
        CHECK(contains(why, fault.code));
    }
}

TEST_CASE("flags of a provider that this host does not know are ignored") {
    FakeKind fake;
    fake.flags = ~0u;
    MadeHost host;
    host.module("flags", [&](opdock_registry *registry) { return fake.provide(registry); });
    host.close();
}

TEST_CASE("a device type is the same in any case") {
    HostWithFake t;
    Made &one = t.add("default.one", 1, [](opdock_impl &impl) {
        impl.device = "FAKE";
        impl.available = [](const opdock_host_api *host, void *, DLDevice) {
            return host->fail(host, OPDOCK_UNSUPPORTED, "not today");
        };
    });
    t.add("reference.two", 2, nullptr, OPDOCK_KIND_REFERENCE);
    FakeRows rows;
    CHECK(rows.added(t.host.op()) == 2);
    CHECK(one.calls == 0);
    const nlohmann::json why = t.host->explain("test.add", "Fake:1", nullptr, nullptr);
    CHECK(why["dropped"][0]["reason"] == "not today");
    const nlohmann::json described = t.host->describe();
    CHECK(described["ops"][0]["chains"].size() == 1);
}
