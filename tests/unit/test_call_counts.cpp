#include "dispatch/call_counts.hpp"

#include <barrier>
#include <set>
#include <thread>

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fake_device.hpp"

using namespace opdock;
using namespace opdock::test;
using core::Count;
using core::CountedImplementation;
using opdock::cpu;

namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr uint64_t many = 200'000;
#else
constexpr uint64_t many = 10'000'000;
#endif

// Counts of the op's implementation with this id; all 0 if it was never a candidate.
CountedImplementation counted(MadeHost &host, const std::string &impl_id, const std::string &op = "test.add") {
    for (const CountedImplementation &one : host->counters()) {
        if (one.op == op && one.impl_id == impl_id) {
            return one;
        }
    }
    return {};
}

// A host with an implementation whose kernel does nothing, not even count its calls.
struct QuickHost {
    QuickHost() {
        host.module("quick", [](opdock_registry *registry) {
            declare(registry, test_ops[0]);
            opdock_impl impl = {};
            impl.struct_size = OPDOCK_STRUCT_SIZE(opdock_impl, workspace_size);
            impl.kind = OPDOCK_KIND_DEFAULT;
            impl.op = "test.add";
            impl.impl_id = "default.quick";
            impl.device = "cpu";
            impl.kernel = [](const opdock_problem *, const opdock_call *) -> opdock_status { return OPDOCK_OK; };
            return registry->register_impl(registry, &impl);
        });
    }

    MadeHost host;
};

template<class Work>
void on_two_threads(Work work) {
    std::barrier begin(2);
    const auto run = [&] {
        begin.arrive_and_wait();
        work();
    };
    std::thread other(run);
    run();
    other.join();
}

} // namespace

TEST_CASE("calls on two threads are counted exactly, also those of a thread that has ended") {
    QuickHost quick;
    const Op op = quick.host.op();
    on_two_threads([&] {
        Rows rows;
        const std::array<TensorArg, 1> in = {rows.x}, out = {rows.y};
        const Args args(in, out);
        for (uint64_t i = 0; i < many; ++i) {
            (void)op.try_call(args);
        }
    });
    CHECK(counted(quick.host, "default.quick").of(Count::served) == 2 * many);
    CHECK(quick.host->served_count("test.add", "default.quick") == 2 * many);
}

TEST_CASE("runs of one prepared call on two threads are counted exactly") {
    QuickHost quick;
    Rows prepared_for;
    const Prepared call = quick.host.op().prepare({prepared_for.x}, {prepared_for.y});
    on_two_threads([&] {
        Rows rows;
        const std::array<void *, 2> data = {rows.in.data(), rows.out.data()};
        for (uint64_t i = 0; i < many; ++i) {
            (void)call.run(data);
        }
    });
    CHECK(counted(quick.host, "default.quick").of(Count::served) == 2 * many);
}

TEST_CASE("threads that come and go, calling and preparing, are counted exactly") {
    QuickHost quick;
    const Op op = quick.host.op();
    Rows prepared_for;
    const Prepared call = op.prepare({prepared_for.x}, {prepared_for.y});
    constexpr int rounds = 50;
    for (int round = 0; round < rounds; ++round) {
        std::vector<std::thread> threads;
        for (int i = 0; i < 3; ++i) {
            threads.emplace_back([&] {
                Rows rows;
                const std::array<void *, 2> data = {rows.in.data(), rows.out.data()};
                for (int n = 0; n < 20; ++n) {
                    (void)rows.call(op);
                    (void)call.run(data); // for some threads the first call is the first that the host sees of them
                }
            });
        }
        for (std::thread &thread : threads) {
            thread.join();
        }
    }
    CHECK(counted(quick.host, "default.quick").of(Count::served) == uint64_t{rounds} * 3 * 20 * 2);
}

TEST_CASE("each thread's counts are a cache line of their own") {
    const core::Implementation implementation;
    core::CallCounts counts(implementation, nullptr);
    std::set<core::CountRow *> rows;
    for (uint32_t thread = 0; thread < 1000; ++thread) {
        core::CountRow &row = counts.row(thread);
        CHECK(&counts.row(thread) == &row);
        CHECK((&row == counts.first_rows() + thread) == (thread < core::CallCounts::n_first));
        CHECK(reinterpret_cast<uintptr_t>(&row) % 64 == 0);
        CHECK(rows.insert(&row).second);
        row.add(Count::failed);
    }
    counts.add_without_row(Count::failed);
    CHECK(counts.sums().at(static_cast<size_t>(Count::failed)) == 1001);
    counts.start_over_in_child();
    CHECK(counts.sums() == std::array<uint64_t, core::n_counts>{});
}

TEST_CASE("what declines and fails is counted, and whom another one served in place of") {
    MadeHost host;
    Made &one = host.add("default.one", OPDOCK_KIND_DEFAULT, {}, 1);
    host.add("vendor.acme", OPDOCK_KIND_VENDOR, "acme", 2);
    Rows rows;
    const auto call = [&](opdock_status status) {
        one.status = status;
        CHECK(rows.call(host.op()) == OPDOCK_OK);
    };
    call(OPDOCK_OK);
    call(OPDOCK_UNSUPPORTED);
    call(OPDOCK_UNSUPPORTED);
    call(OPDOCK_FAILED_CLEAN);
    call(OPDOCK_OK);
    const CountedImplementation first = counted(host, "default.one");
    CHECK(first.counts == std::array<uint64_t, core::n_counts>{2, 2, 1, 0, 0, 0, 0, 0});
    CHECK(first.plugin == "module-1");
    CHECK(first.vendor.empty());
    const CountedImplementation second = counted(host, "vendor.acme");
    CHECK(second.counts == std::array<uint64_t, core::n_counts>{3, 0, 0, 2, 1, 0, 0, 0});
    CHECK(second.vendor == "acme");

    host->set_program_policy(host.policy("strict", "1"));
    one.status = OPDOCK_FAILED;
    CHECK(rows.call(host.op()) == OPDOCK_FAILED);
    CHECK(counted(host, "default.one").of(Count::failed) == 2);
    CHECK(counted(host, "vendor.acme").of(Count::served) == 3);
}

TEST_CASE("an implementation whose kernel calls its own op counts as running there") {
    MadeHost host;
    auto made = std::make_unique<Made>("default.one", OPDOCK_KIND_DEFAULT);
    made->work = [](const opdock_problem &problem, const opdock_call &call) {
        Rows rows;
        const std::array<TensorArg, 1> in = {rows.x}, out = {rows.y};
        return problem.host->call_op(&problem, "test.add", &Args(in, out, {}, call.stream).c());
    };
    host.add(std::move(made));
    host.add("vendor.acme", OPDOCK_KIND_VENDOR, "acme", 2);
    Rows rows;
    CHECK(rows.call(host.op()) == OPDOCK_OK);
    CHECK(counted(host, "default.one").counts == std::array<uint64_t, core::n_counts>{1, 0, 0, 0, 0, 0, 0, 0});
    CHECK(counted(host, "vendor.acme").counts == std::array<uint64_t, core::n_counts>{1, 0, 0, 0, 0, 1, 0, 0});
}

TEST_CASE("calls of a device that the CPU serves say whether anything there was tried") {
    FakeKind kind;
    MadeHost host(core::RawEnvironment{{"PLUGIN_FALLBACK_TO_CPU", "1"}});
    host.module("provider", [&](opdock_registry *registry) { return kind.provide(registry); });
    host.add("default.cpu", OPDOCK_KIND_DEFAULT, {}, 1);
    FakeRows rows;
    CHECK(rows.added(host.op()) == 1);
    CHECK(counted(host, "default.cpu").counts == std::array<uint64_t, core::n_counts>{1, 0, 0, 0, 0, 0, 1, 0});
    auto there = std::make_unique<Made>("vendor.fake", OPDOCK_KIND_VENDOR, "fake");
    there->device = "fake";
    there->status = OPDOCK_UNSUPPORTED;
    host.add(std::move(there));
    CHECK(rows.added(host.op()) == 1);
    CHECK(counted(host, "default.cpu").counts == std::array<uint64_t, core::n_counts>{2, 0, 0, 0, 0, 0, 1, 1});
    CHECK(counted(host, "vendor.fake").of(Count::declined) == 1);
}

TEST_CASE("runs of a prepared call count by their status, and what declines while it is prepared once") {
    MadeHost host;
    auto picky = std::make_unique<Made>("default.picky", OPDOCK_KIND_DEFAULT);
    picky->required_flags = OPDOCK_IMPL_NEEDS_CONTIGUOUS;
    host.add(std::move(picky));
    Made &any = host.add("reference.any", OPDOCK_KIND_REFERENCE, {}, 3);
    Rows rows;
    std::vector<float> wide(12);
    const Prepared call = host.op().prepare({Tensor(wide.data(), f32, {2, 3}, cpu, {6, 1})}, {rows.y});
    const std::array<void *, 2> data = {wide.data(), rows.out.data()};
    for (const opdock_status status : {OPDOCK_OK, OPDOCK_OK, OPDOCK_UNSUPPORTED, OPDOCK_FAILED}) {
        any.status = status;
        CHECK(call.run(data) == status);
    }
    CHECK(counted(host, "default.picky").counts == std::array<uint64_t, core::n_counts>{0, 1, 0, 0, 0, 0, 0, 0});
    CHECK(counted(host, "reference.any").counts == std::array<uint64_t, core::n_counts>{2, 1, 1, 0, 0, 0, 0, 0});
}

TEST_CASE("a module that comes back goes on counting") {
    MadeHost host;
    host.add("default.one", OPDOCK_KIND_DEFAULT, {}, 1);
    Made temporary("vendor.jit", OPDOCK_KIND_VENDOR, "jit", 5);
    temporary.priority = 1;
    host->set_program_policy(host.policy("prefer", "vendor"));
    Rows rows;
    for (int round = 0; round < 2; ++round) {
        next_entry = [&](opdock_registry *registry) {
            declare(registry, test_ops[0]);
            register_made(registry, temporary);
            return OPDOCK_OK;
        };
        host->register_module("jit", "jit", run_next_entry, nullptr, true);
        CHECK(rows.added(host.op()) == 5);
        host->unregister_module("jit");
        CHECK(rows.added(host.op()) == 1);
    }
    CHECK(counted(host, "vendor.jit").of(Count::served) == 2);
    CHECK(counted(host, "default.one").of(Count::served) == 2);
}

TEST_CASE("a forked child counts its own calls, those of calls that its parent prepared too") {
    MadeHost host;
    host.add("default.one", OPDOCK_KIND_DEFAULT, {}, 1);
    Rows rows;
    const Prepared call = host.op().prepare({rows.x}, {rows.y});
    const std::array<void *, 2> data = {rows.in.data(), rows.out.data()};
    CHECK(call.run(data) == OPDOCK_OK);
    CHECK(rows.call(host.op()) == OPDOCK_OK);
    const pid_t child = fork();
    if (child == 0) {
        alarm(60); // a child that hangs is killed, and the test fails
        bool well = counted(host, "default.one").of(Count::served) == 0;
        well = well && call.run(data) == OPDOCK_OK && rows.call(host.op()) == OPDOCK_OK;
        std::thread([&] { well = well && call.run(data) == OPDOCK_OK; }).join();
        well = well && counted(host, "default.one").of(Count::served) == 3;
        _exit(well ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    CHECK(status == 0);
    CHECK(counted(host, "default.one").of(Count::served) == 2);
}
