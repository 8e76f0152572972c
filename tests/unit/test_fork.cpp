// Real forks. A child reports by its exit status; the test runner's time limit bounds the parent's wait.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <semaphore>
#include <thread>
#include <utility>

#include <doctest/doctest.h>

#include "made_host.hpp"
#include "probe/scan_cache.hpp"
#include "temporary_directory.hpp"

using namespace opdock;
using namespace opdock::test;

namespace {

// The exit status of a child that ran `work`, which returns true if all was well.
template<class Work>
int in_child(Work work) {
    const pid_t child = fork();
    if (child == 0) {
        alarm(60); // a child that hangs is killed, and the test fails
        _exit(work() ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    return status;
}

} // namespace

TEST_CASE("a forked child calls, resolves anew and changes policy, and the parent does not notice") {
    MadeHost host;
    host.add("default.one", OPDOCK_KIND_DEFAULT, {}, 1);
    host.add("vendor.acme", OPDOCK_KIND_VENDOR, "acme", 2);
    Rows rows;
    CHECK(rows.added(host.op()) == 1);
    CHECK(in_child([&] {
              if (rows.added(host.op()) != 1) {
                  return false;
              }
              host->set_program_policy(host.policy("prefer", "vendor"));
              return rows.added(host.op()) == 2;
          }) == 0);
    CHECK(rows.added(host.op()) == 1);
}

TEST_CASE("a forked child of a thread inside a scope keeps the scope") {
    MadeHost host;
    host.add("default.one", OPDOCK_KIND_DEFAULT, {}, 1);
    host.add("vendor.acme", OPDOCK_KIND_VENDOR, "acme", 2);
    host->push_scope(host.policy("prefer", "vendor"));
    Rows rows;
    CHECK(rows.added(host.op()) == 2);
    CHECK(in_child([&] { return rows.added(host.op()) == 2; }) == 0);
    host->pop_scope();
}

// AddressSanitizer of GCC 12 does not hold its allocator's locks while forking, so a child can hang in its first `new`
// if another thread was allocating. glibc does hold them.
#ifndef __SANITIZE_ADDRESS__
TEST_CASE("forking while other threads call and change policy never leaves a child hanging") {
    MadeHost host;
    host.add("default.one", OPDOCK_KIND_DEFAULT, {}, 1);
    host.add("vendor.acme", OPDOCK_KIND_VENDOR, "acme", 2);
    std::atomic<bool> done{false};
    std::thread calling([&] {
        Rows rows;
        while (!done) {
            rows.call(host.op());
        }
    });
    std::thread flipping([&] {
        const core::PolicyPtr vendor = host.policy("prefer", "vendor");
        for (int i = 0; !done; ++i) {
            host->set_program_policy(i % 2 == 0 ? vendor : nullptr);
        }
    });
    for (int i = 0; i < 40; ++i) {
        CHECK(in_child([&] {
                  Rows rows;
                  const float added = rows.added(host.op());
                  return added == 1 || added == 2;
              }) == 0);
    }
    done = true;
    calling.join();
    flipping.join();
}

#ifndef __SANITIZE_THREAD__ // a child can find its allocator locked too, if another thread allocates without end
TEST_CASE("a child of a process whose threads use the scan cache can use it too") {
    const TemporaryDirectory directory;
    const core::Log quiet([](void *, std::int32_t, const char *) {}, nullptr);
    const auto keep_one = [&](const std::string &path) {
        core::ScanCache cache(directory.path().string(), quiet);
        core::Scan scan;
        scan.rejection = core::Rejection{core::RejectCode::probe_died, path, "it died"};
        cache.keep(path, scan);
        cache.save();
    };
    std::atomic<bool> done{false};
    std::thread keeping([&] {
        while (!done) {
            keep_one("/parent");
        }
    });
    for (int i = 0; i < 20; ++i) {
        const std::string path = "/child" + std::to_string(i);
        CHECK(in_child([&] {
                  keep_one(path);
                  return core::ScanCache(directory.path().string(), quiet).find_any(path).has_value();
              }) == 0);
    }
    done = true;
    keeping.join();
}
#endif
#endif

TEST_CASE("a forked child asks availability and makes device state anew, and finishes only its own") {
    static std::atomic<int> asked{0}, initialized{0}, finished{0};
    asked = initialized = finished = 0;
    MadeHost host;
    auto made = std::make_unique<Made>("default.one", OPDOCK_KIND_DEFAULT, "", 1.0f);
    made->adjust = [](opdock_impl &impl) {
        impl.available = [](const opdock_host_api *, void *, DLDevice) -> opdock_status {
            ++asked;
            return OPDOCK_OK;
        };
        impl.device_init = [](const opdock_host_api *, void *, DLDevice, void **) -> opdock_status {
            ++initialized;
            return OPDOCK_OK;
        };
        impl.device_fini = [](const opdock_host_api *, void *, DLDevice, void *) { ++finished; };
    };
    host.add(std::move(made));
    Rows rows;
    rows.call(host.op());
    CHECK(in_child([&] {
              rows.call(host.op());
              const bool anew = asked == 2 && initialized == 2;
              host.close();
              return anew && finished == 1;
          }) == 0);
    CHECK(in_child([&] {
              host.close(); // without having made a call
              return finished == 0;
          }) == 0);
    CHECK(asked == 1);
}

TEST_CASE("a forked child does not run the shutdown functions of its parent's plugins") {
    static std::atomic<int> shutdowns{0};
    shutdowns = 0;
    MadeHost host;
    host.module("with-shutdown", [](opdock_registry *registry) {
        return registry->register_shutdown(
            registry, [](void *) { ++shutdowns; }, nullptr);
    });
    CHECK(in_child([&] {
              host.close();
              return shutdowns == 0;
          }) == 0);
    host.close();
    CHECK(shutdowns == 1);
}

TEST_CASE("a child of a fork inside a kernel can take the kernel's module away, and so can the parent") {
    const TemporaryDirectory directory; // of the journal, which records the kernel's first call
    MadeHost host({{"XDG_CACHE_HOME", directory.path().string()}});
    host.add("reference.two", OPDOCK_KIND_REFERENCE, {}, 2);
    pid_t child = -1;
    Made made("default.jit", OPDOCK_KIND_DEFAULT, "", 5.0F);
    made.work = [&](const opdock_problem &, const opdock_call &) -> opdock_status {
        child = fork();
        if (child == 0) {
            alarm(60); // a child that hangs is killed, and the test fails
        }
        return OPDOCK_OK;
    };
    next_entry = [&](opdock_registry *registry) {
        declare(registry, test_ops[0]);
        register_made(registry, made);
        return OPDOCK_OK;
    };
    host->register_module("jit", "", run_next_entry, nullptr, true);
    Rows rows;
    const opdock_status status = rows.call(host.op());
    if (child == 0) {
        // The call that was interrupted by the fork does not count in the child: nobody waits for it.
        host->unregister_module("jit");
        _exit(status == OPDOCK_OK && rows.added(host.op()) == 2 ? 0 : 1);
    }
    int ended = -1;
    REQUIRE(waitpid(child, &ended, 0) == child);
    CHECK(ended == 0);
    CHECK(status == OPDOCK_OK);
    host->unregister_module("jit");
    CHECK(rows.added(host.op()) == 2);
}

TEST_CASE("a child of a fork while another thread gives back a plan of a temporary module can call it") {
    MadeHost host;
    static std::binary_semaphore *giving_back, *go_on;
    std::binary_semaphore begun(0), forked(0);
    giving_back = &begun;
    go_on = &forked;
    Made made("default.jit", OPDOCK_KIND_DEFAULT, "", 5.0F);
    made.adjust = [](opdock_impl &impl) {
        impl.plan_create = [](const opdock_problem * /*problem*/, void **plan) {
            static int any;
            *plan = &any;
            return OPDOCK_OK;
        };
        impl.plan_destroy = [](const opdock_host_api * /*host*/, void * /*user_data*/, DLDevice /*device*/,
                               void * /*plan*/) {
            if (giving_back != nullptr) {
                std::exchange(giving_back, nullptr)->release();
                go_on->acquire();
            }
        };
    };
    next_entry = [&](opdock_registry *registry) {
        declare(registry, test_ops[0]);
        register_made(registry, made);
        return OPDOCK_OK;
    };
    host->register_module("jit", "", run_next_entry, nullptr, true);
    std::thread preparing([&] {
        Rows rows;
        (void)host.op().prepare({rows.x}, {rows.y});
    });
    begun.acquire();
    CHECK(in_child([&] {
              Rows rows;
              const bool is_served = rows.added(host.op()) == 5;
              host->unregister_module("jit");
              return is_served;
          }) == 0);
    forked.release();
    preparing.join();
    host->unregister_module("jit");
}
