#include "policy/policy_stack.hpp"

#include <array>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace opdock::core;

namespace {

// The layers from the top, in the order of the design.
enum Layer { enforce, inner_scope, outer_scope, program, environment, config, system_file, n_layers };
constexpr std::array<const char *, n_layers> layer_names = {"enforce",     "inner scope", "outer scope", "program",
                                                            "environment", "config",      "system"};

// The settings by name, and the items beside them.
using What = std::string_view;
constexpr What prefer = settings::prefer.name;
constexpr What strict = settings::strict.name;
constexpr What allow = settings::allow_vendors.name;
constexpr What deny = settings::deny_vendors.name;
constexpr What retry = settings::retry_failed.name;
constexpr What per_op = "per_op";
constexpr What required = "require";
constexpr What required_of_op = "require of an op";
constexpr auto items = std::apply(
    [](const auto &...records) {
        return std::array{records.name..., per_op, required, required_of_op};
    },
    settings::all);

// Sets one of two different values of a setting.
void choose(Kind &value, bool first) {
    value = first ? Kind::vendor : Kind::reference;
}
void choose(bool &value, bool first) {
    value = first;
}
void choose(double &value, bool first) {
    value = first ? 5 : 7;
}
void choose(Vendors &value, bool first) {
    value = {first ? "acme" : "beta"};
}

// Sets one of two different values of an item; `source` names its origin.
void set(PolicySection &section, What item, bool first, const std::string &source) {
    if (item == required) {
        section.require = Item<Contracts>{{first ? OPDOCK_IMPL_DETERMINISTIC : OPDOCK_IMPL_BATCH_INVARIANT}, source};
    } else if (item == required_of_op) {
        section.require_per_op["gelu"] = Item<Contracts>{{first ? 1u : 5u}, source};
    } else if (item == per_op) {
        section.per_op["gelu"] = Item<Order>{{Token::of_kind(first ? Kind::vendor : Kind::reference)}, source};
    }
    for_each_setting([&]<class T>(const SettingRecord<T> &record) {
        if (record.name == item) {
            T value;
            choose(value, first);
            section.*record.member = Item<T>{value, source};
        }
    });
}

PolicyPtr policy_with(What item, bool first, const std::string &source, const std::string &device = {}) {
    Policy policy;
    set(device.empty() ? policy.everywhere : policy.devices[device], item, first, source);
    return std::make_shared<const Policy>(std::move(policy));
}

void put(PolicyStack &stack, Layer layer, PolicyPtr policy) {
    stack.scopes.resize(2);
    PolicyPtr *const places[n_layers] = {&stack.enforce,     &stack.scopes[1], &stack.scopes[0], &stack.program,
                                         &stack.environment, &stack.config,    &stack.system};
    *places[layer] = std::move(policy);
}

// The value and its source as text: "first of PLUGIN_PREFER".
std::string seen_as(bool first, const std::string &source) {
    return (first ? "first of " : "second of ") + source;
}

// The value and source in force for `item`.
std::string seen(const OpPolicy &policy, What item) {
    if (item == required) {
        return seen_as(policy.required.front().value.flags == OPDOCK_IMPL_DETERMINISTIC,
                       policy.required.front().source);
    }
    if (item == required_of_op) {
        return seen_as(policy.required.back().value.flags == 1u, policy.required.back().source);
    }
    std::string text;
    for_each_setting([&]<class T>(const SettingRecord<T> &record) {
        if (record.name == item) {
            T first;
            choose(first, true);
            text = seen_as((policy.items.*record.member)->value == first, policy.source(record));
        }
    });
    // The order is derived from one of two items.
    return item == prefer || item == per_op
               ? seen_as(policy.order.front() == Token::of_kind(Kind::vendor), policy.order_source)
               : text;
}

// All devices that the tests below make sections for, another one, and none.
constexpr std::array<std::pair<const char *, int>, 6> devices = {
    {{"", -1}, {"cpu", 0}, {"cuda", 0}, {"cuda", 1}, {"cuda", -1}, {"hip", 0}}};

} // namespace

TEST_CASE("without any source, default is preferred and nothing is strict") {
    const OpPolicy policy = PolicyStack().effective("gelu", "cpu", 0);
    CHECK(order_text(policy.order) == "default|vendor|reference");
    CHECK_FALSE(policy.value(settings::strict));
    CHECK_FALSE(policy.items.allow_vendors);
    CHECK_FALSE(policy.items.deny_vendors);
    CHECK(policy.order_source == "built-in");
    for_each_setting([&](const auto &record) { CHECK(policy.source(record) == "built-in"); });
}

TEST_CASE("of every two layers the higher decides each item, alone and whole") {
    for (const What what : items) {
        for (int high = 0; high < n_layers; ++high) {
            for (int low = high + 1; low < n_layers; ++low) {
                for (const bool first : {false, true}) {
                    CAPTURE(what);
                    CAPTURE(layer_names[static_cast<std::size_t>(high)]);
                    CAPTURE(layer_names[static_cast<std::size_t>(low)]);
                    PolicyStack stack;
                    put(stack, static_cast<Layer>(low), policy_with(what, !first, "low"));
                    CHECK(seen(stack.effective("gelu", "cpu", 0), what) == seen_as(!first, "low"));
                    put(stack, static_cast<Layer>(high), policy_with(what, first, "high"));
                    CHECK(seen(stack.effective("gelu", "cpu", 0), what) == seen_as(first, "high"));
                }
            }
        }
    }
}

TEST_CASE("a layer that has one item leaves the others to the layers below") {
    for (int high = 0; high < n_layers; ++high) {
        for (int low = high + 1; low < n_layers; ++low) {
            for (const What what : items) {
                for (const What other : items) {
                    // An op's order hides the preferred order, whatever their layers; tested below.
                    if (what == other || (what == per_op && other == prefer) || (what == prefer && other == per_op)) {
                        continue;
                    }
                    PolicyStack stack;
                    put(stack, static_cast<Layer>(high), policy_with(what, true, "high"));
                    put(stack, static_cast<Layer>(low), policy_with(other, true, "low"));
                    const OpPolicy policy = stack.effective("gelu", "cpu", 0);
                    CAPTURE(what);
                    CAPTURE(other);
                    CHECK(seen(policy, what) == seen_as(true, "high"));
                    CHECK(seen(policy, other) == seen_as(true, "low"));
                }
            }
        }
    }
}

TEST_CASE("lists never merge") {
    PolicyStack stack;
    put(stack, system_file, policy_with(deny, true, "system"));
    put(stack, environment, policy_with(deny, false, "environment"));
    CHECK(stack.effective("gelu", "cpu", 0).items.deny_vendors->value == Vendors{"beta"});
}

TEST_CASE("an empty list replaces the list of a lower layer") {
    Policy nobody;
    nobody.everywhere.allow_vendors = Item<Vendors>{{}, "scope"};
    nobody.everywhere.deny_vendors = Item<Vendors>{{}, "scope"};
    PolicyStack stack;
    put(stack, environment, policy_with(allow, true, "environment"));
    put(stack, config, policy_with(deny, true, "config"));
    put(stack, inner_scope, std::make_shared<const Policy>(nobody));
    const OpPolicy policy = stack.effective("gelu", "cpu", 0);
    CHECK(policy.items.allow_vendors->value == Vendors{});
    CHECK(policy.items.deny_vendors->value == Vendors{});
}

TEST_CASE("an op's order replaces the preferred order of every layer, and of that op alone") {
    for (int layer = 0; layer < n_layers; ++layer) {
        CAPTURE(layer_names[static_cast<std::size_t>(layer)]);
        PolicyStack stack;
        put(stack, system_file, policy_with(per_op, true, "order"));
        Policy both = stack.system ? *stack.system : Policy();
        put(stack, static_cast<Layer>(layer), policy_with(prefer, false, "preferred"));
        if (layer == system_file) {
            set(both.everywhere, prefer, false, "preferred");
            stack.system = std::make_shared<const Policy>(both);
        }
        const OpPolicy ordered = stack.effective("gelu", "cpu", 0);
        CHECK(order_text(ordered.order) == "vendor");
        CHECK(ordered.order_source == "order");
        const OpPolicy other = stack.effective("silu", "cpu", 0);
        CHECK(order_text(other.order) == "reference|default|vendor");
        CHECK(other.order_source == "preferred");
    }
}

TEST_CASE("what an op has to promise is beside what all have to, whichever layers say so") {
    for (int layer = 0; layer < n_layers; ++layer) {
        for (int of_op = 0; of_op < n_layers; ++of_op) {
            if (layer == of_op) {
                continue;
            }
            PolicyStack stack;
            put(stack, static_cast<Layer>(layer), policy_with(required, true, "all"));
            put(stack, static_cast<Layer>(of_op), policy_with(required_of_op, false, "op"));
            const OpPolicy gelu = stack.effective("gelu", "cpu", 0);
            REQUIRE(gelu.required.size() == 2);
            CHECK(gelu.required[0].source == "all");
            CHECK(gelu.required[1].source == "op");
            const OpPolicy silu = stack.effective("silu", "cpu", 0);
            REQUIRE(silu.required.size() == 1);
            CHECK(gelu.required_beyond(silu)->source == "op");
            CHECK(silu.required_beyond(gelu) == nullptr);
        }
    }
}

TEST_CASE("nothing in a scope takes away what is enforced") {
    PolicyStack stack;
    put(stack, enforce, policy_with(required, true, "enforced"));
    Policy nothing;
    nothing.everywhere.require = Item<Contracts>{{}, "scope"};
    nothing.everywhere.require_per_op["gelu"] = Item<Contracts>{{}, "scope"};
    put(stack, inner_scope, std::make_shared<const Policy>(nothing));
    const OpPolicy policy = stack.effective("gelu", "cpu", 0);
    REQUIRE(policy.required.size() == 1);
    CHECK(policy.required[0].source == "enforced");
    put(stack, enforce, nullptr);
    put(stack, system_file, policy_with(required, true, "system"));
    CHECK(stack.effective("gelu", "cpu", 0).required.empty());
}

TEST_CASE("the orders of two ops are two items") {
    Policy high;
    high.everywhere.per_op["gelu"] = Item<Order>{{Token::of_vendor("acme")}, "high"};
    Policy low;
    low.everywhere.per_op["gelu"] = Item<Order>{{Token::of_kind(Kind::reference)}, "low"};
    low.everywhere.per_op["silu"] = Item<Order>{{Token::of_impl("vendor.beta")}, "low"};
    PolicyStack stack;
    put(stack, program, std::make_shared<const Policy>(high));
    put(stack, environment, std::make_shared<const Policy>(low));
    CHECK(order_text(stack.effective("gelu", "cpu", 0).order) == "vendor:acme");
    CHECK(order_text(stack.effective("silu", "cpu", 0).order) == "impl:vendor.beta");
}

TEST_CASE("inside a layer the section for a device is above that for its kind, and that above the rest") {
    for (int layer = 0; layer < n_layers; ++layer) {
        for (const What what : items) {
            CAPTURE(layer_names[static_cast<std::size_t>(layer)]);
            CAPTURE(what);
            Policy policy;
            set(policy.everywhere, what, true, "everywhere");
            set(policy.devices["cuda"], what, false, "kind");
            set(policy.devices["cuda:1"], what, true, "device");
            PolicyStack stack;
            put(stack, static_cast<Layer>(layer), std::make_shared<const Policy>(policy));
            CHECK(seen(stack.effective("gelu", "cuda", 1), what) == seen_as(true, "device"));
            CHECK(seen(stack.effective("gelu", "CUDA", 1), what) == seen_as(true, "device"));
            CHECK(seen(stack.effective("gelu", "cuda", 0), what) == seen_as(false, "kind"));
            CHECK(seen(stack.effective("gelu", "cuda", -1), what) == seen_as(false, "kind"));
            CHECK(seen(stack.effective("gelu", "cpu", 0), what) == seen_as(true, "everywhere"));
            CHECK(seen(stack.effective("gelu", "", -1), what) == seen_as(true, "everywhere"));
        }
    }
}

TEST_CASE("a higher layer's item for everything is above a lower layer's section for the device") {
    for (const What what : items) {
        CAPTURE(what);
        PolicyStack stack;
        put(stack, config, policy_with(what, false, "section", "cuda:0"));
        put(stack, environment, policy_with(what, true, "variable"));
        CHECK(seen(stack.effective("gelu", "cuda", 0), what) == seen_as(true, "variable"));
    }
}

TEST_CASE("an op's order for a device leaves the other devices their preferred order") {
    PolicyStack stack;
    put(stack, config, policy_with(per_op, true, "section", "cuda"));
    CHECK(order_text(stack.effective("gelu", "cuda", 0).order) == "vendor");
    CHECK(order_text(stack.effective("gelu", "cpu", 0).order) == "default|vendor|reference");
}

TEST_CASE("an item of the program takes its source from the layer it is put into") {
    PolicyStack stack;
    put(stack, program, policy_with(strict, true, ""));
    CHECK(stack.effective("gelu", "cpu", 0).source(settings::strict) == "program");
    put(stack, outer_scope, policy_with(strict, false, ""));
    CHECK(stack.effective("gelu", "cpu", 0).source(settings::strict) == "scope");
}

TEST_CASE("strictness without a device heeds no section") {
    PolicyStack stack;
    put(stack, config, policy_with(strict, true, "section", "cuda"));
    CHECK_FALSE(stack.strict());
    put(stack, system_file, policy_with(strict, true, "file"));
    CHECK(stack.strict());
    put(stack, inner_scope, policy_with(strict, false, "scope"));
    CHECK_FALSE(stack.strict());
}

TEST_CASE("the effective policy as one value decides everything as the stack did, sources included") {
    PolicyStack stack;
    Policy file;
    set(file.everywhere, strict, true, "file");
    set(file.everywhere, per_op, true, "file");
    set(file.everywhere, retry, true, "file");
    set(file.devices["cuda"], prefer, true, "file:cuda");
    set(file.devices["cuda:1"], strict, false, "file:cuda:1");
    set(file.devices["hip"], per_op, false, "file:hip");
    Policy variables;
    set(variables.everywhere, allow, true, "variable");
    set(variables.devices["cuda"], deny, false, "variable:cuda");
    put(stack, system_file, std::make_shared<const Policy>(file));
    put(stack, environment, std::make_shared<const Policy>(variables));
    put(stack, program, policy_with(prefer, false, ""));
    put(stack, enforce, policy_with(deny, true, "enforced", "cuda:0"));
    put(stack, inner_scope, policy_with(strict, false, "", "cpu"));

    PolicyStack elsewhere;
    elsewhere.scopes = {std::make_shared<const Policy>(stack.flattened())};
    for (const auto &[kind, index] : devices) {
        for (const char *op : {"gelu", "silu"}) {
            const std::pair tried(kind, index);
            CAPTURE(tried.first);
            CAPTURE(tried.second);
            CAPTURE(op);
            CHECK(elsewhere.effective(op, kind, index) == stack.effective(op, kind, index));
        }
    }
}

TEST_CASE("a worker with the effective policy does not see what the program changes later, but what is enforced") {
    PolicyStack stack;
    put(stack, environment, policy_with(prefer, true, "variable"));
    PolicyStack worker;
    worker.scopes = {std::make_shared<const Policy>(stack.flattened())};
    for (const What what : items) {
        Policy later = worker.program ? *worker.program : Policy();
        set(later.everywhere, what, true, "later");
        worker.program = std::make_shared<const Policy>(later);
    }
    CHECK(worker.effective("gelu", "cpu", 0) == stack.effective("gelu", "cpu", 0));
    worker.enforce = policy_with(strict, true, "enforced");
    CHECK(worker.effective("gelu", "cpu", 0).source(settings::strict) == "enforced");
}

TEST_CASE("where a flattened policy is a scope, nothing below it adds what it left open") {
    const Policy nothing = PolicyStack().flattened();
    for (const What what : items) {
        PolicyStack stack;
        put(stack, program, policy_with(what, true, "program"));
        stack.scopes = {std::make_shared<const Policy>(nothing)};
        CHECK(stack.flattened() == nothing);
    }
}

TEST_CASE("flattening a flattened policy changes nothing") {
    PolicyStack stack;
    put(stack, config, policy_with(strict, true, "section", "cuda"));
    put(stack, program, policy_with(per_op, true, ""));
    PolicyStack again;
    again.scopes = {std::make_shared<const Policy>(stack.flattened())};
    CHECK(again.flattened() == stack.flattened());
}

TEST_CASE("sections that say nothing new are left out of the effective policy") {
    PolicyStack stack;
    put(stack, config, policy_with(strict, true, "section", "cuda"));
    put(stack, environment, policy_with(strict, false, "variable"));
    CHECK(stack.flattened().devices.empty());
}

TEST_CASE("a device that goes back to what holds everywhere keeps its section in the effective policy") {
    Policy policy;
    set(policy.everywhere, strict, true, "file");
    set(policy.devices["cuda"], strict, false, "file");
    set(policy.devices["cuda:0"], strict, true, "file");
    set(policy.devices["cuda:1"], strict, false, "file");
    PolicyStack stack;
    put(stack, config, std::make_shared<const Policy>(policy));
    const Policy flattened = stack.flattened();
    CHECK(flattened.devices.contains("cuda:0"));
    CHECK_FALSE(flattened.devices.contains("cuda:1")); // it repeats the section "cuda"
    PolicyStack worker;
    worker.scopes = {std::make_shared<const Policy>(flattened)};
    CHECK(worker.effective("gelu", "cuda", 0).value(settings::strict));
    CHECK_FALSE(worker.effective("gelu", "cuda", 1).value(settings::strict));
}

TEST_CASE("the section of one device has in the effective policy what holds for its type") {
    Policy policy;
    set(policy.devices["cuda"], strict, true, "file");
    set(policy.devices["cuda:0"], prefer, true, "file");
    PolicyStack stack;
    put(stack, config, std::make_shared<const Policy>(policy));
    const Policy flattened = stack.flattened();
    REQUIRE(flattened.devices.contains("cuda:0"));
    CHECK(flattened.devices.at("cuda:0").strict->value);
    PolicyStack worker;
    worker.scopes = {std::make_shared<const Policy>(flattened)};
    CHECK(worker.effective("gelu", "cuda", 0) == stack.effective("gelu", "cuda", 0));
}

TEST_CASE("trust is decided by the highest source that is known when a host opens") {
    const auto with = [](Trust trust, const char *source) {
        Policy policy;
        policy.trust = Item<Trust>{trust, source};
        return std::make_shared<const Policy>(policy);
    };
    PolicyStack stack;
    CHECK(stack.trust().mode == Trust::off);
    CHECK(stack.trust().source == "built-in");
    CHECK(stack.trust().digests == nullptr);
    stack.system = with(Trust::warn, "system");
    CHECK(stack.trust().mode == Trust::warn);
    stack.config = with(Trust::require, "config");
    CHECK(stack.trust().mode == Trust::require);
    stack.environment = with(Trust::off, "variable");
    CHECK(stack.trust().source == "variable");
    stack.program = with(Trust::require, "program");
    stack.scopes = {std::make_shared<const Policy>(stack.flattened())};
    CHECK(stack.trust().source == "variable");
    stack.enforce = with(Trust::require, "enforce");
    CHECK(stack.trust().source == "enforce");
    CHECK(stack.flattened().trust->value == Trust::require);
}

TEST_CASE("the policy prints every item with its source") {
    PolicyStack stack;
    Policy variables;
    set(variables.everywhere, prefer, true, "PLUGIN_PREFER");
    variables.everywhere.allow_vendors = Item<Vendors>{{}, "PLUGIN_ALLOW_VENDORS"};
    set(variables.everywhere, per_op, true, "PLUGIN_PER_OP");
    set(variables.everywhere, required, false, "PLUGIN_REQUIRE");
    set(variables.everywhere, required_of_op, true, "PLUGIN_REQUIRE");
    put(stack, environment, std::make_shared<const Policy>(variables));
    put(stack, config, policy_with(strict, true, "/p.yaml:4:5", "cuda:0"));
    const nlohmann::json json = policy_json(stack.flattened());
    nlohmann::json expected = {
        {"prefer", "vendor"},
        {"strict", false},
        {"allow_vendors", nlohmann::json::array()},
        {"deny_vendors", nullptr},
        {"per_op", {{"gelu", {"vendor"}}}},
        {"retry_failed", 60.0},
        {"fallback_to_cpu", false},
        {"require", {"batch_invariant"}},
        {"require_per_op", {{"gelu", {"deterministic"}}}},
        {"sources",
         {{"prefer", "PLUGIN_PREFER"},
          {"strict", "built-in"},
          {"allow_vendors", "PLUGIN_ALLOW_VENDORS"},
          {"deny_vendors", "built-in"},
          {"retry_failed", "built-in"},
          {"fallback_to_cpu", "built-in"},
          {"require", "PLUGIN_REQUIRE"},
          {"require.gelu", "PLUGIN_REQUIRE"},
          {"per_op.gelu", "PLUGIN_PER_OP"}}},
    };
    for_each_setting([&](const auto &record) { // nobody set the other settings
        const std::string name(record.name);
        if (!expected.contains(name)) {
            expected[name] = json[name];
            expected["sources"][name] = "built-in";
        }
    });
    nlohmann::json section = expected;
    section["strict"] = true;
    section["sources"]["strict"] = "/p.yaml:4:5";
    expected["devices"]["cuda:0"] = section;
    expected["trust"] = "off";
    expected["trusted_sha256"] = nullptr;
    expected["sources"]["trust"] = "built-in";
    expected["default_plugins"] = nullptr;
    expected["sources"]["default_plugins"] = "built-in";
    expected["sources"]["trusted_sha256"] = "built-in";
    CHECK(json == expected);
}
