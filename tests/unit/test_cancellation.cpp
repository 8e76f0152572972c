#include "load/cancellation.hpp"

#include <cerrno>
#include <functional>
#include <memory>

#include <doctest/doctest.h>
#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>

#include "made_host.hpp"

using namespace opdock::core;
using opdock::test::Made;
using opdock::test::MadeHost;
using opdock::test::Rows;

namespace {

// Runs `work` in a thread, cancels the thread once `waits` is posted, and returns true if cancellation ended it.
bool is_cancelled(sem_t &waits, std::function<void()> work) {
    pthread_t thread{};
    REQUIRE(pthread_create(
                &thread, nullptr,
                [](void *function) -> void * {
                    (*static_cast<std::function<void()> *>(function))();
                    return nullptr;
                },
                &work) == 0);
    while (sem_wait(&waits) != 0 && errno == EINTR) {
    }
    REQUIRE(pthread_cancel(thread) == 0);
    void *result = nullptr;
    REQUIRE(pthread_join(thread, &result) == 0);
    return result == PTHREAD_CANCELED;
}

// Counts how often a stack was unwound through it. AddressSanitizer unpoisons a stack only at objects with a
// destructor; without one it would report false errors in the frames above.
struct Unwinds {
    int &count;
    ~Unwinds() { ++count; }
};

// The body of a kernel during which its thread is cancelled.
void wait_for_cancellation(sem_t &waits, int &unwound) {
    const Unwinds guard{unwound};
    sem_post(&waits);
    pause();
}

} // namespace

TEST_CASE("a thread that is cancelled in a kernel ends, and the host serves on") {
    sem_t waits;
    REQUIRE(sem_init(&waits, 0, 0) == 0);
    MadeHost host;
    Made &made = host.add("default.waits", OPDOCK_KIND_DEFAULT, "", 1.0f);
    bool is_waiting = false;
    int unwound = 0;
    made.work = [&](const opdock_problem &problem, const opdock_call &call) {
        if (is_waiting) {
            wait_for_cancellation(waits, unwound);
        }
        *static_cast<float *>(call.data[problem.tensor_offsets[problem.n_inputs]]) = 7;
        return OPDOCK_OK;
    };
    int expected = 0;
    for (const int calls_before : {0, 1, 2}) { // resolved, by the slow path, by the quick path
        CAPTURE(calls_before);
        CHECK(is_cancelled(waits, [&] {
            const opdock::Op op = host.op();
            Rows rows;
            for (int call = 0; call < calls_before; ++call) {
                op({rows.x}, {rows.y});
            }
            is_waiting = true;
            op({rows.x}, {rows.y});
        }));
        is_waiting = false;
        CHECK(unwound == ++expected);
    }
    CHECK(is_cancelled(waits, [&] {
        Rows rows;
        auto prepared = host.op().prepare({&rows.x}, {&rows.y});
        is_waiting = true;
        (void)prepared.run({rows.x.data(), rows.y.data()});
    }));
    is_waiting = false;
    CHECK(unwound == ++expected);
    Rows rows;
    host.op()({rows.x}, {rows.y});
    CHECK(*static_cast<float *>(rows.y.data()) == 7);
    CHECK(host.logged("failed") == 0);
    sem_destroy(&waits);
}

TEST_CASE("a thread that is cancelled in a kernel that serves in place of another ends") {
    sem_t waits;
    REQUIRE(sem_init(&waits, 0, 0) == 0);
    MadeHost host;
    Made &first = host.add("default.first", OPDOCK_KIND_DEFAULT);
    Made &second = host.add("vendor.second", OPDOCK_KIND_VENDOR, "acme");
    int unwound = 0;
    second.work = [&](const opdock_problem & /*problem*/, const opdock_call & /*call*/) {
        wait_for_cancellation(waits, unwound);
        return OPDOCK_OK;
    };
    for (const int calls_before : {0, 1, 2}) { // resolved, by the slow path, by the quick path
        CAPTURE(calls_before);
        CHECK(is_cancelled(waits, [&] {
            Rows rows;
            first.status = OPDOCK_OK;
            for (int call = 0; call < calls_before; ++call) {
                rows.call(host.op());
            }
            first.status = OPDOCK_UNSUPPORTED;
            rows.call(host.op());
        }));
    }
    CHECK(first.calls == 6);
    CHECK(second.calls == 3);
    CHECK(unwound == 3);
    sem_destroy(&waits);
}

TEST_CASE("a thread that is cancelled, or ends itself, in a prepared run with the host's workspace ends") {
    sem_t waits;
    REQUIRE(sem_init(&waits, 0, 0) == 0);
    MadeHost host;
    bool ends_itself = false;
    int unwound = 0;
    auto made = std::make_unique<Made>("default.waits", OPDOCK_KIND_DEFAULT);
    made->adjust = [](opdock_impl &impl) {
        impl.workspace_size = [](const opdock_problem * /*problem*/, uint64_t *bytes) {
            *bytes = 4096;
            return opdock_status{OPDOCK_OK};
        };
    };
    made->work = [&](const opdock_problem & /*problem*/, const opdock_call & /*call*/) {
        if (ends_itself) {
            const Unwinds guard{unwound};
            sem_post(&waits);
            pthread_exit(PTHREAD_CANCELED);
        }
        wait_for_cancellation(waits, unwound);
        return OPDOCK_OK;
    };
    host.add(std::move(made));
    for (const bool itself : {false, true}) {
        CAPTURE(itself);
        ends_itself = itself;
        CHECK(is_cancelled(waits, [&] {
            Rows rows;
            auto prepared = host.op().prepare({&rows.x}, {&rows.y});
            (void)prepared.run({rows.x.data(), rows.y.data()});
        }));
    }
    CHECK(unwound == 2);
    CHECK(host.logged("failed") == 0);
    sem_destroy(&waits);
}

TEST_CASE("a thread is cancelled in kernels and not while the host works") {
    static sem_t asks;
    static bool was_asked;
    REQUIRE(sem_init(&asks, 0, 0) == 0);
    was_asked = false;
    MadeHost host;
    auto made = std::make_unique<Made>("default.asked", OPDOCK_KIND_DEFAULT);
    made->adjust = [](opdock_impl &impl) {
        impl.available = [](const opdock_host_api * /*host*/, void * /*user_data*/, DLDevice /*device*/) {
            sem_post(&asks);
            pthread_testcancel(); // a cancelled thread ends here
            was_asked = true;
            return opdock_status{OPDOCK_OK};
        };
    };
    host.add(std::move(made));
    CHECK(is_cancelled(asks, [&] {
        Rows rows;
        rows.call(host.op());
        for (;;) {
            pause();
        }
    }));
    CHECK(was_asked);
    sem_destroy(&asks);
}

TEST_CASE("a thread is not cancelled while a plan of its is given back") {
    static sem_t waits;
    static bool was_given_back;
    REQUIRE(sem_init(&waits, 0, 0) == 0);
    was_given_back = false;
    MadeHost host;
    auto made = std::make_unique<Made>("default.planned", OPDOCK_KIND_DEFAULT);
    made->adjust = [](opdock_impl &impl) {
        impl.plan_create = [](const opdock_problem * /*problem*/, void **plan) {
            *plan = &waits;
            return opdock_status{OPDOCK_OK};
        };
        impl.plan_destroy = [](const opdock_host_api * /*host*/, void * /*user_data*/, DLDevice /*device*/,
                               void * /*plan*/) {
            pthread_cancel(pthread_self());
            pthread_testcancel();
            was_given_back = true;
        };
    };
    host.add(std::move(made));
    CHECK(is_cancelled(waits, [&] {
        {
            Rows rows;
            auto prepared = host.op().prepare({&rows.x}, {&rows.y});
        }
        sem_post(&waits);
        for (;;) {
            pause();
        }
    }));
    CHECK(was_given_back);
    sem_destroy(&waits);
}
