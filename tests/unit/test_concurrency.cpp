// Several threads at once. These tests also run under ThreadSanitizer.
#include <atomic>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "made_host.hpp"

using namespace opdock;
using namespace opdock::test;

namespace {

// Runs `work(thread number)` on several threads at once, and waits for all of them.
template<class Work>
void on_threads(int count, Work work) {
    std::vector<std::thread> threads;
    for (int t = 0; t < count; ++t) {
        threads.emplace_back([&work, t] { work(t); });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
}

} // namespace

TEST_CASE("while the policy flips under load, every call is served whole by one policy or the other") {
    MadeHost host;
    host.add("default.one", OPDOCK_KIND_DEFAULT, {}, 1);
    host.add("vendor.acme", OPDOCK_KIND_VENDOR, "acme", 2);
    const core::PolicyPtr vendor = host.policy("prefer", "vendor");
    std::atomic<bool> done{false};
    std::atomic<int> mixed{0};
    std::atomic<uint64_t> calls{0};
    std::thread flipping([&] {
        for (int i = 0; i < 500; ++i) {
            host->set_program_policy(i % 2 == 0 ? vendor : nullptr);
        }
        done = true;
    });
    on_threads(3, [&](int) {
        Rows rows;
        uint64_t mine = 0;
        do {
            const float added = rows.added(host.op());
            mixed += added != 1 && added != 2;
            ++mine;
        } while (!done);
        calls += mine;
    });
    flipping.join();
    CHECK(mixed == 0);
    CHECK(host->served_count("test.add", "default.one") + host->served_count("test.add", "vendor.acme") == calls);
}

TEST_CASE("threads that end leave their counts behind") {
    MadeHost host;
    host.add("default.one", OPDOCK_KIND_DEFAULT, {}, 1);
    on_threads(4, [&](int) {
        Rows rows;
        for (int i = 0; i < 100; ++i) {
            rows.call(host.op());
        }
    });
    CHECK(host->served_count("test.add", "default.one") == 400);
}

TEST_CASE("the plans that a thread's calls have go when the thread ends") {
    static std::atomic<int> made_plans{0}, gone{0};
    made_plans = gone = 0;
    MadeHost host;
    auto made = std::make_unique<Made>("default.one", OPDOCK_KIND_DEFAULT, "", 1.0F);
    made->adjust = [](opdock_impl &impl) {
        impl.plan_create = [](const opdock_problem *, void **plan) -> opdock_status {
            *plan = &made_plans;
            ++made_plans;
            return OPDOCK_OK;
        };
        impl.plan_destroy = [](const opdock_host_api *, void *, DLDevice, void *) { ++gone; };
    };
    host.add(std::move(made));
    Rows rows;
    rows.call(host.op());
    on_threads(3, [&](int) {
        Rows own;
        own.call(host.op());
        own.call(host.op());
    });
    CHECK(made_plans == 4);
    CHECK(gone == 3);
    host.close();
    CHECK(gone == 4);
}

TEST_CASE("loading, listing, resolving and calling at once") {
    MadeHost host;
    host.add("reference.base", OPDOCK_KIND_REFERENCE, {}, 3);
    std::deque<Made> made;
    for (int i = 0; i < 20; ++i) {
        made.emplace_back("vendor.v" + std::to_string(i), OPDOCK_KIND_VENDOR, "v" + std::to_string(i), 2.0f);
    }
    std::atomic<bool> done{false};
    std::atomic<int> wrong{0};
    std::thread loading([&] {
        for (int i = 0; i < 20; ++i) {
            host.module("late-" + std::to_string(i), [&](opdock_registry *registry) {
                declare(registry, test_ops[0]);
                register_made(registry, made[static_cast<size_t>(i)]);
                return OPDOCK_OK;
            });
        }
        done = true;
    });
    on_threads(3, [&](int t) {
        Rows rows;
        do {
            if (t == 0) {
                wrong += host->describe()["ops"].empty();
            } else {
                const float added = rows.added(host.op());
                wrong += added != 2 && added != 3;
            }
        } while (!done);
    });
    loading.join();
    CHECK(wrong == 0);
    Rows rows;
    CHECK(rows.added(host.op()) == 2);
}

TEST_CASE("scopes on several threads do not see each other") {
    MadeHost host;
    host.add("default.one", OPDOCK_KIND_DEFAULT, {}, 1);
    host.add("vendor.acme", OPDOCK_KIND_VENDOR, "acme", 2);
    host.add("reference.three", OPDOCK_KIND_REFERENCE, {}, 3);
    const core::PolicyPtr policies[] = {host.policy("prefer", "default"), host.policy("prefer", "vendor"),
                                        host.policy("prefer", "reference")};
    std::atomic<int> wrong{0};
    on_threads(3, [&](int t) {
        Rows rows;
        for (int i = 0; i < 300; ++i) {
            host->push_scope(policies[t]);
            wrong += rows.added(host.op()) != static_cast<float>(t + 1);
            host->pop_scope();
            wrong += rows.added(host.op()) != 1;
        }
    });
    CHECK(wrong == 0);
}

TEST_CASE("an implementation that fails on several threads at once leaves the chain once") {
    MadeHost host;
    Made &flaky = host.add("default.flaky", OPDOCK_KIND_DEFAULT, {}, 1);
    host.add("reference.three", OPDOCK_KIND_REFERENCE, {}, 3);
    flaky.status = OPDOCK_FAILED_CLEAN;
    std::atomic<int> wrong{0};
    on_threads(4, [&](int) {
        Rows rows;
        for (int i = 0; i < 50; ++i) {
            wrong += rows.added(host.op()) != 3;
        }
    });
    CHECK(wrong == 0);
    CHECK(host.logged("leaves the chain") == 1);
}

TEST_CASE("availability is asked once, also when several threads need it at the same time") {
    MadeHost host;
    static std::atomic<int> asked{0};
    asked = 0;
    auto made = std::make_unique<Made>("default.one", OPDOCK_KIND_DEFAULT, "", 1.0f);
    made->adjust = [](opdock_impl &impl) {
        impl.available = [](const opdock_host_api *, void *, DLDevice) -> opdock_status {
            ++asked;
            return OPDOCK_OK;
        };
    };
    host.add(std::move(made));
    on_threads(4, [&](int) {
        Rows rows;
        rows.call(host.op());
    });
    CHECK(asked == 1);
}

TEST_CASE("two hosts are called at once from several threads") {
    MadeHost one, two;
    one.add("default.one", OPDOCK_KIND_DEFAULT, {}, 1);
    two.add("default.two", OPDOCK_KIND_DEFAULT, {}, 2);
    std::atomic<int> wrong{0};
    on_threads(4, [&](int) {
        Rows rows;
        for (int i = 0; i < 500; ++i) {
            wrong += rows.added(one.op()) != 1;
            wrong += rows.added(two.op()) != 2;
        }
    });
    CHECK(wrong == 0);
}
