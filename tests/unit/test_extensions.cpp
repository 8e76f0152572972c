// Extensions that a host offers to plugins beside its table, and those that implementations offer to programs.
#include <stdexcept>

#include <doctest/doctest.h>

#include "fake_device.hpp"
#include "load/plugin_call.hpp"
#include "made_host.hpp"
#include "paths.hpp"
#include "thrown_error.hpp"

using namespace opdock;
using namespace opdock::test;

namespace {

int told = 0; // number of calls of `tell`

void tell(void *argument) {
    CHECK(argument == &told);
    ++told;
}

// Runs `work` once in place of an implementation's kernel.
void in_kernel(MadeHost &host, const std::function<void(const opdock_problem &)> &work) {
    Made &made = host.add("default.asks", OPDOCK_KIND_DEFAULT);
    made.work = [&](const opdock_problem &problem, const opdock_call &) {
        work(problem);
        return OPDOCK_OK;
    };
    Rows rows;
    REQUIRE(rows.call(host.op()) == OPDOCK_OK);
}

std::string said() {
    return core::take_message(OPDOCK_OK);
}

} // namespace

TEST_CASE("a plugin gets memory of a device from its provider, in stream order") {
    HostWithFake machine;
    int stream = 0;
    in_kernel(machine.host, [&](const opdock_problem &problem) {
        const opdock_host_api *host = problem.host;
        const opdock_allocator *allocator = opdock_allocator_of(host);
        REQUIRE(allocator != nullptr);
        void *memory = nullptr;
        CHECK(allocator->allocate(host, fake_device(1), &stream, 1000, &memory) == OPDOCK_OK);
        CHECK(said() == "");
        CHECK(machine.fake.outstanding == std::vector<const void *>{memory});
        CHECK(machine.fake.allocated == std::vector<uint64_t>{1000});
        CHECK(machine.fake.streams.back() == &stream);
        CHECK(allocator->free(host, fake_device(1), &stream, memory) == OPDOCK_OK);
        CHECK(machine.fake.outstanding.empty());
        memory = &stream;
        CHECK(allocator->allocate(host, fake_device(1), &stream, 0, &memory) == OPDOCK_OK);
        CHECK(memory == nullptr);
        CHECK(allocator->free(host, fake_device(1), &stream, nullptr) == OPDOCK_OK);
        CHECK(machine.fake.allocated.size() == 1);
    });
}

TEST_CASE("where there is no memory for a plugin it hears why") {
    HostWithFake machine;
    in_kernel(machine.host, [&](const opdock_problem &problem) {
        const opdock_host_api *host = problem.host;
        const opdock_allocator *allocator = opdock_allocator_of(host);
        void *memory = &machine;
        machine.fake.allocate_status = OPDOCK_OUT_OF_MEMORY;
        CHECK(allocator->allocate(host, fake_device(0), nullptr, 8, &memory) == OPDOCK_OUT_OF_MEMORY);
        CHECK(memory == nullptr);
        CHECK(said() == "allocating on fake:0 failed: the fake has no memory to give");
        CHECK(allocator->allocate(host, {kDLVulkan, 0}, nullptr, 8, &memory) == OPDOCK_UNSUPPORTED);
        CHECK(said() == "no plugin provides vulkan:0");
        machine.fake.captured = &memory;
        CHECK(allocator->allocate(host, fake_device(0), &memory, 8, &memory) == OPDOCK_INVALID_ARGUMENT);
        CHECK(contains(said(), "memory cannot be allocated on a stream that is being captured"));
    });
}

TEST_CASE("a plugin gets memory from the program's allocator where there is one") {
    static std::vector<uint64_t> given;
    static bool is_empty;
    given.clear();
    is_empty = false;
    static float memory[4];
    core::WorkspaceAllocator program;
    program.user_data = &given;
    program.allocate = [](void *, DLDevice, void *, uint64_t bytes) -> void * {
        given.push_back(bytes);
        return is_empty ? nullptr : memory;
    };
    program.free = [](void *user_data, DLDevice, void *, void *freed) {
        CHECK(user_data == &given);
        CHECK(freed == memory);
        given.push_back(0);
    };
    MadeHost host({}, "/nonexistent", {}, program);
    in_kernel(host, [&](const opdock_problem &problem) {
        const opdock_allocator *allocator = opdock_allocator_of(problem.host);
        void *got = nullptr;
        CHECK(allocator->allocate(problem.host, problem.device, nullptr, 16, &got) == OPDOCK_OK);
        CHECK(got == memory);
        CHECK(allocator->free(problem.host, problem.device, nullptr, got) == OPDOCK_OK);
        CHECK(allocator->free(problem.host, problem.device, nullptr, nullptr) == OPDOCK_OK);
        CHECK(given == std::vector<uint64_t>{16, 0});
        is_empty = true;
        CHECK(allocator->allocate(problem.host, problem.device, nullptr, 16, &got) == OPDOCK_OUT_OF_MEMORY);
        CHECK(got == nullptr);
        CHECK(said() == "the program's allocator gave no memory");
    });
}

TEST_CASE("memory that a plan keeps can be freed when the host closes, and not after") {
    HostWithFake machine;
    static const opdock_host_api *api;
    auto planner = std::make_unique<Made>("default.keeps", OPDOCK_KIND_DEFAULT);
    planner->adjust = [](opdock_impl &impl) {
        impl.plan_create = [](const opdock_problem *problem, void **plan) {
            api = problem->host;
            return opdock_allocator_of(api)->allocate(api, fake_device(0), nullptr, 64, plan);
        };
        impl.plan_destroy = [](const opdock_host_api *of, void *, DLDevice, void *plan) {
            CHECK(of->device_properties(of, fake_device(1)) != nullptr); // not queried before
            CHECK(opdock_allocator_of(of)->free(of, fake_device(0), nullptr, plan) == OPDOCK_OK);
        };
    };
    machine.host.add(std::move(planner));
    Rows rows;
    CHECK(rows.call(machine.host.op()) == OPDOCK_OK);
    CHECK(machine.fake.outstanding.size() == 1);
    machine.host.close();
    CHECK(machine.fake.outstanding.empty());
    void *memory = nullptr;
    CHECK(opdock_allocator_of(api)->allocate(api, fake_device(0), nullptr, 64, &memory) == OPDOCK_FAILED);
}

TEST_CASE("a plugin is told when queued work has run: on the CPU at once, elsewhere by the provider") {
    HostWithFake machine;
    told = 0;
    int stream = 0;
    in_kernel(machine.host, [&](const opdock_problem &problem) {
        const opdock_host_api *host = problem.host;
        const opdock_completion *completion = opdock_completion_of(host);
        REQUIRE(completion != nullptr);
        CHECK(completion->notify(host, {kDLCPU, 0}, nullptr, tell, &told) == OPDOCK_OK);
        CHECK(told == 1);
        CHECK(completion->notify(host, fake_device(1), &stream, tell, &told) == OPDOCK_OK);
        CHECK(told == 1);
        CHECK(machine.fake.streams.back() == &stream);
        machine.fake.done();
        CHECK(told == 2);
        CHECK(completion->notify(host, {kDLVulkan, 0}, nullptr, tell, &told) == OPDOCK_UNSUPPORTED);
        CHECK(said() == "no plugin provides vulkan:0");
    });
}

TEST_CASE("a provider of before stream_callback tells nobody when work has run") {
    FakeKind old;
    MadeHost host;
    host.module("devices", [&](opdock_registry *registry) {
        opdock_device_provider table = old.table();
        table.struct_size = OPDOCK_STRUCT_SIZE(opdock_device_provider, event_elapsed);
        return registry->register_device_provider(registry, &table);
    });
    told = 0;
    in_kernel(host, [&](const opdock_problem &problem) {
        CHECK(opdock_completion_of(problem.host)->notify(problem.host, fake_device(0), nullptr, tell, &told) ==
              OPDOCK_UNSUPPORTED);
        CHECK(said() == "the provider of fake:0 has no stream_callback");
    });
    CHECK(told == 0);
}

TEST_CASE("a program finds the extensions that an implementation offers") {
    static const int counters = 7;
    MadeHost host;
    auto made = std::make_unique<Made>("vendor.acme", OPDOCK_KIND_VENDOR, "testvendor");
    made->adjust = [](opdock_impl &impl) {
        impl.struct_size = OPDOCK_STRUCT_SIZE(opdock_impl, get_extension);
        impl.get_extension = [](const opdock_host_api *, void *user_data, const char *name) -> const void * {
            ++static_cast<Made *>(user_data)->calls;
            if (std::string_view(name) == "acme.throws") {
                throw std::runtime_error("not today");
            }
            return std::string_view(name) == "acme.counters" ? &counters : nullptr;
        };
    };
    Made &acme = host.add(std::move(made));
    host.add("default.none", OPDOCK_KIND_DEFAULT);
    CHECK(host->find_extension("test.add", "Vendor.ACME", "acme.counters") == &counters);
    CHECK(host->find_extension("test.add", "vendor.acme", "acme.other") == nullptr);
    CHECK(host->find_extension("test.add", "default.none", "acme.counters") == nullptr);
    CHECK(message_of([&] { (void)host->find_extension("test.add", "vendor.acme", "acme.throws"); }) ==
          "an extension of 'vendor.acme' for op 'test.add': get_extension: it threw: not today");
    CHECK(thrown_by([&] { (void)host->find_extension("test.ad", "vendor.acme", ""); }).status() == OPDOCK_UNKNOWN_OP);
    CHECK(thrown_by([&] { (void)host->find_extension("test.add", "vendor.acne", ""); }).status() ==
          OPDOCK_INVALID_ARGUMENT);
    const int asked = acme.calls;
    host->set_program_policy(host.policy("deny_vendors", "testvendor"));
    CHECK(thrown_by([&] { (void)host->find_extension("test.add", "vendor.acme", "acme.counters"); }).status() ==
          OPDOCK_UNSUPPORTED);
    CHECK(acme.calls == asked);
}

TEST_CASE("an extension of a plugin that is not open yet is found") {
    MadeHost host({}, "/nonexistent", {(fixtures_folder() / "libgood.so").string()});
    const void *bias = host->find_extension("fixture.add", "vendor.acme", "acme.bias");
    REQUIRE(bias != nullptr);
    CHECK(*static_cast<const int *>(bias) == 100);
}
