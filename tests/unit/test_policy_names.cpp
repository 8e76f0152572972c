#include "policy/policy_names.hpp"

#include <doctest/doctest.h>

using namespace opdock::core;

namespace {

KnownNames machine() {
    return {{{"gelu", {"default.cpu", "vendor.acme"}}, {"rmsnorm_fwd", {"default.cpu"}}},
            {"acme", "beta"},
            {"gadget"},
            {"cpu", "npu"}};
}

std::vector<std::string> problems_of(const Policy &policy) {
    std::vector<std::string> texts;
    for (const UnknownName &name : unknown_names(policy, machine())) {
        texts.push_back(name.problem);
    }
    return texts;
}

std::vector<std::string> problems(const std::vector<Setting> &settings) {
    return problems_of(policy_from_settings(settings));
}

using Problems = std::vector<std::string>;

} // namespace

TEST_CASE("names that something loaded answers to are fine, in any case") {
    CHECK(problems({{"allow_vendors", "ACME"},
                    {"deny_vendors", "Beta"},
                    {"per_op", "gelu=vendor:Acme|IMPL:VENDOR.ACME|default;rmsnorm_fwd=reference"}})
              .empty());
    CHECK(problems({}).empty());
}

TEST_CASE("an op that nobody declares is reported with the nearest one") {
    CHECK(problems({{"per_op", "rmsnorm=default"}}) == Problems{"setting 'per_op': no plugin declares op 'rmsnorm'"});
    CHECK(problems({{"per_op", "rmsnorm_fwdd=default"}}) ==
          Problems{"setting 'per_op': no plugin declares op 'rmsnorm_fwdd'; did you mean 'rmsnorm_fwd'?"});
}

TEST_CASE("an op of which contracts are required is looked up too") {
    CHECK(problems({{"require", "deterministic;gelu=batch_invariant"}}).empty());
    CHECK(problems({{"require", "rmsnorm_fwdd=deterministic"}}) ==
          Problems{"setting 'require': no plugin declares op 'rmsnorm_fwdd'; did you mean 'rmsnorm_fwd'?"});
}

TEST_CASE("what was meant is looked for of the first hundred slips") {
    std::string near;
    for (char a = 'a'; a <= 'l'; ++a) {
        for (char b = 'a'; b <= 'l'; ++b) {
            near += std::string(near.empty() ? "" : ";") + "rmsnorm_f" + a + b + "=default";
        }
    }
    const Problems slips = problems({{"per_op", near}});
    REQUIRE(slips.size() == 144);
    CHECK(slips[99].ends_with("did you mean 'rmsnorm_fwd'?"));
    CHECK_FALSE(slips[100].ends_with("did you mean 'rmsnorm_fwd'?"));
}

TEST_CASE("a standard op that nobody brings is not taken for another") {
    CHECK(problems({{"per_op", "qgelu=default"}}) ==
          Problems{"setting 'per_op': 'qgelu' is a standard op that no loaded plugin implements"});
}

TEST_CASE("a vendor that no plugin has is reported wherever it is named") {
    CHECK(problems({{"allow_vendors", "amce"}, {"deny_vendors", "gamma"}, {"per_op", "gelu=vendor:bata"}}) ==
          Problems{"setting 'allow_vendors': no plugin is from vendor 'amce'; did you mean 'acme'?",
                   "setting 'deny_vendors': no plugin is from vendor 'gamma'",
                   "setting 'per_op': no plugin is from vendor 'bata'; did you mean 'beta'?"});
}

TEST_CASE("who is allowed and not there is missed only where nobody of the list is there") {
    const auto is_fulfilled = [](const char *vendors) {
        const Policy policy = policy_from_settings(std::vector<Setting>{{"allow_vendors", vendors}});
        const std::vector<UnknownName> unknown = unknown_names(policy, machine());
        REQUIRE_FALSE(unknown.empty());
        return unknown.front().fulfilled;
    };
    CHECK(is_fulfilled("acme,gamma"));
    CHECK(is_fulfilled("gamma,acme"));
    CHECK_FALSE(is_fulfilled("gamma"));
    CHECK_FALSE(is_fulfilled("gamma,delta"));
}

TEST_CASE("an implementation that the op lacks is reported") {
    CHECK(problems({{"per_op", "rmsnorm_fwd=impl:vendor.acme|default"}}) ==
          Problems{"setting 'per_op': op 'rmsnorm_fwd' has no implementation 'vendor.acme'"});
}

TEST_CASE("a name is reported with the variable or the line that has it, and once") {
    Policy policy;
    policy.everywhere.deny_vendors = Item<Vendors>{{"gamma"}, "PLUGIN_DENY_VENDORS"};
    policy.devices["cuda"] = policy.everywhere;
    policy.devices["cuda:0"].deny_vendors = Item<Vendors>{{"gamma"}, "/p.yaml:3:5"};
    CHECK(problems_of(policy) == Problems{"PLUGIN_DENY_VENDORS: no plugin is from vendor 'gamma'",
                                          "/p.yaml:3:5: no plugin is from vendor 'gamma'"});
}

TEST_CASE("a section for a device type that nothing loaded and not DLPack knows is reported, and no error") {
    Policy policy;
    for (const char *device :
         {"npu", "npu:1", "cpu", "cuda", "rocm", "hip:0", "cudaa:0", "npuu:0", "oddity", "rocmm"}) {
        policy.devices[device].strict = Item<bool>{true, "/p.yaml:3:5"};
    }
    const auto unknown = [](const std::string &device, const std::string &type, const std::string &hint) {
        return "/p.yaml:3:5: the section for '" + device + "': no loaded plugin supports device type '" + type + "'" +
               hint;
    };
    CHECK(problems_of(policy) == Problems{unknown("cudaa:0", "cudaa", "; did you mean 'cuda'?"),
                                          unknown("npuu:0", "npuu", "; did you mean 'npu'?"),
                                          unknown("oddity", "oddity", ""),
                                          unknown("rocmm", "rocmm", "; did you mean 'rocm'?")});
    for (const UnknownName &name : unknown_names(policy, machine())) {
        CHECK(name.fulfilled);
    }
}

TEST_CASE("a name is misspelt where nothing that is loaded later can answer to it") {
    const auto is_misspelt = [](const Policy &policy, const KnownNames &known) {
        const std::vector<UnknownName> unknown = unknown_names(policy, known);
        REQUIRE(unknown.size() == 1);
        return unknown[0].misspelt;
    };
    const auto with = [](const char *name, const char *value) {
        return policy_from_settings(std::vector<Setting>{{name, value}});
    };
    CHECK(is_misspelt(with("per_op", "rellu=default"), machine()));
    CHECK(is_misspelt(with("require", "rellu=deterministic"), machine()));
    CHECK_FALSE(is_misspelt(with("per_op", "relu=default"), machine())); // a standard op that no plugin here implements
    CHECK_FALSE(is_misspelt(with("per_op", "acme.fancy=default"), machine()));
    CHECK_FALSE(is_misspelt(with("per_op", "gelu=vendor:acmee"), machine()));
    CHECK_FALSE(is_misspelt(with("deny_vendors", "acmee"), machine()));

    Policy device;
    device.devices["npuu"].strict = Item<bool>{true, "/p.yaml:3:5"};
    CHECK_FALSE(is_misspelt(device, machine()));
}

TEST_CASE("a section for an unknown device type is reported at its first setting of its own") {
    const auto order = [](const char *text) {
        return policy_from_settings(std::vector<Setting>{{"per_op", text}}).everywhere.per_op;
    };
    Policy policy;
    policy.everywhere.strict = Item<bool>{true, "/p.yaml:1:1"};
    policy.everywhere.per_op = order("gelu=default");
    PolicySection &odd = policy.devices["oddity"] = policy.everywhere;
    const std::string sentence = "the section for 'oddity': no loaded plugin supports device type 'oddity'";
    CHECK(problems_of(policy) == Problems{sentence});
    odd.per_op = order("gelu=reference;rmsnorm_fwd=default");
    odd.per_op.at("gelu").source = "/p.yaml:7:3";
    odd.per_op.at("rmsnorm_fwd").source = "/p.yaml:8:3";
    CHECK(problems_of(policy) == Problems{"/p.yaml:7:3: " + sentence});
    odd.per_op.at("gelu") = policy.everywhere.per_op.at("gelu");
    CHECK(problems_of(policy) == Problems{"/p.yaml:8:3: " + sentence});
    odd.allow_vendors = Item<Vendors>{{"acme"}, "/p.yaml:6:3"};
    CHECK(problems_of(policy) == Problems{"/p.yaml:6:3: " + sentence});
}

TEST_CASE("an op that nobody declares has no implementations to be missed") {
    CHECK(problems({{"per_op", "oddity=impl:vendor.none|default"}}) ==
          Problems{"setting 'per_op': no plugin declares op 'oddity'"});
}

TEST_CASE("a vendor whose plugins bring nothing of kind vendor is told apart from one that nobody has") {
    CHECK(problems({{"per_op", "gelu=vendor:Gadget|default"}}) ==
          Problems{"setting 'per_op': vendor 'gadget' has plugins, but none of their implementations is of kind "
                   "vendor, and those of other kinds are not chosen by vendor"});
    CHECK(problems({{"deny_vendors", "Gadget"}}).empty()); // vendor lists apply to all kinds
    CHECK(problems({{"allow_vendors", "Gadget"}}).empty());
}
