#include "resolve/resolve_error.hpp"

#include <array>
#include <string>

#include <doctest/doctest.h>

using namespace opdock::core;

namespace {

Key on_cpu() {
    Key key;
    key.device_type = "cpu";
    return key;
}

Decision decision(std::vector<std::string> chain, bool strict = false) {
    Decision result;
    for (std::string &impl_id : chain) {
        result.chain.push_back({0, std::move(impl_id), Kind::default_, "", {}, "", Availability::yes});
    }
    result.dropped = {{1, "vendor.beta", Rule::deny_vendors, "vendor 'beta' is denied by PLUGIN_DENY_VENDORS"}};
    result.policy.order = preferred_order(Kind::vendor);
    result.policy.order_source = "PLUGIN_PREFER";
    result.policy.items.strict = Item<bool>{strict, strict ? "PLUGIN_STRICT" : "default"};
    return result;
}

} // namespace

TEST_CASE("an op nobody declares suggests the nearest and lists the plugins that were not taken") {
    constexpr std::array<std::string_view, 2> known = {"gelu", "rmsnorm_fwd"};
    const std::array<std::string, 1> rejected = {"/opt/libacme.so: built for ABI 2.0"};
    const Error error = unknown_op_error("rmsnorm_fwdd", known, rejected);
    CHECK(error.status() == OPDOCK_UNKNOWN_OP);
    CHECK(std::string(error.what()) ==
          "no plugin declares op 'rmsnorm_fwdd'; did you mean 'rmsnorm_fwd'?\n"
          "These plugins were rejected:\n"
          "  /opt/libacme.so: built for ABI 2.0\n"
          "Install a plugin that declares it, or name one as a module; plugin-ls lists the available plugins.");
}

TEST_CASE("an op by a name that others call it says what opdock calls it, and no more") {
    CHECK(std::string(unknown_op_error("rms_norm", {}, {}).what()) ==
          "no plugin declares op 'rms_norm'; opdock calls that 'rmsnorm_fwd'.");
}

TEST_CASE("a standard op that nobody brings is no misspelling of one that somebody does") {
    constexpr std::array<std::string_view, 2> known = {"gelu", "rmsnorm_fwd"};
    const Error error = unknown_op_error("qgelu", known, {});
    CHECK(error.status() == OPDOCK_UNKNOWN_OP);
    CHECK(std::string(error.what()) ==
          "'qgelu' is a standard op that no loaded plugin implements\n"
          "Install a plugin that implements it, or name one as a module; plugin-ls lists the available plugins.");
}

TEST_CASE("an op that nobody implements names who declared it") {
    const std::array<std::string, 2> plugins = {"acme", "cpu"};
    const Error error = no_implementation_error("gelu", plugins, {});
    CHECK(error.status() == OPDOCK_NO_IMPLEMENTATION);
    CHECK(std::string(error.what()) == "op 'gelu' is declared by 'acme', 'cpu', but no plugin implements it\n"
                                       "Install a plugin that implements it; plugin-ls lists the available plugins.");
}

TEST_CASE("an op whose implementations were all dropped lists each with its rule") {
    const Error error = all_dropped_error("gelu", on_cpu(), decision({}));
    CHECK(error.status() == OPDOCK_ALL_DROPPED);
    CHECK(
        std::string(error.what()) ==
        "op 'gelu' has no implementation left for cpu:0:\n"
        "  vendor.beta: vendor 'beta' is denied by PLUGIN_DENY_VENDORS (deny_vendors)\n"
        "The order is vendor|default|reference (PLUGIN_PREFER). Change the policy named above, or install a plugin for "
        "this device and these dtypes.");
}

TEST_CASE("what failures dropped comes back with reset_health, and the error says so") {
    Decision unhealthy = decision({});
    unhealthy.dropped.push_back({2, "vendor.gamma", Rule::health, "failed 3 times in a row, last with: no"});
    const std::string both = all_dropped_error("gelu", on_cpu(), unhealthy).what();
    CHECK(both.find("Change the policy named above") != std::string::npos);
    CHECK(both.ends_with("\nopdock_reset_health (C++: host.reset_health) brings back what health dropped, once the "
                         "cause of the failures is gone."));
    unhealthy.dropped.erase(unhealthy.dropped.begin());
    const std::string health_alone = all_dropped_error("gelu", on_cpu(), unhealthy).what();
    CHECK(health_alone.find("Change the policy") == std::string::npos);
    CHECK(health_alone.find("opdock_reset_health") != std::string::npos);
}

TEST_CASE("an op whose implementations all failed lists what each said, and what was not tried") {
    const std::array<Failure, 2> failures = {Failure{"vendor.acme", "FAILED: no"},
                                             Failure{"default.cpu", "UNSUPPORTED: n must be even"}};
    const Error error = all_failed_error("gelu", on_cpu(), decision({"vendor.acme", "default.cpu"}), failures);
    CHECK(error.status() == OPDOCK_ALL_FAILED);
    CHECK(std::string(error.what()) == "op 'gelu' was not served on cpu:0:\n"
                                       "  vendor.acme: FAILED: no\n"
                                       "  default.cpu: UNSUPPORTED: n must be even\n"
                                       "Not tried:\n"
                                       "  vendor.beta: vendor 'beta' is denied by PLUGIN_DENY_VENDORS (deny_vendors)");
}

TEST_CASE("where strict kept the rest of the chain from being tried, the error says who is strict") {
    const std::array<Failure, 1> failures = {Failure{"vendor.acme", "UNSUPPORTED: n must be even"}};
    const std::string strict =
        all_failed_error("gelu", on_cpu(), decision({"vendor.acme", "default.cpu"}, true), failures).what();
    CHECK(strict.find("\nNothing else was tried because PLUGIN_STRICT is strict.\n") != std::string::npos);
    const std::string alone = all_failed_error("gelu", on_cpu(), decision({"vendor.acme"}, true), failures).what();
    CHECK(alone.find("Nothing else was tried") == std::string::npos);
}

TEST_CASE("an error about many implementations, or a long order, has an end") {
    Decision many = decision({});
    many.policy.order.clear();
    for (int i = 0; i < 1700; ++i) {
        many.policy.order.push_back(Token::of_impl("vendor.made" + std::to_string(i)));
    }
    std::vector<Failure> failures;
    for (uint32_t i = 0; i < 2000; ++i) {
        const std::string impl_id = "vendor.gamma" + std::to_string(i);
        many.dropped.push_back({i, impl_id, Rule::order, "no token of the order " + shown_order(many.policy.order)});
        failures.push_back({impl_id, "FAILED: no"});
    }
    const std::string dropped = all_dropped_error("gelu", on_cpu(), many).what();
    CHECK(dropped.size() < 100'000);
    CHECK(dropped.find("vendor.gamma98: no token of the order impl:vendor.made0|impl:vendor.made1|") !=
          std::string::npos);
    CHECK(dropped.find("vendor.gamma99") == std::string::npos);
    CHECK(dropped.find("|... (1700 tokens)") != std::string::npos);
    CHECK(dropped.find("\n  and 1901 more\n") != std::string::npos);
    const std::string failed = all_failed_error("gelu", on_cpu(), many, failures).what();
    CHECK(failed.size() < 100'000);
    CHECK(failed.find("\n  vendor.gamma99: FAILED: no\n  and 1900 more\nNot tried:") != std::string::npos);
    CHECK(failed.find("no token of the order") == std::string::npos);
}

TEST_CASE("a hundred implementations are listed whole, and an order of sixteen tokens") {
    Decision several = decision({});
    several.policy.order.clear();
    several.dropped.clear();
    std::vector<Failure> failures;
    for (uint32_t i = 0; i < 100; ++i) {
        const std::string impl_id = "vendor.gamma" + std::to_string(i);
        several.dropped.push_back({i, impl_id, Rule::order, "no"});
        failures.push_back({impl_id, "FAILED: no"});
    }
    for (int i = 0; i < 16; ++i) {
        several.policy.order.push_back(Token::of_impl("vendor.made" + std::to_string(i)));
    }
    CHECK(shown_order(several.policy.order).ends_with("|impl:vendor.made15"));
    const std::string dropped = all_dropped_error("gelu", on_cpu(), several).what();
    CHECK(dropped.find("vendor.gamma99: no (") != std::string::npos);
    CHECK(dropped.find(" more\n") == std::string::npos);
    CHECK(std::string(all_failed_error("gelu", on_cpu(), several, failures).what()).find(" more\n") ==
          std::string::npos);

    several.policy.order.push_back(Token::of_impl("vendor.made16"));
    CHECK(shown_order(several.policy.order).ends_with("|impl:vendor.made15|... (17 tokens)"));
    several.dropped.push_back({100, "vendor.gamma100", Rule::order, "no"});
    CHECK(std::string(all_dropped_error("gelu", on_cpu(), several).what()).find("\n  and 1 more\n") !=
          std::string::npos);
}
