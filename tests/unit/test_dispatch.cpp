#include "dispatch/dispatch.hpp"

#include <fstream>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

#include "call_arguments.hpp"
#include "made_host.hpp"
#include "thrown_error.hpp"

using namespace opdock;
using namespace opdock::test;

namespace {

using Environment = core::RawEnvironment;

// Implementations of test.add: default adds 1, vendor acme 2, reference 3.
struct ThreeKinds {
    explicit ThreeKinds(const core::RawEnvironment &environment = {}) : host(environment) {}

    MadeHost host;
    Made &standard = host.add("default.one", OPDOCK_KIND_DEFAULT, {}, 1);
    Made &acme = host.add("vendor.acme", OPDOCK_KIND_VENDOR, "acme", 2);
    Made &reference = host.add("reference.three", OPDOCK_KIND_REFERENCE, {}, 3);
    Rows rows;
};

} // namespace

TEST_CASE("the head of the chain serves the call") {
    ThreeKinds t;
    CHECK(t.rows.added(t.host.op()) == 1);
    CHECK(t.acme.calls == 0);
    CHECK(t.host->served_count("test.add", "default.one") == 1);
}

TEST_CASE("nothing that does not promise what is required is called, prepared or not") {
    MadeHost host(Environment{{"PLUGIN_REQUIRE", "deterministic"}});
    const auto add = [&](const char *id, uint32_t flags, float bias) -> Made & {
        auto made = std::make_unique<Made>(id, OPDOCK_KIND_VENDOR, "acme", bias);
        made->adjust = [flags](opdock_impl &impl) { impl.flags = flags; };
        return host.add(std::move(made));
    };
    Rows rows;
    const Made &silent = add("vendor.d_silent", OPDOCK_IMPL_CAPTURE_SAFE, 1);
    CHECK(rows.call(host.op()) == OPDOCK_ALL_DROPPED);
    CHECK(contains(opdock_last_error(),
                   "vendor.d_silent: it does not promise deterministic, which PLUGIN_REQUIRE asks for (contract)"));
    CHECK_THROWS_WITH_AS(host.op().prepare({rows.x}, {rows.y}), doctest::Contains("does not promise"), Error);
    add("vendor.c_promises", OPDOCK_IMPL_DETERMINISTIC, 2);
    add("vendor.b_promises_both", OPDOCK_IMPL_DETERMINISTIC | OPDOCK_IMPL_BATCH_INVARIANT, 3);
    CHECK(rows.added(host.op()) == 2);
    CHECK(host.op().prepare({rows.x}, {rows.y}).impl() == "vendor.c_promises");
    host->push_scope(host.policy("require", "test.add=batch_invariant"));
    CHECK(rows.added(host.op()) == 3);
    CHECK(host->explain("test.add", "cpu", nullptr, nullptr)["dropped"][1]["rule"] == "contract");
    host->pop_scope();
    CHECK(rows.added(host.op()) == 2);
    host->set_program_policy(host.policy("require", ""));
    CHECK(rows.added(host.op()) == 1);
    CHECK(silent.calls == 1);
}

TEST_CASE("a preferred vendor serves before the default") {
    ThreeKinds t(Environment{{"PLUGIN_PREFER", "vendor"}});
    CHECK(t.rows.added(t.host.op()) == 2);
}

TEST_CASE("within a kind the higher priority serves") {
    MadeHost host;
    host.add("vendor.a", OPDOCK_KIND_VENDOR, "a", 1);
    auto strong = std::make_unique<Made>("vendor.b", OPDOCK_KIND_VENDOR, "b", 2);
    strong->priority = 5;
    host.add(std::move(strong));
    Rows rows;
    CHECK(rows.added(host.op()) == 2);
}

TEST_CASE("an implementation that declines is passed over and nothing is held against it") {
    ThreeKinds t;
    t.standard.status = OPDOCK_UNSUPPORTED;
    for (int i = 0; i < 10; ++i) {
        CHECK(t.rows.added(t.host.op()) == 2);
    }
    CHECK(t.standard.calls == 10);
    t.standard.status = OPDOCK_OK;
    CHECK(t.rows.added(t.host.op()) == 1);
}

TEST_CASE("a failure falls back, and the third in a row takes the implementation out of the chain") {
    for (const opdock_status status : {OPDOCK_FAILED, OPDOCK_FAILED_CLEAN}) {
        CAPTURE(status);
        ThreeKinds t;
        t.standard.status = status;
        for (int i = 0; i < 6; ++i) {
            CHECK(t.rows.added(t.host.op()) == 2);
        }
        CHECK(t.standard.calls == 3);
        CHECK(t.host.logged("'default.one' leaves the chain") == 1);
        t.standard.status = OPDOCK_OK;
        CHECK(t.rows.added(t.host.op()) == 2);
        t.host->reset_health(nullptr, nullptr);
        CHECK(t.rows.added(t.host.op()) == 1);
    }
}

namespace {

using core::Deployment;

// A clock that only a test advances.
Deployment::Clock::time_point made_now;

struct MadeClock {
    MadeClock() {
        made_now = {};
        MadeHost::clock = [] { return made_now; };
    }
    ~MadeClock() { MadeHost::clock = Deployment::Clock::now; }
    MadeClock(const MadeClock &) = delete;
    MadeClock &operator=(const MadeClock &) = delete;
    static void pass(std::chrono::seconds time) { made_now += time; }
};

} // namespace

TEST_CASE(
    "an implementation that failed too often is tried again after a pause, and twice as long a one each further time") {
    const MadeClock clock;
    ThreeKinds t;
    t.standard.status = OPDOCK_FAILED;
    const auto call = [&] { CHECK(t.rows.added(t.host.op()) == 2); };
    for (int i = 0; i < 4; ++i) {
        call();
    }
    CHECK(t.standard.calls == 3);
    CHECK(t.host.logged("It is tried again in 60 s (retry_failed, built-in)") == 1);
    int tries = 3;
    for (const int pause : {60, 120, 240, 480, 960, 1920, 3600, 3600}) {
        CAPTURE(pause);
        clock.pass(std::chrono::seconds(pause - 1));
        call();
        call();
        CHECK(t.standard.calls == tries);
        clock.pass(std::chrono::seconds(1));
        call(); // notices that the pause is over
        call(); // tries it, and falls through to the next
        CHECK(t.standard.calls == ++tries);
        call();
        CHECK(t.standard.calls == tries);
    }
    clock.pass(std::chrono::hours(1));
    t.standard.status = OPDOCK_OK;
    call();
    CHECK(t.rows.added(t.host.op()) == 1);
    CHECK(t.host.logged("'default.one' is tried again on cpu:0") == 9);
    t.standard.status = OPDOCK_FAILED; // it may fail twice more
    call();
    call();
    t.standard.status = OPDOCK_OK;
    CHECK(t.rows.added(t.host.op()) == 1);
    t.standard.status = OPDOCK_FAILED;
    for (int i = 0; i < 3; ++i) {
        call();
    }
    t.host->reset_health(nullptr, nullptr); // also forgets the pause
    for (int i = 0; i < 3; ++i) {
        call();
    }
    CHECK(t.host.logged("It is tried again in 60 s (retry_failed, built-in)") == 2);
}

TEST_CASE("where nothing else is left, a call after the pause tries what failed") {
    const MadeClock clock;
    MadeHost host(Environment{{"PLUGIN_RETRY_FAILED", "500ms"}});
    Made &one = host.add("default.one", OPDOCK_KIND_DEFAULT, {}, 1);
    Rows rows;
    one.status = OPDOCK_FAILED;
    for (int i = 0; i < 3; ++i) {
        CHECK(rows.call(host.op()) == OPDOCK_ALL_FAILED);
    }
    CHECK(host.logged("It is tried again in 0.5 s (retry_failed, PLUGIN_RETRY_FAILED)") == 1);
    CHECK(rows.call(host.op()) == OPDOCK_ALL_DROPPED);
    one.status = OPDOCK_OK;
    CHECK(rows.call(host.op()) == OPDOCK_ALL_DROPPED);
    clock.pass(std::chrono::seconds(1));
    CHECK(rows.added(host.op()) == 1);
}

TEST_CASE("a prepared call that was prepared without what failed is stale when that is tried again") {
    const MadeClock clock;
    ThreeKinds t;
    t.standard.status = OPDOCK_FAILED;
    for (int i = 0; i < 3; ++i) {
        CHECK(t.rows.added(t.host.op()) == 2);
    }
    t.standard.status = OPDOCK_OK;
    const opdock::Prepared prepared = t.host.op().prepare({t.rows.x}, {t.rows.y});
    CHECK_FALSE(prepared.stale());
    clock.pass(std::chrono::seconds(60));
    CHECK(t.rows.added(t.host.op()) == 2);
    CHECK(prepared.stale());
    CHECK(t.rows.added(t.host.op()) == 1);
}

TEST_CASE("nothing is tried again in strict mode, where it is off, and of an op that writes its inputs") {
    const MadeClock clock;
    for (const opdock::core::RawEnvironment &environment :
         {opdock::core::RawEnvironment{{"PLUGIN_STRICT", "1"}}, {{"PLUGIN_RETRY_FAILED", "off"}}}) {
        MadeHost host(environment);
        Made &one = host.add("default.one", OPDOCK_KIND_DEFAULT, {}, 1);
        host.add("reference.any", OPDOCK_KIND_REFERENCE, {}, 2);
        Rows rows;
        one.status = OPDOCK_FAILED;
        for (int i = 0; i < 3; ++i) {
            rows.call(host.op());
        }
        CHECK(host.logged("opdock_reset_health (C++: host.reset_health) brings it back.") == 1);
        CHECK(host.logged("It is tried again") == 0);
        clock.pass(std::chrono::hours(24));
        CHECK(rows.added(host.op()) == 2);
        CHECK(rows.added(host.op()) == 2);
        CHECK(one.calls == 3);
    }
    MadeHost host;
    auto made = std::make_unique<Made>("default.odd", OPDOCK_KIND_DEFAULT);
    made->op = "test.update";
    made->status = OPDOCK_FAILED_CLEAN;
    host.add(std::move(made));
    std::vector<float> state(3), in(3), out(3);
    const auto call = [&] {
        return host.op("test.update")
            .try_call({Tensor(state.data(), f32, {3}), Tensor(in.data(), f32, {3})}, {Tensor(out.data(), f32, {3})});
    };
    for (int i = 0; i < 3; ++i) {
        CHECK(call() == OPDOCK_ALL_FAILED);
    }
    clock.pass(std::chrono::hours(24));
    CHECK(call() == OPDOCK_ALL_DROPPED);
}

TEST_CASE("what failed is not tried again while the policy denies it, or has nothing tried again") {
    const MadeClock clock;
    ThreeKinds t(Environment{{"PLUGIN_PREFER", "vendor"}});
    t.acme.status = OPDOCK_FAILED;
    for (int i = 0; i < 3; ++i) {
        CHECK(t.rows.added(t.host.op()) == 1);
    }
    t.acme.status = OPDOCK_OK;
    for (const auto &setting : {std::pair("deny_vendors", "acme"), std::pair("retry_failed", "off")}) {
        CAPTURE(setting.first);
        t.host->set_program_policy(t.host.policy(setting.first, setting.second));
        clock.pass(std::chrono::hours(24));
        CHECK(t.rows.added(t.host.op()) == 1);
        CHECK(t.rows.added(t.host.op()) == 1);
        CHECK(t.host.logged("is tried again on") == 0);
    }
    t.host->set_program_policy(nullptr);
    CHECK(t.rows.added(t.host.op()) == 2);
}

TEST_CASE("a status that nobody defined counts as a failure, and is shown with its number") {
    for (const opdock_status undefined : {77, -1}) {
        MadeHost host;
        Made &odd = host.add("default.odd", OPDOCK_KIND_DEFAULT);
        Rows rows;
        odd.status = undefined;
        CHECK(rows.call(host.op()) == OPDOCK_ALL_FAILED);
        CHECK(contains(last_error(), "status " + std::to_string(undefined) +
                                         ", which is not a plugin's status: default.odd was told to"));
        host.add("reference.any", OPDOCK_KIND_REFERENCE, {}, 3);
        CHECK(rows.added(host.op()) == 3);
        CHECK(rows.added(host.op()) == 3);
        CHECK(rows.added(host.op()) == 3);
        CHECK(odd.calls == 3);
        CHECK(host.logged("'default.odd' leaves the chain") == 1);
    }
}

TEST_CASE("an implementation that returns a status that nobody defined before its kernel runs is passed over") {
    static opdock_status undefined;
    static const opdock_knob block = {
        OPDOCK_STRUCT_SIZE(opdock_knob, doc), OPDOCK_KNOB_INT, "block", 1, 64, 8, nullptr, nullptr};
    static const opdock_knob *const knobs[] = {&block};
    const std::pair<const char *, std::function<void(opdock_impl &)>> functions[] = {
        {"device_init",
         [](opdock_impl &impl) {
             impl.device_init = [](const opdock_host_api *, void *, DLDevice, void **) { return undefined; };
             impl.device_fini = [](const opdock_host_api *, void *, DLDevice, void *) {};
         }},
        {"supports", [](opdock_impl &impl) { impl.supports = [](const opdock_problem *) { return undefined; }; }},
        {"heuristic",
         [](opdock_impl &impl) {
             impl.n_knobs = 1;
             impl.knobs = knobs;
             impl.heuristic = [](const opdock_problem *, int64_t *) { return undefined; };
         }},
        {"plan_create",
         [](opdock_impl &impl) {
             impl.plan_create = [](const opdock_problem *, void **) { return undefined; };
             impl.plan_destroy = [](const opdock_host_api *, void *, DLDevice, void *) {};
         }},
        {"workspace_size",
         [](opdock_impl &impl) { impl.workspace_size = [](const opdock_problem *, uint64_t *) { return undefined; }; }},
    };
    for (const auto &function : functions) {
        for (const opdock_status status : {77, -1}) {
            CAPTURE(function.first);
            undefined = status;
            MadeHost host;
            auto made = std::make_unique<Made>("default.odd", OPDOCK_KIND_DEFAULT);
            made->adjust = function.second;
            const Made &odd = host.add(std::move(made));
            host.add("reference.any", OPDOCK_KIND_REFERENCE, {}, 3);
            Rows rows;
            CHECK(rows.added(host.op()) == 3);
            CHECK(odd.calls == 0);
            CHECK(host.logged("status " + std::to_string(status) + ", which is not a plugin's status") == 1);
        }
    }
}

TEST_CASE("an op that writes an input does not go on after a status that nobody defined") {
    MadeHost host;
    auto made = std::make_unique<Made>("default.odd", OPDOCK_KIND_DEFAULT);
    made->op = "test.update";
    made->status = 77;
    host.add(std::move(made));
    std::vector<float> state(3), in(3), out(3);
    CHECK(host.op("test.update")
              .try_call({Tensor(state.data(), f32, {3}), Tensor(in.data(), f32, {3})},
                        {Tensor(out.data(), f32, {3})}) == OPDOCK_FAILED);
    CHECK(contains(last_error(), "'default.odd' returned FAILED: status 77, which is not a plugin's status"));
}

TEST_CASE("a success in between starts the count of failures anew") {
    ThreeKinds t;
    for (int round = 0; round < 3; ++round) {
        t.standard.status = OPDOCK_FAILED_CLEAN;
        CHECK(t.rows.added(t.host.op()) == 2);
        CHECK(t.rows.added(t.host.op()) == 2);
        t.standard.status = OPDOCK_OK;
        CHECK(t.rows.added(t.host.op()) == 1);
    }
    CHECK(t.host.logged("leaves the chain") == 0);
}

TEST_CASE("a success starts the count of failures anew also where nobody else served in between") {
    MadeHost host;
    Made &one = host.add("default.one", OPDOCK_KIND_DEFAULT, {}, 1);
    Rows rows;
    CHECK(rows.added(host.op()) == 1);
    for (int round = 0; round < 3; ++round) {
        one.status = OPDOCK_FAILED;
        CHECK(rows.call(host.op()) == OPDOCK_ALL_FAILED);
        CHECK(rows.call(host.op()) == OPDOCK_ALL_FAILED);
        one.status = OPDOCK_OK;
        CHECK(rows.added(host.op()) == 1);
        CHECK(rows.added(host.op()) == 1);
    }
    CHECK(host.logged("leaves the chain") == 0);
}

TEST_CASE("counting and resetting an op or implementation that is not there is an error with the nearest name") {
    MadeHost host;
    host.add("default.one", OPDOCK_KIND_DEFAULT);
    host.add("vendor.acme", OPDOCK_KIND_VENDOR, "acme");
    host.add("reference.three", OPDOCK_KIND_REFERENCE);
    const auto status_of = [](auto &&work) { return thrown_by(work).status(); };
    CHECK(status_of([&] { (void)host->served_count("test.addd", "vendor.acme"); }) == OPDOCK_UNKNOWN_OP);
    CHECK(status_of([&] { host->reset_health("test.addd", nullptr); }) == OPDOCK_UNKNOWN_OP);
    CHECK(status_of([&] { (void)host->served_count("test.add", "vendor.acmee"); }) == OPDOCK_INVALID_ARGUMENT);
    CHECK(message_of([&] { (void)host->served_count("test.add", "vendor.acmee"); }) ==
          "op 'test.add' has no implementation 'vendor.acmee'; did you mean 'vendor.acme'?");
    CHECK(status_of([&] { host->reset_health("test.update", "vendor.acme"); }) == OPDOCK_INVALID_ARGUMENT);
    CHECK(message_of([&] { host->reset_health(nullptr, "vendor.acmee"); }) ==
          "no op has an implementation 'vendor.acmee'; did you mean 'vendor.acme'?");
    for (const std::string id : {"default.one", "reference.three"}) {
        CHECK(contains(message_of([&] { host->reset_health(nullptr, (id + "e").c_str()); }), "mean '" + id + "'?"));
    }
    CHECK(host->served_count("test.add", "Vendor.Acme") == 0);
    CHECK_NOTHROW(host->reset_health(nullptr, nullptr));
    CHECK_NOTHROW(host->reset_health(nullptr, "VENDOR.acme"));
    CHECK_NOTHROW(host->reset_health("test.update", nullptr));
}

TEST_CASE("reset_health brings back the one implementation it names") {
    ThreeKinds t;
    t.standard.status = OPDOCK_FAILED_CLEAN;
    t.acme.status = OPDOCK_FAILED_CLEAN;
    for (int i = 0; i < 4; ++i) {
        CHECK(t.rows.added(t.host.op()) == 3);
    }
    t.standard.status = OPDOCK_OK;
    t.acme.status = OPDOCK_OK;
    t.host->reset_health("test.add", "vendor.acme");
    CHECK(t.rows.added(t.host.op()) == 2);
}

TEST_CASE("reset_health brings back the implementations of the op that it names, and of no other") {
    MadeHost host;
    host.add("default.one", OPDOCK_KIND_DEFAULT, {}, 1).status = OPDOCK_FAILED_CLEAN;
    auto pair = std::make_unique<Made>("default.pair", OPDOCK_KIND_DEFAULT);
    pair->op = "test.pair";
    pair->status = OPDOCK_FAILED_CLEAN;
    host.add(std::move(pair));
    Rows rows;
    std::vector<float> in(3), out(3);
    const auto call_pair = [&] {
        return host.op("test.pair").try_call({Tensor(in.data(), f32, {3})}, {Tensor(out.data(), f32, {3})});
    };
    for (int i = 0; i < 3; ++i) {
        CHECK(rows.call(host.op()) == OPDOCK_ALL_FAILED);
        CHECK(call_pair() == OPDOCK_ALL_FAILED);
    }
    host->reset_health("test.add", nullptr);
    CHECK(call_pair() == OPDOCK_ALL_DROPPED);
    CHECK(rows.call(host.op()) == OPDOCK_ALL_FAILED);
}

TEST_CASE("the caller's mistake and lost memory come back and never fall back or count") {
    for (const opdock_status status : {OPDOCK_INVALID_ARGUMENT, OPDOCK_OUT_OF_MEMORY}) {
        CAPTURE(status);
        ThreeKinds t;
        t.standard.status = status;
        for (int i = 0; i < 5; ++i) {
            CHECK(t.rows.call(t.host.op()) == status);
        }
        CHECK(contains(last_error(), "default.one was told to"));
        CHECK(t.standard.calls == 5);
        CHECK(t.acme.calls == 0);
    }
}

TEST_CASE("strict: the first of the chain serves the call or the call fails with its reason") {
    for (const opdock_status status :
         {OPDOCK_UNSUPPORTED, OPDOCK_INVALID_ARGUMENT, OPDOCK_OUT_OF_MEMORY, OPDOCK_FAILED, OPDOCK_FAILED_CLEAN}) {
        CAPTURE(status);
        ThreeKinds t(Environment{{"PLUGIN_STRICT", "1"}});
        t.standard.status = status;
        CHECK(t.rows.call(t.host.op()) == status);
        CHECK(contains(last_error(), "default.one was told to"));
        CHECK(t.acme.calls == 0);
        CHECK(t.reference.calls == 0);
    }
}

TEST_CASE("the message of a strict failure names what made it strict") {
    ThreeKinds t(Environment{{"PLUGIN_STRICT", "yes"}});
    t.standard.status = OPDOCK_FAILED;
    t.rows.call(t.host.op());
    CHECK(contains(last_error(), "PLUGIN_STRICT"));
}

TEST_CASE("when everything fails the error lists every reason") {
    ThreeKinds t;
    t.standard.status = OPDOCK_UNSUPPORTED;
    t.acme.status = OPDOCK_FAILED_CLEAN;
    t.reference.status = OPDOCK_FAILED;
    CHECK(t.rows.call(t.host.op()) == OPDOCK_ALL_FAILED);
    for (const char *part :
         {"default.one", "vendor.acme", "reference.three", "UNSUPPORTED", "FAILED_CLEAN", "was told to"}) {
        CHECK(contains(last_error(), part));
    }
}

TEST_CASE("a kernel that gives no reason is reported by its status, not by what somebody said before") {
    ThreeKinds t;
    bool failing = false;
    t.standard.work = [&](const opdock_problem &problem, const opdock_call &) -> opdock_status {
        if (failing) {
            return OPDOCK_INVALID_ARGUMENT;
        }
        problem.host->fail(problem.host, OPDOCK_FAILED, "a sentence about nothing");
        return OPDOCK_OK;
    };
    CHECK(t.rows.call(t.host.op()) == OPDOCK_OK);
    CHECK(t.rows.call(t.host.op()) == OPDOCK_OK);
    failing = true;
    CHECK(t.rows.call(t.host.op()) == OPDOCK_INVALID_ARGUMENT);
    CHECK(contains(last_error(), "it gave no reason"));
    CHECK_FALSE(contains(last_error(), "about nothing"));
}

TEST_CASE("what an ending host's plugin threw is not taken for what another host's kernel said") {
    ThreeKinds t;
    t.rows.call(t.host.op());
    {
        MadeHost ending;
        auto made = std::make_unique<Made>("default.one", OPDOCK_KIND_DEFAULT);
        made->adjust = [](opdock_impl &impl) {
            impl.device_init = [](const opdock_host_api *, void *, DLDevice, void **) -> opdock_status {
                return OPDOCK_OK;
            };
            impl.device_fini = [](const opdock_host_api *, void *, DLDevice, void *) {
                throw std::runtime_error("an end");
            };
        };
        ending.add(std::move(made));
        t.rows.call(ending.op());
    }
    t.standard.work = [](const auto &, const auto &) { return OPDOCK_INVALID_ARGUMENT; };
    CHECK(t.rows.call(t.host.op()) == OPDOCK_INVALID_ARGUMENT);
    CHECK_FALSE(contains(last_error(), "an end"));
}

TEST_CASE("a kernel that throws has failed") {
    ThreeKinds t;
    t.standard.work = [](const auto &, const auto &) -> opdock_status { throw std::runtime_error("boom"); };
    CHECK(t.rows.added(t.host.op()) == 2); // first call: the slow path
    CHECK(t.rows.added(t.host.op()) == 2);
    t.acme.work = [](const auto &, const auto &) -> opdock_status { throw 42; };
    CHECK(t.rows.added(t.host.op()) == 3);
}

TEST_CASE("a kernel whose exception throws when it is destroyed has failed like another") {
    struct Again {
        ~Again() noexcept(false) { throw Again(); } // NOLINT(bugprone-exception-escape)
    };
    ThreeKinds t;
    t.standard.work = [](const auto &, const auto &) -> opdock_status {
#if defined(__SANITIZE_ADDRESS__)
        const __lsan::ScopedDisabler leaks; // C++'s runtime frees no exception whose destructor throws
#endif
        throw Again();
    };
    for (int i = 0; i < 4; ++i) {
        CHECK(t.rows.added(t.host.op()) == 2);
    }
    CHECK(t.standard.calls == 3);
}

TEST_CASE("a workspace larger than any memory is not had, and the kernel is not called") {
    for (const uint64_t bytes : {UINT64_MAX, UINT64_MAX - 254, uint64_t{1} << 63}) {
        CAPTURE(bytes);
        MadeHost host;
        static uint64_t asked_for;
        asked_for = bytes;
        auto made = std::make_unique<Made>("default.one", OPDOCK_KIND_DEFAULT);
        made->adjust = [](opdock_impl &impl) {
            impl.workspace_size = [](const opdock_problem *, uint64_t *size) -> opdock_status {
                *size = asked_for;
                return OPDOCK_OK;
            };
        };
        const Made &one = host.add(std::move(made));
        Rows rows;
        CHECK(rows.call(host.op()) == OPDOCK_OUT_OF_MEMORY);
        CHECK(one.calls == 0);
    }
}

TEST_CASE("a kernel that throws bad_alloc ran out of memory") {
    ThreeKinds t;
    t.standard.work = [](const auto &, const auto &) -> opdock_status { throw std::bad_alloc(); };
    CHECK(t.rows.call(t.host.op()) == OPDOCK_OUT_OF_MEMORY);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) // they map more memory than any limit allows
TEST_CASE("where there is no memory for an error's message the error says that") {
    static const std::string text(64u << 20, 'x');
    struct Wordy : std::exception {
        const char *what() const noexcept override { return text.c_str(); }
    };
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        core::thread_state();
        rlimit limit = {};
        getrlimit(RLIMIT_AS, &limit);
        std::ifstream pages("/proc/self/statm");
        uint64_t mapped = 0;
        pages >> mapped;
        limit.rlim_cur = mapped * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) + (8u << 20);
        setrlimit(RLIMIT_AS, &limit);
        opdock_status status = OPDOCK_OK;
        try {
            throw Wordy();
        } catch (...) {
            status = core::leave_current_exception();
        }
        _exit(status == OPDOCK_OUT_OF_MEMORY && last_error() == "out of memory" ? 0 : 1);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
}
#endif

TEST_CASE("an op that writes an input goes on after a clean failure and stops after a dirty one") {
    MadeHost host;
    auto first = std::make_unique<Made>("default.one", OPDOCK_KIND_DEFAULT);
    first->op = "test.update";
    Made &one = host.add(std::move(first));
    auto second = std::make_unique<Made>("vendor.acme", OPDOCK_KIND_VENDOR, "acme", 2.0f);
    second->op = "test.update";
    Made &acme = host.add(std::move(second));
    std::vector<float> state(3), in(3), out(3);
    const Tensor s(state.data(), f32, {3}), x(in.data(), f32, {3}), y(out.data(), f32, {3});
    const auto call = [&] { return host.op("test.update").try_call({s, x}, {y}); };

    one.status = OPDOCK_UNSUPPORTED;
    CHECK(call() == OPDOCK_OK);
    one.status = OPDOCK_FAILED_CLEAN;
    CHECK(call() == OPDOCK_OK);
    CHECK(acme.calls == 2);
    one.status = OPDOCK_FAILED;
    CHECK(call() == OPDOCK_FAILED);
    CHECK(contains(last_error(), "writes an input"));
    CHECK(acme.calls == 2);
}

TEST_CASE("an input that is written must not overlap another, also when the call looks like the one before") {
    MadeHost host;
    auto made = std::make_unique<Made>("default.one", OPDOCK_KIND_DEFAULT);
    made->op = "test.update";
    host.add(std::move(made));
    std::vector<float> state(3), in(3), out(3);
    const Tensor s(state.data(), f32, {3}), x(in.data(), f32, {3}), y(out.data(), f32, {3});
    const Op update = host.op("test.update");
    for (int i = 0; i < 2; ++i) {
        CHECK(update.try_call({s, x}, {y}) == OPDOCK_OK);
        CHECK(update.try_call({s, s}, {y}) == OPDOCK_INVALID_ARGUMENT);
    }
}

TEST_CASE("an output that is its input makes the op one that writes an input") {
    ThreeKinds t;
    CHECK(t.host.op().try_call({t.rows.x}, {t.rows.x}) == OPDOCK_OK);
    t.standard.status = OPDOCK_FAILED;
    CHECK(t.host.op().try_call({t.rows.x}, {t.rows.x}) == OPDOCK_FAILED);
    CHECK(t.acme.calls == 0);
    CHECK(t.host.op().try_call({t.rows.x}, {t.rows.y}) == OPDOCK_OK);
    CHECK(t.acme.calls == 1);
}

TEST_CASE("the log has one line when the implementation that serves an op changes") {
    ThreeKinds t;
    for (int i = 0; i < 5; ++i) {
        t.rows.call(t.host.op());
    }
    CHECK(t.host.logged("Op 'test.add' using 'default.one' (kind=default)") == 1);
    t.standard.status = OPDOCK_FAILED_CLEAN;
    for (int i = 0; i < 5; ++i) {
        t.rows.call(t.host.op());
    }
    CHECK(t.host.logged("Op 'test.add' switched from 'default.one' to 'vendor.acme' (kind=vendor, vendor=acme)") == 1);
    CHECK(t.host.logged("Op 'test.add'") == 3); // and one for leaving the chain
}

TEST_CASE("the log tells of each change of policy that changes who serves, also back to an earlier one") {
    ThreeKinds t;
    const core::PolicyPtr vendor = t.host.policy("prefer", "vendor");
    for (int round = 0; round < 2; ++round) {
        t.host->set_program_policy(nullptr);
        CHECK(t.rows.added(t.host.op()) == 1);
        CHECK(t.rows.added(t.host.op()) == 1);
        t.host->set_program_policy(vendor);
        CHECK(t.rows.added(t.host.op()) == 2);
        CHECK(t.rows.added(t.host.op()) == 2);
    }
    CHECK(t.host.logged("Op 'test.add' using 'default.one'") == 1);
    CHECK(t.host.logged("switched from 'default.one' to 'vendor.acme'") == 2);
    CHECK(t.host.logged("switched from 'vendor.acme' to 'default.one'") == 1);
}

namespace {

// Calls of two shapes, one of which the preferred implementation declines.
struct TwoShapes {
    TwoShapes() {
        t.standard.work = [this](const opdock_problem &problem, const opdock_call &) {
            return problem.tensors[0]->ndim == 1 ? refusal : OPDOCK_OK;
        };
    }
    void call_taken() { CHECK(t.rows.call(t.host.op()) == OPDOCK_OK); }
    void call_declined() {
        CHECK(t.host.op().try_call({Tensor(in.data(), f32, {3})}, {Tensor(out.data(), f32, {3})}) == OPDOCK_OK);
    }

    const MadeClock clock;
    ThreeKinds t;
    opdock_status refusal = OPDOCK_UNSUPPORTED;
    std::vector<float> in = std::vector<float>(3), out = std::vector<float>(3);
};

} // namespace

TEST_CASE("two shapes in turn, of which one is declined, write a line after a pause with a count") {
    TwoShapes shapes;
    ThreeKinds &t = shapes.t;
    const MadeClock &clock = shapes.clock;
    const auto call_both = [&] {
        shapes.call_taken();
        shapes.call_declined();
    };
    for (int i = 0; i < 1000; ++i) {
        call_both();
    }
    CHECK(t.host.logged("Op 'test.add' using 'default.one'") == 1);
    CHECK(t.host.logged("switched from 'default.one' to 'vendor.acme'") == 1);
    CHECK(t.host.logged("Op 'test.add'") == 2);
    clock.pass(std::chrono::seconds(1));
    call_both();
    CHECK(t.host.logged("Op 'test.add' switched 1999 times since the last line about it, now to 'default.one'") == 1);
    CHECK(t.host.logged("Op 'test.add'") == 3);
    // The suppressed line is logged with the next call after the pause, although nothing changes any more.
    clock.pass(std::chrono::seconds(2));
    shapes.call_declined();
    CHECK(t.host.logged("Op 'test.add' switched once since the last line about it, now to 'vendor.acme'") == 1);
    clock.pass(std::chrono::seconds(9));
    shapes.call_declined();
    CHECK(t.host.logged("Op 'test.add'") == 4);
}

TEST_CASE("40,000 calls of two shapes in turn write few lines, however long each takes") {
    for (const int seconds : {0, 1, 2, 30}) {
        CAPTURE(seconds);
        TwoShapes shapes;
        for (int i = 0; i < 20'000; ++i) {
            shapes.call_taken();
            shapes.clock.pass(std::chrono::seconds(seconds));
            shapes.call_declined();
            shapes.clock.pass(std::chrono::seconds(seconds));
        }
        const int64_t hours = int64_t{seconds} * 40'000 / 3'600;
        const int64_t lines = shapes.t.host.logged("Op 'test.add'");
        CHECK(lines >= 2 + (hours > 0 ? hours - 2 : 0));
        CHECK(lines <= 15 + hours);
    }
}

TEST_CASE("what the log has not told is told when the host is closed") {
    TwoShapes shapes;
    for (int i = 0; i < 20'000; ++i) {
        shapes.call_taken();
        shapes.call_declined();
    }
    shapes.t.host.close();
    CHECK(shapes.t.host.logged("Op 'test.add' using 'default.one'") == 1);
    CHECK(shapes.t.host.logged("Op 'test.add' switched from 'default.one' to 'vendor.acme'") == 1);
    CHECK(shapes.t.host.logged("Op 'test.add' switched 39998 times more since the last line about it") == 1);
    CHECK(shapes.t.host.logged("Op 'test.add'") == 3);
}

TEST_CASE("another reason not to serve waits for no pause of the log") {
    TwoShapes shapes;
    for (int i = 0; i < 10; ++i) {
        shapes.call_taken();
        shapes.call_declined();
    }
    CHECK(shapes.t.host.logged("Op 'test.add'") == 2);
    shapes.refusal = OPDOCK_FAILED_CLEAN;
    for (int i = 0; i < 10; ++i) {
        shapes.call_taken(); // so that it does not fail three times in a row
        shapes.call_declined();
    }
    CHECK(shapes.t.host.logged("now to 'vendor.acme' (kind=vendor, vendor=acme) after 'default.one': FAILED_CLEAN") ==
          1);
    CHECK(shapes.t.host.logged("Op 'test.add'") == 3);
}

TEST_CASE("after a minute without changes the log says who serves now") {
    TwoShapes shapes;
    for (int i = 0; i < 1000; ++i) { // so that the pause is an hour
        shapes.call_taken();
        shapes.call_declined();
        shapes.clock.pass(std::chrono::seconds(30));
    }
    const int64_t before = shapes.t.host.logged("Op 'test.add'");
    shapes.call_taken();
    shapes.clock.pass(std::chrono::seconds(59));
    shapes.call_taken();
    CHECK(shapes.t.host.logged("Op 'test.add'") == before);
    shapes.clock.pass(std::chrono::seconds(1));
    shapes.call_taken();
    CHECK(shapes.t.host.logged("Op 'test.add'") == before + 1);
    CHECK(contains(shapes.t.host.log().back(), "now to 'default.one'"));
    shapes.call_taken();
    CHECK(shapes.t.host.logged("Op 'test.add'") == before + 1);
}

TEST_CASE("a status that means nothing is a failure like another") {
    for (const opdock_status status : {-7, 42, OPDOCK_NOT_PREPARED}) {
        CAPTURE(status);
        ThreeKinds t;
        t.standard.status = status;
        for (int i = 0; i < 6; ++i) {
            CHECK(t.rows.added(t.host.op()) == 2);
        }
        CHECK(t.standard.calls == 3);
        CHECK(t.host.logged("'default.one' leaves the chain") == 1);
        t.host->reset_health(nullptr, nullptr);
        t.host->set_program_policy(t.host.policy("strict", "1"));
        CHECK(t.rows.call(t.host.op()) == OPDOCK_FAILED);
        CHECK(contains(last_error(), "status " + std::to_string(status) + ", which is not a plugin's status"));
        CHECK(contains(last_error(), "default.one was told to"));
    }
}

TEST_CASE("an op that writes an input goes on after a failure before any kernel ran") {
    MadeHost host;
    auto first = std::make_unique<Made>("default.one", OPDOCK_KIND_DEFAULT);
    first->op = "test.update";
    first->adjust = [](opdock_impl &impl) {
        impl.plan_create = [](const opdock_problem *, void **) -> opdock_status { return OPDOCK_FAILED; };
        impl.plan_destroy = [](const opdock_host_api *, void *, DLDevice, void *) {};
    };
    Made &one = host.add(std::move(first));
    auto second = std::make_unique<Made>("vendor.acme", OPDOCK_KIND_VENDOR, "acme", 2.0f);
    second->op = "test.update";
    Made &acme = host.add(std::move(second));
    std::vector<float> state(3), in(3), out(3);
    const Tensor s(state.data(), f32, {3}), x(in.data(), f32, {3}), y(out.data(), f32, {3});
    for (int i = 0; i < 4; ++i) {
        CHECK(host.op("test.update").try_call({s, x}, {y}) == OPDOCK_OK);
    }
    CHECK(one.calls == 0);
    CHECK(acme.calls == 4);
    CHECK(host.logged("'default.one' leaves the chain") == 1);
}

TEST_CASE("every call is counted once, whoever serves it and however it got there") {
    ThreeKinds t;
    for (int i = 0; i < 7; ++i) {
        t.rows.call(t.host.op());
    }
    t.standard.status = OPDOCK_UNSUPPORTED;
    for (int i = 0; i < 4; ++i) {
        t.rows.call(t.host.op());
    }
    CHECK(t.host->served_count("test.add", "default.one") == 7);
    CHECK(t.host->served_count("test.add", "vendor.acme") == 4);
    CHECK(t.host->served_count("test.add", "reference.three") == 0);
}

TEST_CASE("the four ways of not being served are four statuses") {
    MadeHost host(Environment{{"PLUGIN_ALLOW_VENDORS", ""}, {"PLUGIN_PER_OP", "test.add=vendor"}});
    host.module("declares",
                [](opdock_registry *registry) { return declare(registry, "test.lonely(x: T[n]) -> (y: T[n])"); });
    Made &acme = host.add("vendor.acme", OPDOCK_KIND_VENDOR, "acme", 2);
    Rows rows;
    CHECK(thrown_by([&] { host->op("test.nothing"); }).status() == OPDOCK_UNKNOWN_OP);
    std::vector<float> a(3), b(3);
    CHECK(host.op("test.lonely").try_call({Tensor(a.data(), f32, {3})}, {Tensor(b.data(), f32, {3})}) ==
          OPDOCK_NO_IMPLEMENTATION);
    CHECK(rows.call(host.op()) == OPDOCK_ALL_DROPPED);
    CHECK(contains(last_error(), "PLUGIN_ALLOW_VENDORS"));
    host->set_program_policy(host.policy("allow_vendors", "acme"));
    acme.status = OPDOCK_FAILED;
    CHECK(rows.call(host.op()) == OPDOCK_ALL_FAILED);
}

TEST_CASE("a call that is wrong calls nothing and changes nothing") {
    ThreeKinds t;
    t.rows.call(t.host.op());
    const int calls = t.standard.calls;
    const std::vector<float> before = t.rows.out;
    std::vector<float> other(6);
    const Tensor y23(t.rows.out.data(), f32, {2, 3}), y6(t.rows.out.data(), f32, {6}),
        y32(t.rows.out.data(), f32, {3, 2});
    const Tensor half(t.rows.out.data(), f16, {2, 3}), null(nullptr, f32, {2, 3});
    const Tensor gpu(t.rows.out.data(), f32, {2, 3}, {kDLCUDA, 0});
    const Tensor shifted(t.rows.in.data() + 1, f32, {2, 3});
    const Tensor misaligned(reinterpret_cast<char *>(t.rows.out.data()) + 1, f32, {2, 3});
    const Op op = t.host.op();
    // Each follows a valid call, so that the quick path sees them too.
    CHECK(op.try_call({t.rows.x}, {y6}) == OPDOCK_INVALID_ARGUMENT);
    CHECK(op.try_call({t.rows.x}, {y32}) == OPDOCK_INVALID_ARGUMENT);
    CHECK(op.try_call({t.rows.x}, {half}) == OPDOCK_INVALID_ARGUMENT);
    CHECK(op.try_call({t.rows.x}, {gpu}) == OPDOCK_INVALID_ARGUMENT);
    CHECK(op.try_call({t.rows.x}, {null}) == OPDOCK_INVALID_ARGUMENT);
    CHECK(op.try_call({null}, {t.rows.y}) == OPDOCK_INVALID_ARGUMENT);
    CHECK(op.try_call({}, {t.rows.y}) == OPDOCK_INVALID_ARGUMENT);
    CHECK(op.try_call({t.rows.x, t.rows.x}, {t.rows.y}) == OPDOCK_INVALID_ARGUMENT);
    CHECK(op.try_call({t.rows.x}, {t.rows.y, t.rows.y}) == OPDOCK_INVALID_ARGUMENT);
    CHECK(op.try_call({t.rows.x}, {nullptr}) == OPDOCK_INVALID_ARGUMENT);
    CHECK(op.try_call({t.rows.x}, {t.rows.y}, {{"sccale", 1.0}}) == OPDOCK_INVALID_ARGUMENT);
    CHECK(op.try_call({t.rows.x}, {t.rows.y}, {{"scale", "one"}}) == OPDOCK_INVALID_ARGUMENT);
    CHECK(op.try_call({t.rows.x}, {t.rows.y}, {1.0, "x", 3}) == OPDOCK_INVALID_ARGUMENT);
    CHECK(op.try_call({shifted}, {Tensor(t.rows.in.data(), f32, {2, 3})}) == OPDOCK_INVALID_ARGUMENT);
    CHECK(t.standard.calls == calls);
    CHECK(t.acme.calls == 0);
    CHECK(t.rows.out == before);
}

TEST_CASE("two tensors on two devices are named in the error") {
    ThreeKinds t;
    const Tensor gpu(t.rows.out.data(), f32, {2, 3}, {kDLCUDA, 0});
    CHECK(t.host.op().try_call({t.rows.x}, {gpu}) == OPDOCK_INVALID_ARGUMENT);
    CHECK(contains(last_error(), "output"));
}

TEST_CASE("the kernel sees this call's attributes, by position and by name, given as int or left out") {
    ThreeKinds t;
    std::vector<double> seen;
    std::vector<std::string> names;
    t.standard.work = [&](const opdock_problem &problem, const opdock_call &) {
        seen.push_back(problem.attributes[0].as.f);
        names.emplace_back(problem.attributes[1].as.s);
        return OPDOCK_OK;
    };
    const Op op = t.host.op();
    const Rows &r = t.rows;
    for (int round = 0; round < 2; ++round) { // in the second round the call is remembered
        op({r.x}, {r.y});
        op({r.x}, {r.y}, {2.5});
        op({r.x}, {r.y}, {3});
        op({r.x}, {r.y}, {{"scale", 4.5}});
        op({r.x}, {r.y}, {{"scale", 5.5}});
        op({r.x}, {r.y}, {{"name", "a"}, {"scale", 6.5}});
        op({r.x}, {r.y}, {{"name", "bc"}, {"scale", 7}});
        op({r.x}, {r.y}, {8.5, "d"});
    }
    const std::vector<double> once = {1.0, 2.5, 3.0, 4.5, 5.5, 6.5, 7.0, 8.5};
    std::vector<double> twice = once;
    twice.insert(twice.end(), once.begin(), once.end());
    CHECK(seen == twice);
    CHECK(names[5] == "a");
    CHECK(names[6] == "bc");
    CHECK(names[7] == "d");
    CHECK(names[8].empty());
    CHECK(names[14] == "bc");
}

TEST_CASE("a call with other floats, strings or an optional attribute is another call") {
    MadeHost host;
    static constexpr const char *signature =
        "test.lists(a: T[n], *, floats: float[], strings: string[], scale: float?) -> (b: T[n])";
    std::vector<std::string> seen;
    auto made = std::make_unique<Made>("default.lists", OPDOCK_KIND_DEFAULT);
    made->op = "test.lists";
    made->work = [&](const opdock_problem &given, const opdock_call &) {
        const Problem problem(given);
        std::string text;
        for (const double number : problem.get_floats(0)) {
            text += std::to_string(static_cast<int>(number)) + " ";
        }
        for (const opdock_text &one : problem.get_strings(1)) {
            text += std::string(one.text, one.size) + " ";
        }
        seen.push_back(text +
                       (problem.has_attribute(2) ? std::to_string(static_cast<int>(problem.get_float(2))) : "-"));
        return OPDOCK_OK;
    };
    host.module("lists", [&](opdock_registry *registry) {
        declare(registry, signature);
        register_made(registry, *made);
        return OPDOCK_OK;
    });
    std::vector<float> in(3), out(3);
    const Tensor a(in.data(), f32, {3}), b(out.data(), f32, {3});
    const Op op = host.op("test.lists");
    const std::vector<double> one = {1, 2}, other = {1, 3};
    const std::vector<opdock_text> ab = {{"a", 1}, {"b", 1}}, ac = {{"a", 1}, {"cc", 2}};
    const auto texts = [](const std::vector<opdock_text> &list) { return std::span<const opdock_text>(list); };
    for (int round = 0; round < 2; ++round) {
        op({a}, {b}, {one, texts(ab)});
        op({a}, {b}, {other, texts(ab)});
        op({a}, {b}, {one, texts(ac)});
        op({a}, {b}, {one, texts(ab), 7.0});
        op({a}, {b}, {one, texts(ab), 8.0});
    }
    const std::vector<std::string> once = {"1 2 a b -", "1 3 a b -", "1 2 a cc -", "1 2 a b 7", "1 2 a b 8"};
    std::vector<std::string> twice = once;
    twice.insert(twice.end(), once.begin(), once.end());
    CHECK(seen == twice);
}

TEST_CASE("a kernel's strings and lists are the host's, whatever became of the caller's") {
    MadeHost host;
    static constexpr const char *signature = "test.words(a: T[n], *, word: string, sizes: int[]) -> (b: T[n])";
    std::vector<std::string> words;
    std::vector<int64_t> sizes;
    auto made = std::make_unique<Made>("default.words", OPDOCK_KIND_DEFAULT);
    made->op = "test.words";
    made->work = [&](const opdock_problem &problem, const opdock_call &) {
        words.emplace_back(problem.attributes[0].as.s);
        sizes.push_back(problem.attributes[1].as.ints[0]);
        return OPDOCK_OK;
    };
    host.module("words", [&](opdock_registry *registry) {
        declare(registry, signature);
        register_made(registry, *made);
        return OPDOCK_OK;
    });
    std::vector<float> in(3), out(3);
    const Tensor a(in.data(), f32, {3}), b(out.data(), f32, {3});
    const Op op = host.op("test.words");
    std::string first = "abc", second = "abc";
    std::vector<int64_t> list = {7}, other = {7};
    op({a}, {b}, {first, list});
    first = "xyz";
    list = {8};
    op({a}, {b}, {second, other});
    const std::string_view longer = "abcdef";
    op({a}, {b}, {longer.substr(0, 3), other});
    CHECK(words == std::vector<std::string>{"abc", "abc", "abc"});
    CHECK(sizes == std::vector<int64_t>{7, 7, 7});
}

TEST_CASE("attributes take any number and any text of C++") {
    ThreeKinds t;
    std::vector<double> scales;
    std::vector<std::string> names;
    t.standard.work = [&](const opdock_problem &problem, const opdock_call &) {
        scales.push_back(problem.attributes[0].as.f);
        names.emplace_back(problem.attributes[1].as.s);
        return OPDOCK_OK;
    };
    const Op op = t.host.op();
    const Rows &r = t.rows;
    const std::vector<float> three(3);
    op({r.x}, {r.y}, {three.size(), std::string_view("view")});
    op({r.x}, {r.y}, {4LL, std::string("text")});
    op({r.x}, {r.y}, {{"scale", 5u}, {"name", std::string_view("named view, cut").substr(0, 10)}});
    op({r.x}, {r.y}, {int16_t{6}, "literal"});
    op({r.x}, {r.y}, {7.5f});
    CHECK(scales == std::vector<double>{3, 4, 5, 6, 7.5});
    CHECK(names == std::vector<std::string>{"view", "text", "named view", "literal", ""});
    CHECK(Attribute(true).c().value.type == OPDOCK_VALUE_BOOL);
    CHECK(Attribute(size_t{1}).c().value.type == OPDOCK_VALUE_INT);
}

TEST_CASE("more shapes than a thread remembers are served right, in any order") {
    ThreeKinds t;
    std::vector<int64_t> seen;
    t.standard.work = [&](const opdock_problem &problem, const opdock_call &) {
        seen.push_back(problem.tensors[0]->shape[0]);
        return OPDOCK_OK;
    };
    std::vector<float> in(64), out(64);
    std::vector<int64_t> asked;
    for (int round = 0; round < 3; ++round) {
        for (int64_t n = 1; n <= 20; ++n) {
            const int64_t rows = round == 1 ? 21 - n : n;
            t.host.op()({Tensor(in.data(), f32, {rows, 3})}, {Tensor(out.data(), f32, {rows, 3})});
            asked.push_back(rows);
        }
    }
    CHECK(seen == asked);
    CHECK(t.host->served_count("test.add", "default.one") == 60);
}

TEST_CASE("strides that were null and strides that say the same both reach the kernel as numbers") {
    ThreeKinds t;
    std::vector<int64_t> seen;
    t.standard.work = [&](const opdock_problem &problem, const opdock_call &) {
        seen.push_back(problem.tensors[0]->strides[0]);
        return OPDOCK_OK;
    };
    DLTensor bare = t.rows.x.c();
    bare.strides = nullptr;
    for (int i = 0; i < 2; ++i) {
        t.host.op()({bare}, {t.rows.y});
        t.host.op()({t.rows.x}, {t.rows.y});
    }
    CHECK(seen == std::vector<int64_t>{3, 3, 3, 3});
}

TEST_CASE("the kernel's pointers have byte offsets applied, and are null for tensors without elements") {
    ThreeKinds t;
    std::vector<void *> seen;
    t.standard.work = [&](const opdock_problem &, const opdock_call &call) {
        seen.assign(call.data, call.data + 2);
        return OPDOCK_OK;
    };
    std::vector<float> in(8), out(8);
    DLTensor x = Tensor(in.data(), f32, {2, 3}).c();
    int64_t shape[] = {2, 3};
    x.shape = shape;
    x.strides = nullptr;
    x.byte_offset = 8;
    t.host.op()({x}, {Tensor(out.data(), f32, {2, 3})});
    CHECK(seen[0] == in.data() + 2);
    t.host.op()({Tensor(in.data(), f32, {0, 3})}, {Tensor(nullptr, f32, {0, 3})});
    CHECK(seen[0] == nullptr);
    CHECK(seen[1] == nullptr);
}

TEST_CASE("absent optional tensors are null for the kernel, left out or given as null") {
    MadeHost host;
    auto made = std::make_unique<Made>("default.pair", OPDOCK_KIND_DEFAULT);
    made->op = "test.pair";
    std::vector<int> present;
    made->work = [&](const opdock_problem &problem, const opdock_call &call) {
        present.push_back((problem.tensors[1] != nullptr ? 1 : 0) + (problem.tensors[3] != nullptr ? 2 : 0));
        CHECK((call.data[1] != nullptr) == (problem.tensors[1] != nullptr));
        return OPDOCK_OK;
    };
    host.add(std::move(made));
    std::vector<float> a(3), b(3), c(3), d(3);
    const Tensor ta(a.data(), f32, {3}), tb(b.data(), f32, {3}), tc(c.data(), f32, {3}), td(d.data(), f32, {3});
    const Op op = host.op("test.pair");
    for (int i = 0; i < 2; ++i) {
        op({ta}, {tc});
        op({ta, nullptr}, {tc, nullptr});
        op({ta, tb}, {tc, nullptr});
        op({ta, tb}, {tc, td});
    }
    CHECK(present == std::vector<int>{0, 0, 1, 3, 0, 0, 1, 3});
}

TEST_CASE("an implementation that needs contiguous tensors is passed over for views") {
    MadeHost host;
    auto picky = std::make_unique<Made>("default.picky", OPDOCK_KIND_DEFAULT, "", 1.0f);
    picky->required_flags = OPDOCK_IMPL_NEEDS_CONTIGUOUS;
    Made &made = host.add(std::move(picky));
    host.add("reference.any", OPDOCK_KIND_REFERENCE, {}, 3);
    Rows rows;
    CHECK(rows.added(host.op()) == 1);
    std::vector<float> wide(12);
    const Tensor view(wide.data(), f32, {2, 3}, test::cpu, {6, 1});
    CHECK(host.op().try_call({view}, {rows.y}) == OPDOCK_OK);
    CHECK(host->served_count("test.add", "reference.any") == 1);
    CHECK(made.calls == 1);
}

TEST_CASE("an implementation that needs aligned data is passed over for data that is not") {
    MadeHost host;
    auto picky = std::make_unique<Made>("default.picky", OPDOCK_KIND_DEFAULT, "", 1.0f);
    picky->alignment = 64;
    host.add(std::move(picky));
    host.add("reference.any", OPDOCK_KIND_REFERENCE, {}, 3);
    alignas(64) static float in[32];
    alignas(64) static float out[32];
    const auto added = [&](int shift) {
        host.op()({Tensor(in + shift, f32, {2, 3})}, {Tensor(out + shift, f32, {2, 3})});
        return out[shift];
    };
    CHECK(added(0) == 1);
    CHECK(added(1) == 3);
    CHECK(added(0) == 1);
    CHECK(added(16) == 1);
}

TEST_CASE("an implementation that asks for nothing else is given data aligned to its dtype") {
    MadeHost host;
    Made &usual = host.add("default.usual", OPDOCK_KIND_DEFAULT);
    auto undemanding = std::make_unique<Made>("reference.any", OPDOCK_KIND_REFERENCE);
    undemanding->alignment = 1;
    Made &any = host.add(std::move(undemanding));
    usual.work = any.work = [](const auto &, const auto &) { return OPDOCK_OK; };
    Rows rows;
    const Tensor odd(reinterpret_cast<char *>(rows.out.data()) + 1, f32, {1, 3});
    const Tensor input(rows.in.data(), f32, {1, 3});
    for (int i = 0; i < 2; ++i) {
        host.op()({input}, {Tensor(rows.out.data(), f32, {1, 3})});
        host.op()({input}, {odd});
    }
    CHECK(usual.calls == 2);
    CHECK(any.calls == 2);
    const core::Setting strict{"strict", "1"};
    const auto policy = std::make_shared<const core::Policy>(host->make_policy(std::span(&strict, 1)));
    host->set_program_policy(policy);
    CHECK(host.op().try_call({input}, {odd}) == OPDOCK_UNSUPPORTED);
    CHECK(contains(last_error(), "aligned to 4 bytes, and 'output' is not"));
}

TEST_CASE("tensors without elements may have any other dims and strides") {
    MadeHost host;
    auto made = std::make_unique<Made>("default.one", OPDOCK_KIND_DEFAULT);
    made->work = [](const auto &, const auto &) { return OPDOCK_OK; };
    Made &one = host.add(std::move(made));
    constexpr int64_t huge = std::numeric_limits<int64_t>::max();
    constexpr int64_t lowest = std::numeric_limits<int64_t>::min();
    for (const std::vector<int64_t> &strides :
         {std::vector<int64_t>{}, {lowest, 1, 1}, {1, huge, lowest}, {huge, huge, huge}}) {
        CallArguments call;
        call.in(OPDOCK_F32, {0, huge, huge}, strides).out(OPDOCK_F32, {0, huge, huge}, strides);
        CHECK(opdock_call_op(&host->op("test.add"), &call.args()) == OPDOCK_OK);
    }
    CHECK(one.calls == 4);
}

TEST_CASE("an implementation serves the dtypes it lists") {
    MadeHost host;
    auto half = std::make_unique<Made>("default.half", OPDOCK_KIND_DEFAULT);
    half->dtypes = "f16|bf16";
    half->work = [](const auto &, const auto &) { return OPDOCK_OK; };
    Made &only_half = host.add(std::move(half));
    host.add("reference.any", OPDOCK_KIND_REFERENCE, {}, 3);
    Rows rows;
    CHECK(rows.added(host.op()) == 3);
    std::vector<uint16_t> a(6), b(6);
    CHECK(host.op().try_call({Tensor(a.data(), bf16, {2, 3})}, {Tensor(b.data(), bf16, {2, 3})}) == OPDOCK_OK);
    CHECK(only_half.calls == 1);
}

TEST_CASE("dtypes that only absent tensors would tell do not keep an implementation from serving") {
    MadeHost host;
    auto listed = std::make_unique<Made>("default.listed", OPDOCK_KIND_DEFAULT);
    listed->op = "test.pair";
    listed->dtypes = "f32,f32|f32,bf16";
    listed->work = [](const auto &, const auto &) { return OPDOCK_OK; };
    Made &made = host.add(std::move(listed));
    std::vector<float> a(3), b(3), c(3);
    const Tensor ta(a.data(), f32, {3}), tb(b.data(), f16, {3}), tc(c.data(), f32, {3});
    CHECK(host.op("test.pair").try_call({ta}, {tc}) == OPDOCK_OK);
    CHECK(made.calls == 1);
    CHECK(host.op("test.pair").try_call({ta, tb}, {tc}) == OPDOCK_ALL_DROPPED);
    const Tensor half(a.data(), f16, {3}), half_out(c.data(), f16, {3});
    CHECK(host.op("test.pair").try_call({half}, {half_out}) == OPDOCK_ALL_DROPPED);
    CHECK(contains(last_error(), "it takes dtypes f32,f32 or f32,bf16, not f16,-"));
}

TEST_CASE("what is not available is dropped with its reason, and asked once") {
    MadeHost host;
    static std::atomic<int> asked{0};
    asked = 0;
    auto made = std::make_unique<Made>("default.one", OPDOCK_KIND_DEFAULT, "", 1.0f);
    made->adjust = [](opdock_impl &impl) {
        impl.available = [](const opdock_host_api *h, void *, DLDevice) {
            ++asked;
            return h->fail(h, OPDOCK_UNSUPPORTED, "libfast is not installed");
        };
    };
    host.add(std::move(made));
    Rows rows;
    for (int i = 0; i < 3; ++i) {
        CHECK(rows.call(host.op()) == OPDOCK_ALL_DROPPED);
    }
    CHECK(contains(last_error(), "libfast is not installed"));
    CHECK(asked == 1);
    host->refresh_availability();
    rows.call(host.op());
    CHECK(asked == 2);
}

TEST_CASE("nobody asks an implementation that is not chosen whether it is available") {
    MadeHost host;
    host.add("default.one", OPDOCK_KIND_DEFAULT, {}, 1);
    static std::atomic<int> asked{0};
    asked = 0;
    auto made = std::make_unique<Made>("reference.three", OPDOCK_KIND_REFERENCE, "", 3.0f);
    made->adjust = [](opdock_impl &impl) {
        impl.available = [](const opdock_host_api *, void *, DLDevice) {
            ++asked;
            return OPDOCK_OK;
        };
    };
    host.add(std::move(made));
    Rows rows;
    CHECK(rows.added(host.op()) == 1);
    CHECK(asked == 0);
}

TEST_CASE("knobs have the heuristic's values, or their defaults where it has no opinion") {
    MadeHost host;
    static const opdock_knob block = {
        OPDOCK_STRUCT_SIZE(opdock_knob, doc), OPDOCK_KNOB_INT, "block", 1, 64, 8, nullptr, nullptr};
    static const opdock_knob *const knobs[] = {&block};
    auto made = std::make_unique<Made>("default.one", OPDOCK_KIND_DEFAULT);
    std::vector<int64_t> seen;
    made->work = [&](const opdock_problem &problem, const opdock_call &) {
        seen.push_back(problem.knobs[0]);
        return OPDOCK_OK;
    };
    made->adjust = [](opdock_impl &impl) {
        impl.n_knobs = 1;
        impl.knobs = knobs;
        impl.heuristic = [](const opdock_problem *problem, int64_t *values) -> opdock_status {
            const int64_t n = problem->tensors[0]->shape[1];
            if (n == 1) {
                return OPDOCK_UNSUPPORTED;
            }
            values[0] = n;
            return OPDOCK_OK;
        };
    };
    host.add(std::move(made));
    std::vector<float> in(200), out(200);
    const auto call = [&](int64_t n) {
        return host.op().try_call({Tensor(in.data(), f32, {1, n})}, {Tensor(out.data(), f32, {1, n})});
    };
    CHECK(call(16) == OPDOCK_OK);
    CHECK(call(1) == OPDOCK_OK);
    CHECK(call(64) == OPDOCK_OK);
    CHECK(seen == std::vector<int64_t>{16, 8, 64});
    CHECK(call(100) == OPDOCK_ALL_FAILED);
    CHECK(contains(last_error(), "outside its range"));
}

TEST_CASE("`supports` is asked once for each problem that a thread remembers, and what it declines reaches no kernel") {
    MadeHost host;
    static int asked;
    asked = 0;
    auto picky = std::make_unique<Made>("default.one", OPDOCK_KIND_DEFAULT, "", 1.0f);
    picky->adjust = [](opdock_impl &impl) {
        impl.supports = [](const opdock_problem *problem) -> opdock_status {
            ++asked;
            return problem->attributes[0].as.f == 2 ? problem->host->fail(problem->host, OPDOCK_UNSUPPORTED, "no twos")
                                                    : OPDOCK_OK;
        };
    };
    const Made &first = host.add(std::move(picky));
    host.add("reference.two", OPDOCK_KIND_REFERENCE, "", 2);
    Rows rows;
    const Op add = host.op();
    for (int i = 0; i < 3; ++i) {
        add({rows.x}, {rows.y}, {1.0});
        CHECK(rows.out[0] - rows.in[0] == 1);
    }
    CHECK(asked == 1);
    for (int i = 0; i < 3; ++i) {
        add({rows.x}, {rows.y}, {2.0}); // another problem: the answer may depend on attributes
        CHECK(rows.out[0] - rows.in[0] == 2);
    }
    CHECK(asked == 2);
    CHECK(first.calls == 3);
}

TEST_CASE("state of a device is made once, and finished when the host closes") {
    static std::atomic<int> made_states{0}, finished{0};
    made_states = finished = 0;
    {
        MadeHost host;
        auto made = std::make_unique<Made>("default.one", OPDOCK_KIND_DEFAULT);
        made->work = [](const opdock_problem &problem, const opdock_call &) {
            return problem.device_state == &made_states ? OPDOCK_OK : OPDOCK_FAILED;
        };
        made->adjust = [](opdock_impl &impl) {
            impl.device_init = [](const opdock_host_api *, void *, DLDevice, void **state) -> opdock_status {
                ++made_states;
                *state = &made_states;
                return OPDOCK_OK;
            };
            impl.device_fini = [](const opdock_host_api *, void *, DLDevice, void *) { ++finished; };
        };
        host.add(std::move(made));
        std::vector<float> in(8), out(8);
        for (int64_t n = 1; n < 5; ++n) {
            CHECK(host.op().try_call({Tensor(in.data(), f32, {1, n})}, {Tensor(out.data(), f32, {1, n})}) == OPDOCK_OK);
        }
        CHECK(made_states == 1);
        CHECK(finished == 0);
    }
    CHECK(finished == 1);
}

TEST_CASE("a plan is made for each problem, reused, and destroyed with everything else") {
    static std::atomic<int> plans{0}, alive{0};
    plans = alive = 0;
    {
        MadeHost host;
        auto made = std::make_unique<Made>("default.one", OPDOCK_KIND_DEFAULT);
        made->work = [](const opdock_problem &problem, const opdock_call &) {
            return problem.plan == &plans ? OPDOCK_OK : OPDOCK_FAILED;
        };
        made->adjust = [](opdock_impl &impl) {
            impl.plan_create = [](const opdock_problem *, void **plan) -> opdock_status {
                ++plans;
                ++alive;
                *plan = &plans;
                return OPDOCK_OK;
            };
            impl.plan_destroy = [](const opdock_host_api *, void *, DLDevice, void *) { --alive; };
        };
        host.add(std::move(made));
        std::vector<float> in(64), out(64);
        for (int round = 0; round < 3; ++round) {
            for (int64_t n = 1; n < 5; ++n) {
                CHECK(host.op().try_call({Tensor(in.data(), f32, {1, n})}, {Tensor(out.data(), f32, {1, n})}) ==
                      OPDOCK_OK);
            }
        }
        CHECK(plans == 4);
        for (int64_t n = 1; n < 30; ++n) {
            host.op()({Tensor(in.data(), f32, {1, n})}, {Tensor(out.data(), f32, {1, n})});
        }
        CHECK(alive <= 8);
    }
    CHECK(alive == 0);
}

TEST_CASE("a workspace is aligned, large enough, and given back after the call") {
    static std::atomic<int> outstanding{0};
    outstanding = 0;
    core::HostOptions options;
    MadeHost host;
    auto made = std::make_unique<Made>("default.one", OPDOCK_KIND_DEFAULT);
    bool good = false;
    made->work = [&](const opdock_problem &, const opdock_call &call) {
        good = call.workspace != nullptr && reinterpret_cast<uintptr_t>(call.workspace) % 256 == 0 &&
               call.workspace_size >= 1000;
        std::fill_n(static_cast<char *>(call.workspace), 1000, 'x');
        return OPDOCK_OK;
    };
    made->adjust = [](opdock_impl &impl) {
        impl.workspace_size = [](const opdock_problem *, uint64_t *bytes) -> opdock_status {
            *bytes = 1000;
            return OPDOCK_OK;
        };
    };
    host.add(std::move(made));
    Rows rows;
    CHECK(rows.call(host.op()) == OPDOCK_OK);
    CHECK(good);
    const Tensor x(rows.in.data(), f32, {2, 3}, {kDLCPU, 0}, {3, 1}),
        y(rows.out.data(), f32, {2, 3}, {kDLCPU, 0}, {3, 1});
    for (int round = 0; round < 3; ++round) { // including calls that look like the one before
        good = false;
        CHECK(host.op().try_call({x}, {y}) == OPDOCK_OK);
        CHECK(good);
    }
    char small[16];
    CHECK(host.op().try_call(Args(std::array<TensorArg, 1>{rows.x}, std::array<TensorArg, 1>{rows.y})
                                 .workspace(small, sizeof small)) == OPDOCK_INVALID_ARGUMENT);
    CHECK(contains(last_error(), "needs 1000"));
}
