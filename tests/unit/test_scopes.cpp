#include "policy/policy_stack.hpp"

#include <thread>

#include <doctest/doctest.h>

#include "made_host.hpp"
#include "temporary_directory.hpp"

using namespace opdock;
using namespace opdock::test;

namespace {

struct Two {
    explicit Two(const std::string &system_policy = "/nonexistent") : host(core::RawEnvironment{}, system_policy) {
        host.add("default.one", OPDOCK_KIND_DEFAULT, {}, 1);
        host.add("vendor.acme", OPDOCK_KIND_VENDOR, "acme", 2);
        host.add("reference.three", OPDOCK_KIND_REFERENCE, {}, 3);
    }
    float added() { return rows.added(host.op()); }

    MadeHost host;
    Rows rows;
};

// A scope of the calling thread.
class Scope {
  public:
    Scope(core::Host &host, core::PolicyPtr policy) : host_(host) { host_.push_scope(std::move(policy)); }
    Scope(const Scope &) = delete;
    Scope &operator=(const Scope &) = delete;
    ~Scope() { host_.pop_scope(); }

  private:
    core::Host &host_;
};

} // namespace

TEST_CASE("a scope's policy holds inside it and not after it") {
    Two t;
    CHECK(t.added() == 1);
    {
        const Scope scope(*t.host, t.host.policy("prefer", "vendor"));
        CHECK(t.added() == 2);
        CHECK(t.added() == 2);
    }
    CHECK(t.added() == 1);
}

TEST_CASE("scopes nest item by item") {
    Two t;
    const Scope outer(*t.host, t.host.policy("prefer", "vendor"));
    {
        const Scope inner(*t.host, t.host.policy("deny_vendors", "acme"));
        CHECK(t.added() == 1); // vendors come first, but acme is denied
        {
            const Scope innermost(*t.host, t.host.policy("per_op", "test.add=reference"));
            CHECK(t.added() == 3);
        }
        CHECK(t.added() == 1);
    }
    CHECK(t.added() == 2);
}

TEST_CASE("a scope belongs to its thread") {
    Two t;
    const Scope scope(*t.host, t.host.policy("prefer", "vendor"));
    float elsewhere = 0;
    std::thread([&] {
        Rows rows;
        elsewhere = rows.added(t.host.op());
    }).join();
    CHECK(elsewhere == 1);
    CHECK(t.added() == 2);
}

TEST_CASE("the effective policy can be handed to a worker") {
    Two t;
    const Scope scope(*t.host, t.host.policy("prefer", "vendor"));
    const auto effective = std::make_shared<const core::Policy>(t.host->effective_policy().flattened());
    float inside = 0;
    std::thread([&] {
        const Scope same(*t.host, effective);
        Rows rows;
        inside = rows.added(t.host.op());
    }).join();
    CHECK(inside == 2);
}

TEST_CASE("a scope sees the policy of the program change below it") {
    Two t;
    const Scope scope(*t.host, t.host.policy("deny_vendors", "nobody"));
    CHECK(t.added() == 1);
    t.host->set_program_policy(t.host.policy("prefer", "reference"));
    CHECK(t.added() == 3);
    t.host->set_program_policy(nullptr);
    CHECK(t.added() == 1);
}

TEST_CASE("what the administrator enforces is above scopes") {
    const TemporaryDirectory folder;
    const std::string file = folder.write("policy.yaml", "enforce:\n  prefer: reference\n").string();
    Two t(file);
    const Scope scope(*t.host, t.host.policy("prefer", "vendor"));
    CHECK(t.added() == 3);
}

TEST_CASE("leaving a scope that was never entered is an error") {
    Two t;
    CHECK_THROWS_AS(t.host->pop_scope(), core::Error);
}

TEST_CASE("a scope of one host does not touch another") {
    Two one, two;
    const Scope scope(*one.host, one.host.policy("prefer", "vendor"));
    CHECK(one.added() == 2);
    CHECK(two.added() == 1);
}

TEST_CASE("a failure inside a scope takes the implementation out of the chain everywhere") {
    Two t;
    Made &flaky = t.host.add("vendor.beta", OPDOCK_KIND_VENDOR, "beta", 9);
    flaky.status = OPDOCK_FAILED_CLEAN;
    {
        const Scope scope(*t.host, t.host.policy("per_op", "test.add=vendor:beta|default"));
        for (int i = 0; i < 4; ++i) {
            CHECK(t.added() == 1);
        }
    }
    CHECK(flaky.calls == 3);
}

TEST_CASE("a policy that names what nobody has is told when it is made, and refused in strict mode") {
    MadeHost host;
    host.add("vendor.acme", OPDOCK_KIND_VENDOR, "acme");
    host.policy("deny_vendors", "amce");
    CHECK(host.logged("setting 'deny_vendors': no plugin is from vendor 'amce'; did you mean 'acme'?") == 1);
    host.policy("per_op", "test.addd=default");
    CHECK(host.logged("no plugin declares op 'test.addd'") == 1);
    MadeHost strict(core::RawEnvironment{{"PLUGIN_STRICT", "1"}});
    strict.add("vendor.acme", OPDOCK_KIND_VENDOR, "acme");
    CHECK_THROWS_WITH_AS(strict.policy("allow_vendors", "amce"), doctest::Contains("'amce'"), core::Error);
}
