#include "resolve/resolve.hpp"

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "opdock/abi/dtype.h"
#include "opdock/abi/impl.h"

using namespace opdock::core;

namespace {

using Names = std::vector<std::string>;

Candidate candidate(const std::string &impl_id, Kind kind, const std::string &vendor = {}, std::int32_t priority = 0) {
    Candidate result;
    result.impl_id = impl_id;
    result.kind = kind;
    result.vendor = vendor;
    result.priority = priority;
    result.device = "cpu";
    return result;
}

// One candidate for everything that an order can tell apart.
std::vector<Candidate> everything() {
    return {candidate("reference.cpp", Kind::reference), candidate("vendor.beta", Kind::vendor, "beta"),
            candidate("default.cpu", Kind::default_), candidate("vendor.acme", Kind::vendor, "acme"),
            candidate("vendor.acme_fast", Kind::vendor, "Acme", 5)};
}

Key on_cpu() {
    Key key;
    key.device_type = "cpu";
    return key;
}

OpPolicy with_order(const std::string &text) {
    OpPolicy policy;
    policy.order = parse_order(text, Place{"test"});
    policy.order_source = "PLUGIN_PER_OP";
    return policy;
}

Decision decide(const std::vector<Candidate> &candidates, const OpPolicy &policy, const Key &key = on_cpu()) {
    std::vector<Contender> contenders;
    for (const Candidate &each : candidates) {
        contenders.push_back({&each});
    }
    return resolve(contenders, key, policy);
}

Names chain(const Decision &decision) {
    Names names;
    for (const Kept &kept : decision.chain) {
        names.push_back(kept.impl_id);
    }
    return names;
}

const Dropped &dropped(const Decision &decision, const std::string &impl_id) {
    const auto found = std::find_if(decision.dropped.begin(), decision.dropped.end(),
                                    [&](const Dropped &each) { return each.impl_id == impl_id; });
    REQUIRE(found != decision.dropped.end());
    return *found;
}

// "rule: reason" for the only candidate, which must be dropped.
std::string why(const Contender &contender, const Key &key, const OpPolicy &policy = with_order("default|vendor")) {
    const Decision decision = resolve({&contender, 1}, key, policy);
    REQUIRE(decision.chain.empty());
    REQUIRE(decision.dropped.size() == 1);
    return std::string(rule_name(decision.dropped[0].rule)) + ": " + decision.dropped[0].reason;
}

} // namespace

TEST_CASE("each token alone keeps what it names and drops the rest by the order") {
    const struct {
        const char *token;
        Names expected;
    } cases[] = {
        {"default", {"default.cpu"}},
        {"flagos", {"default.cpu"}},
        {"vendor", {"vendor.acme_fast", "vendor.beta", "vendor.acme"}},
        {"reference", {"reference.cpp"}},
        {"vendor:acme", {"vendor.acme_fast", "vendor.acme"}},
        {"VENDOR:ACME", {"vendor.acme_fast", "vendor.acme"}},
        {"vendor:beta", {"vendor.beta"}},
        {"vendor:gamma", {}},
        {"impl:vendor.acme", {"vendor.acme"}},
        {"impl:Default.CPU", {"default.cpu"}},
        {"impl:none", {}},
    };
    for (const auto &[token, expected] : cases) {
        const auto &tried = token;
        CAPTURE(tried);
        const Decision decision = decide(everything(), with_order(token));
        CHECK(chain(decision) == expected);
        CHECK(decision.dropped.size() == everything().size() - expected.size());
        for (const Dropped &each : decision.dropped) {
            CHECK(each.rule == Rule::order);
        }
    }
}

TEST_CASE("preferring a kind puts it first and keeps the others") {
    const Names vendors = {"vendor.acme_fast", "vendor.beta", "vendor.acme"};
    const auto preferring = [](Kind kind) {
        OpPolicy policy;
        policy.order = preferred_order(kind);
        return chain(decide(everything(), policy));
    };
    CHECK(preferring(Kind::default_) ==
          Names{"default.cpu", "vendor.acme_fast", "vendor.beta", "vendor.acme", "reference.cpp"});
    CHECK(preferring(Kind::vendor) ==
          Names{"vendor.acme_fast", "vendor.beta", "vendor.acme", "default.cpu", "reference.cpp"});
    CHECK(preferring(Kind::reference) ==
          Names{"reference.cpp", "default.cpu", "vendor.acme_fast", "vendor.beta", "vendor.acme"});
}

TEST_CASE("for every pair of tokens, the first's implementations come first and the second adds what is new") {
    const Names tokens = {"default",     "vendor",      "reference",        "vendor:acme",
                          "vendor:BETA", "vendor:none", "impl:vendor.acme", "impl:default.cpu"};
    for (const std::string &first : tokens) {
        for (const std::string &second : tokens) {
            CAPTURE(first);
            CAPTURE(second);
            Names expected = chain(decide(everything(), with_order(first)));
            for (const std::string &name : chain(decide(everything(), with_order(second)))) {
                if (std::find(expected.begin(), expected.end(), name) == expected.end()) {
                    expected.push_back(name);
                }
            }
            CHECK(chain(decide(everything(), with_order(first + "|" + second))) == expected);
        }
    }
}

TEST_CASE("an implementation named by two tokens is kept once, at its first place, by the first") {
    const Decision decision = decide(everything(), with_order("impl:vendor.beta|vendor|default"));
    CHECK(chain(decision) == Names{"vendor.beta", "vendor.acme_fast", "vendor.acme", "default.cpu"});
    CHECK(decision.chain[0].token.text() == "impl:vendor.beta");
    CHECK(decision.chain[0].rule == "'impl:vendor.beta' in the order of PLUGIN_PER_OP");
    CHECK(decision.chain[1].rule == "'vendor' in the order of PLUGIN_PER_OP");
}

TEST_CASE("a rule calls the order that nobody set built-in") {
    OpPolicy policy = with_order("default");
    policy.order_source = built_in_source;
    CHECK(decide(everything(), policy).chain.at(0).rule == "'default' in the built-in order");
}

TEST_CASE("inside a token, high priority goes first, then the last impl_id") {
    const std::vector<Candidate> candidates = {candidate("d", Kind::default_, "", 0),
                                               candidate("b", Kind::default_, "", 10),
                                               candidate("c", Kind::default_, "", 0),
                                               candidate("a", Kind::default_, "", -1),
                                               candidate("lowest", Kind::default_, "", INT32_MIN),
                                               candidate("highest", Kind::default_, "", INT32_MAX)};
    CHECK(chain(decide(candidates, with_order("default"))) == Names{"highest", "b", "d", "c", "a", "lowest"});
}

TEST_CASE("priority never lifts an implementation above an earlier token") {
    const std::vector<Candidate> candidates = {candidate("vendor.acme", Kind::vendor, "acme", 1000),
                                               candidate("default.cpu", Kind::default_, "", -1000)};
    CHECK(chain(decide(candidates, with_order("default|vendor"))) == Names{"default.cpu", "vendor.acme"});
}

TEST_CASE("allow and deny lists decide over vendors, and deny wins") {
    using List = std::optional<Vendors>;
    const std::vector<List> lists = {std::nullopt,
                                     Vendors{},
                                     Vendors{"acme"},
                                     Vendors{"beta"},
                                     Vendors{"acme", "beta"},
                                     Vendors{"default", "reference", "cpu"}};
    const auto has = [](const List &list, const char *vendor) {
        return list && std::find(list->begin(), list->end(), vendor) != list->end();
    };
    for (const List &allow : lists) {
        for (const List &deny : lists) {
            OpPolicy policy = with_order("default|vendor|reference");
            if (allow) {
                policy.items.allow_vendors = Item<Vendors>{*allow, "a test"};
            }
            if (deny) {
                policy.items.deny_vendors = Item<Vendors>{*deny, "a test"};
            }
            const Decision decision = decide(everything(), policy);
            Names expected = {"default.cpu"};
            const bool acme = (!allow || has(allow, "acme")) && !has(deny, "acme");
            if (acme) {
                expected.push_back("vendor.acme_fast");
            }
            if ((!allow || has(allow, "beta")) && !has(deny, "beta")) {
                expected.push_back("vendor.beta");
            }
            if (acme) {
                expected.push_back("vendor.acme");
            }
            expected.push_back("reference.cpp");
            CAPTURE(expected.size());
            CHECK(chain(decision) == expected);
            for (const Dropped &each : decision.dropped) {
                const bool denied = has(deny, each.impl_id == "vendor.beta" ? "beta" : "acme");
                CHECK(each.rule == (denied ? Rule::deny_vendors : Rule::allow_vendors));
            }
        }
    }
}

TEST_CASE("lists of vendors go by whose plugin it is, whatever kind and vendor its implementation names") {
    OpPolicy denying = with_order("default|reference|vendor");
    denying.items.deny_vendors = Item<Vendors>{{"evil"}, "PLUGIN_DENY_VENDORS"};
    OpPolicy allowing = with_order("default|reference|vendor");
    allowing.items.allow_vendors = Item<Vendors>{{"acme"}, "PLUGIN_ALLOW_VENDORS"};
    for (const Kind kind : {Kind::default_, Kind::reference, Kind::vendor}) {
        for (const char *named : {"", "acme"}) {
            CAPTURE(kind_name(kind));
            CAPTURE(named);
            Candidate evil = candidate("default.cpu", kind, named);
            evil.plugin_vendor = "Evil";
            evil.own = false;
            CHECK(why({&evil}, on_cpu(), denying) == "deny_vendors: vendor 'Evil' is denied by PLUGIN_DENY_VENDORS");
            CHECK(why({&evil}, on_cpu(), allowing) ==
                  "allow_vendors: vendor 'Evil' is not allowed by PLUGIN_ALLOW_VENDORS, which allows only 'acme'");
        }
    }
    Candidate own = candidate("default.cpu", Kind::default_);
    own.plugin_vendor = "opdock";
    CHECK(chain(decide({own}, allowing)) == Names{"default.cpu"});
    denying.items.deny_vendors = Item<Vendors>{{"opdock"}, "a test"};
    CHECK(dropped(decide({own}, denying), "default.cpu").rule == Rule::deny_vendors);
}

TEST_CASE("who does not promise what is required is dropped, and told who asks for it") {
    std::vector<Candidate> candidates = everything();
    candidates[1].flags = OPDOCK_IMPL_DETERMINISTIC | OPDOCK_IMPL_CAPTURE_SAFE;    // vendor.beta
    candidates[2].flags = OPDOCK_IMPL_DETERMINISTIC | OPDOCK_IMPL_BATCH_INVARIANT; // default.cpu
    OpPolicy policy = with_order("vendor|default|reference");
    policy.required = {{{OPDOCK_IMPL_DETERMINISTIC}, "PLUGIN_REQUIRE"}};
    CHECK(chain(decide(candidates, policy)) == Names{"vendor.beta", "default.cpu"});
    CHECK(dropped(decide(candidates, policy), "vendor.acme").rule == Rule::contract);
    CHECK(why({&candidates[3]}, on_cpu(), policy) ==
          "contract: it does not promise deterministic, which PLUGIN_REQUIRE asks for");
    policy.required.push_back({{OPDOCK_IMPL_BATCH_INVARIANT}, "scope"});
    CHECK(chain(decide(candidates, policy)) == Names{"default.cpu"});
    CHECK(why({&candidates[1]}, on_cpu(), policy) ==
          "contract: it does not promise batch_invariant, which scope asks for");
    policy.required = {{{OPDOCK_IMPL_DETERMINISTIC | OPDOCK_IMPL_BATCH_INVARIANT}, "/p.yaml:1:1"}};
    CHECK(why({&candidates[3]}, on_cpu(), policy) ==
          "contract: it does not promise deterministic or batch_invariant, which /p.yaml:1:1 asks for");
}

TEST_CASE("the companies nvidia and amd are the vendors cuda and hip of opdock's GPU plugins, and themselves") {
    const std::vector<Candidate> candidates = {candidate("vendor.cuda", Kind::vendor, "cuda"),
                                               candidate("vendor.hip", Kind::vendor, "HIP"),
                                               candidate("vendor.nvidia", Kind::vendor, "nvidia")};
    CHECK(chain(decide(candidates, with_order("vendor:nvidia"))) == Names{"vendor.nvidia", "vendor.cuda"});
    CHECK(chain(decide(candidates, with_order("vendor:AMD"))) == Names{"vendor.hip"});
    CHECK(chain(decide(candidates, with_order("vendor:cuda"))) == Names{"vendor.cuda"});
    OpPolicy denying = with_order("vendor");
    denying.items.deny_vendors = Item<Vendors>{{"nvidia"}, "a test"};
    CHECK(chain(decide(candidates, denying)) == Names{"vendor.hip"});
    OpPolicy allowing = with_order("vendor");
    allowing.items.allow_vendors = Item<Vendors>{{"amd"}, "a test"};
    CHECK(chain(decide(candidates, allowing)) == Names{"vendor.hip"});
}

TEST_CASE("naming a denied vendor's implementation in an order does not bring it back") {
    for (const char *order : {"vendor:acme", "impl:vendor.acme", "vendor|default"}) {
        OpPolicy policy = with_order(order);
        policy.items.deny_vendors = Item<Vendors>{{"acme"}, "PLUGIN_DENY_VENDORS"};
        const Decision decision = decide(everything(), policy);
        CHECK(dropped(decision, "vendor.acme").reason == "vendor 'acme' is denied by PLUGIN_DENY_VENDORS");
        CHECK(dropped(decision, "vendor.acme_fast").reason == "vendor 'Acme' is denied by PLUGIN_DENY_VENDORS");
    }
}

TEST_CASE("an allow list of nobody and one of others give different reasons") {
    OpPolicy policy = with_order("vendor");
    policy.items.allow_vendors = Item<Vendors>{{}, "/etc/opdock/policy.yaml:3:1"};
    CHECK(dropped(decide(everything(), policy), "vendor.beta").reason ==
          "vendor 'beta' is not allowed by /etc/opdock/policy.yaml:3:1, which allows nobody");
    policy.items.allow_vendors = Item<Vendors>{{"acme", "gamma"}, "/etc/opdock/policy.yaml:3:1"};
    CHECK(dropped(decide(everything(), policy), "vendor.beta").reason ==
          "vendor 'beta' is not allowed by /etc/opdock/policy.yaml:3:1, which allows only 'acme' or 'gamma'");
}

TEST_CASE("an implementation for another device type is dropped, whatever the index") {
    Candidate gpu = candidate("default.cuda", Kind::default_);
    gpu.device = "cuda";
    CHECK(why({&gpu}, on_cpu()) == "device: it runs on cuda, not on cpu");
    Key key;
    key.device_type = "CUDA";
    key.device_index = 3;
    CHECK(chain(decide({gpu}, with_order("default"), key)) == Names{"default.cuda"});
}

TEST_CASE("an implementation serves exactly the tuples of dtypes that it lists") {
    Candidate listed = candidate("default.cpu", Kind::default_);
    listed.dtypes = {{OPDOCK_F32, OPDOCK_F32}, {OPDOCK_BF16, OPDOCK_F32}};
    const auto key = [](std::vector<std::uint32_t> dtypes) {
        Key result = on_cpu();
        result.dtypes = std::move(dtypes);
        return result;
    };
    CHECK(chain(decide({listed}, with_order("default"), key({OPDOCK_BF16, OPDOCK_F32}))) == Names{"default.cpu"});
    CHECK(why({&listed}, key({OPDOCK_F32, OPDOCK_BF16})) ==
          "dtypes: it takes dtypes f32,f32 or bf16,f32, not f32,bf16");
    CHECK(why({&listed}, key({OPDOCK_F32})) == "dtypes: it takes dtypes f32,f32 or bf16,f32, not f32");

    Key any = key({});
    any.any_dtypes = true;
    CHECK(chain(decide({listed}, with_order("default"), any)) == Names{"default.cpu"});

    Candidate unlisted = candidate("default.cpu", Kind::default_);
    CHECK(chain(decide({unlisted}, with_order("default"), key({OPDOCK_F16, OPDOCK_F16}))) == Names{"default.cpu"});
}

TEST_CASE("an implementation that lists no dtypes serves those that its own declaration of the op allows") {
    Candidate older = candidate("default.cpu", Kind::default_);
    older.allowed_dtypes = {{OPDOCK_F32, OPDOCK_F16}, {OPDOCK_F32}};
    const auto key = [](std::vector<std::uint32_t> dtypes) {
        Key result = on_cpu();
        result.dtypes = std::move(dtypes);
        return result;
    };
    for (const auto &taken : {key({OPDOCK_F32, OPDOCK_F32}), key({OPDOCK_F16, OPDOCK_F32}), key({0, OPDOCK_F32}),
                              key({OPDOCK_F16, 0}), key({OPDOCK_F16, OPDOCK_F32, OPDOCK_I64})}) {
        CHECK(chain(decide({older}, with_order("default"), taken)) == Names{"default.cpu"});
    }
    CHECK(why({&older}, key({OPDOCK_E4M3, OPDOCK_F32})) ==
          "dtypes: it lists no dtypes, and its own declaration of the op allows f32|f16,f32, not e4m3,f32");
    CHECK(why({&older}, key({OPDOCK_F32, OPDOCK_F16})) ==
          "dtypes: it lists no dtypes, and its own declaration of the op allows f32|f16,f32, not f32,f16");
    Key any = key({});
    any.any_dtypes = true;
    CHECK(chain(decide({older}, with_order("default"), any)) == Names{"default.cpu"});
    older.dtypes = {{OPDOCK_F16, OPDOCK_F32}}; // a list is complete
    CHECK(why({&older}, key({OPDOCK_F32, OPDOCK_F32})) == "dtypes: it takes dtypes f16,f32, not f32,f32");
}

TEST_CASE("an implementation for other architectures is dropped with what it needs and what there is") {
    Candidate listed = candidate("default.cuda", Kind::default_);
    listed.device = "cuda";
    listed.architectures = {"sm_90a", "sm_100+"};
    Key key;
    key.device_type = "cuda";
    key.ordered_architectures = true;
    key.architecture = "sm_90";
    CHECK(why({&listed}, key) == "architecture: it runs on sm_90a or sm_100+, not on sm_90");
    key.architecture = "";
    CHECK(why({&listed}, key) ==
          "architecture: it runs on sm_90a or sm_100+, and the architecture of this device is not known");
    for (const char *architecture : {"sm_90a", "sm_100", "sm_120"}) {
        CAPTURE(architecture);
        key.architecture = architecture;
        CHECK(chain(decide({listed}, with_order("default"), key)) == Names{"default.cuda"});
    }
    key.ordered_architectures = false;
    CHECK(why({&listed}, key) == "architecture: it runs on sm_90a or sm_100+, not on sm_120");
}

TEST_CASE("only an implementation known to be unavailable is dropped for it") {
    const Candidate acme = candidate("vendor.acme", Kind::vendor, "acme");
    CHECK(why({&acme, {Availability::no, "no device found"}, {}}, on_cpu()) == "availability: no device found");
    for (const Availability::Answer answer : {Availability::yes, Availability::unknown}) {
        const Contender contender = {&acme, {answer, ""}, {}};
        const Decision decision = resolve({&contender, 1}, on_cpu(), with_order("vendor"));
        REQUIRE(decision.chain.size() == 1);
        CHECK(decision.chain[0].availability == answer);
    }
}

TEST_CASE("an implementation that left the chain is dropped with the reason of its failures") {
    const Candidate acme = candidate("vendor.acme", Kind::vendor, "acme");
    CHECK(why({&acme, {}, {false, "failed 3 times in a row, last with: out of registers"}}, on_cpu()) ==
          "health: failed 3 times in a row, last with: out of registers");
}

TEST_CASE("of several rules that drop an implementation the earliest is reported") {
    Candidate acme = candidate("vendor.acme", Kind::vendor, "acme");
    acme.device = "cuda";
    acme.dtypes = {{OPDOCK_F32}};
    acme.architectures = {"sm_90"};
    Contender contender = {&acme, {Availability::no, "no"}, {false, "failed"}};
    OpPolicy policy = with_order("default");
    policy.items.allow_vendors = Item<Vendors>{{}, "a test"};
    policy.items.deny_vendors = Item<Vendors>{{"acme"}, "a test"};
    Key key = on_cpu();
    key.dtypes = {OPDOCK_F16};
    key.architecture = "x86";
    const auto rule = [&] { return resolve({&contender, 1}, key, policy).dropped.at(0).rule; };
    CHECK(rule() == Rule::device);
    acme.device = "cpu";
    CHECK(rule() == Rule::dtypes);
    acme.dtypes.clear();
    CHECK(rule() == Rule::architecture);
    acme.architectures.clear();
    CHECK(rule() == Rule::deny_vendors);
    policy.items.deny_vendors.reset();
    CHECK(rule() == Rule::allow_vendors);
    policy.items.allow_vendors.reset();
    CHECK(rule() == Rule::health);
    contender.health = {};
    CHECK(rule() == Rule::order);
    policy = with_order("vendor");
    CHECK(rule() == Rule::availability);
    contender.availability = {};
    CHECK(resolve({&contender, 1}, key, policy).chain.size() == 1);
}

TEST_CASE("a decision keeps or drops each implementation once, whatever the order they are given in") {
    std::vector<Candidate> candidates = everything();
    OpPolicy policy = with_order("vendor:acme|default");
    const std::string expected = decision_text("gelu", on_cpu(), decide(candidates, policy));
    const auto seed = std::random_device()();
    CAPTURE(seed);
    std::mt19937 random(seed);
    for (int round = 0; round < 50; ++round) {
        std::shuffle(candidates.begin(), candidates.end(), random);
        const Decision decision = decide(candidates, policy);
        CHECK(decision_text("gelu", on_cpu(), decision) == expected);
        for (std::size_t id = 0; id < candidates.size(); ++id) {
            const auto kept = std::count_if(decision.chain.begin(), decision.chain.end(),
                                            [&](const Kept &kept_one) { return kept_one.id == id; });
            const auto gone = std::count_if(decision.dropped.begin(), decision.dropped.end(),
                                            [&](const Dropped &dropped_one) { return dropped_one.id == id; });
            CHECK(kept + gone == 1);
        }
    }
}

TEST_CASE("two implementations with one impl_id, for different dtypes, are told apart") {
    Candidate first = candidate("vendor.acme", Kind::vendor, "acme");
    first.dtypes = {{OPDOCK_F32}};
    Candidate second = first;
    second.dtypes = {{OPDOCK_F16}};
    Key key = on_cpu();
    key.dtypes = {OPDOCK_F16};
    const Decision decision = decide({first, second}, with_order("vendor"), key);
    REQUIRE(decision.chain.size() == 1);
    CHECK(decision.chain[0].id == 1);
    CHECK(decision.dropped.at(0).id == 0);
}

TEST_CASE("nothing to choose from is an empty decision") {
    const Decision decision = decide({}, with_order("default"));
    CHECK(decision.chain.empty());
    CHECK(decision.dropped.empty());
    CHECK(decision.policy == with_order("default"));
}

TEST_CASE("a decision reads as a table") {
    OpPolicy policy = with_order("vendor:acme|default");
    policy.items.strict = Item<bool>{true, "PLUGIN_STRICT"};
    policy.items.deny_vendors = Item<Vendors>{{"beta"}, "scope"};
    Key key = on_cpu();
    key.dtypes = {OPDOCK_BF16, OPDOCK_F32};
    CHECK(decision_text("rmsnorm_fwd", key, decide(everything(), policy, key)) ==
          "rmsnorm_fwd on cpu:0, dtypes bf16,f32, order vendor:acme|default (PLUGIN_PER_OP), strict (PLUGIN_STRICT)\n"
          "  1  vendor.acme_fast  'vendor:acme' in the order of PLUGIN_PER_OP\n"
          "  2  vendor.acme       'vendor:acme' in the order of PLUGIN_PER_OP\n"
          "  3  default.cpu       'default' in the order of PLUGIN_PER_OP\n"
          "  -  reference.cpp     order: no token of the order vendor:acme|default of PLUGIN_PER_OP names it\n"
          "  -  vendor.beta       deny_vendors: vendor 'beta' is denied by scope\n");
}
