#include "policy/policy.hpp"

#include <algorithm>
#include <string>

#include <doctest/doctest.h>

#include "text/spelling.hpp"
#include "thrown_error.hpp"

using namespace opdock::core;
using opdock::test::message_of;
using opdock::test::thrown_by;

namespace {

Policy from_environment(const RawEnvironment &raw, const char *prefix = "PLUGIN_") {
    return policy_from_environment(make_environment(prefix, raw, false));
}

Policy from_settings(const std::vector<Setting> &settings) {
    return policy_from_settings(settings);
}

} // namespace

TEST_CASE("an empty environment sets nothing") {
    CHECK(from_environment({}) == Policy());
}

TEST_CASE("every variable becomes an item that knows where it was set") {
    const PolicySection section = from_environment({{"PLUGIN_PREFER", "Vendor"},
                                                    {"PLUGIN_STRICT", "on"},
                                                    {"PLUGIN_ALLOW_VENDORS", "ACME,beta"},
                                                    {"PLUGIN_DENY_VENDORS", "Gamma"},
                                                    {"PLUGIN_PER_OP", "gelu=reference;silu=vendor:ACME|default"}})
                                      .everywhere;
    CHECK(section.prefer == Item<Kind>{Kind::vendor, "PLUGIN_PREFER"});
    CHECK(section.strict == Item<bool>{true, "PLUGIN_STRICT"});
    CHECK(section.allow_vendors == Item<Vendors>{{"acme", "beta"}, "PLUGIN_ALLOW_VENDORS"});
    CHECK(section.deny_vendors == Item<Vendors>{{"gamma"}, "PLUGIN_DENY_VENDORS"});
    REQUIRE(section.per_op.size() == 2);
    CHECK(order_text(section.per_op.at("silu").value) == "vendor:acme|default");
    CHECK(section.per_op.at("gelu").source == "PLUGIN_PER_OP");
}

TEST_CASE("a program's prefix is in the source of every item") {
    const Policy policy = from_environment({{"TE_FL_STRICT", "1"}, {"PLUGIN_STRICT", "0"}}, "TE_FL_");
    CHECK(policy.everywhere.strict == Item<bool>{true, "TE_FL_STRICT"});
}

TEST_CASE("PREFER_VENDOR writes the same item as PREFER, and only when that is not set") {
    const auto prefer = [](const RawEnvironment &raw) { return from_environment(raw).everywhere.prefer; };
    CHECK(prefer({{"PLUGIN_PREFER_VENDOR", "1"}}) == Item<Kind>{Kind::vendor, "PLUGIN_PREFER_VENDOR"});
    CHECK(prefer({{"PLUGIN_PREFER_VENDOR", "0"}}) == Item<Kind>{Kind::default_, "PLUGIN_PREFER_VENDOR"});
    CHECK(prefer({{"PLUGIN_PREFER_VENDOR", "1"}, {"PLUGIN_PREFER", "reference"}}) ==
          Item<Kind>{Kind::reference, "PLUGIN_PREFER"});
    CHECK(prefer({{"PLUGIN_PREFER_VENDOR", "1"}, {"PLUGIN_PREFER", "default"}}) ==
          Item<Kind>{Kind::default_, "PLUGIN_PREFER"});
}

TEST_CASE("a wrong PREFER_VENDOR is an error even where PREFER decides") {
    CHECK(message_of([] {
              from_environment({{"PLUGIN_PREFER_VENDOR", "acme"}, {"PLUGIN_PREFER", "vendor"}});
          }).starts_with("PLUGIN_PREFER_VENDOR, column 1: expected 1/0"));
}

TEST_CASE("a list that is set but empty is an item, one that is not set is none") {
    const PolicySection section = from_environment({{"PLUGIN_ALLOW_VENDORS", ""}}).everywhere;
    REQUIRE(section.allow_vendors);
    CHECK(section.allow_vendors->value.empty());
    CHECK_FALSE(section.deny_vendors);
}

TEST_CASE("an empty PER_OP orders nothing, an empty PREFER or STRICT is an error") {
    CHECK(from_environment({{"PLUGIN_PER_OP", ""}}).everywhere.per_op.empty());
    CHECK_THROWS_AS(from_environment({{"PLUGIN_PREFER", ""}}), Error);
    CHECK_THROWS_AS(from_environment({{"PLUGIN_STRICT", ""}}), Error);
    CHECK_THROWS_AS(from_environment({{"PLUGIN_PREFER_VENDOR", ""}}), Error);
}

TEST_CASE("every variable's error names it, with the program's prefix") {
    const struct {
        const char *name, *value;
    } cases[] = {
        {"TE_FL_PREFER", "fastest"},    {"TE_FL_PREFER_VENDOR", "vendor"}, {"TE_FL_STRICT", "strict"},
        {"TE_FL_ALLOW_VENDORS", "a;b"}, {"TE_FL_DENY_VENDORS", "a,,b"},    {"TE_FL_PER_OP", "gelu:vendor"},
    };
    for (const auto &[name, value] : cases) {
        const auto &tried = name;
        CAPTURE(tried);
        const Error error = thrown_by([&, n = name, v = value] { from_environment({{n, v}}, "TE_FL_"); });
        CHECK(error.status() == OPDOCK_INVALID_POLICY);
        CHECK(std::string(error.what()).starts_with(std::string(name) + ", column "));
    }
}

TEST_CASE("settings of a program have the names and values of the variables, and no source yet") {
    const PolicySection section = from_settings({{"prefer", "vendor"},
                                                 {"strict", "yes"},
                                                 {"allow_vendors", ""},
                                                 {"deny_vendors", "acme"},
                                                 {"per_op", "gelu=impl:vendor.acme"}})
                                      .everywhere;
    CHECK(section.prefer == Item<Kind>{Kind::vendor, ""});
    CHECK(section.strict == Item<bool>{true, ""});
    CHECK(section.allow_vendors == Item<Vendors>{{}, ""});
    CHECK(section.deny_vendors == Item<Vendors>{{"acme"}, ""});
    CHECK(order_text(section.per_op.at("gelu").value) == "impl:vendor.acme");
}

TEST_CASE("in settings, prefer decides over prefer_vendor whichever comes first") {
    CHECK(from_settings({{"prefer_vendor", "1"}, {"prefer", "reference"}}).everywhere.prefer->value == Kind::reference);
    CHECK(from_settings({{"prefer", "reference"}, {"prefer_vendor", "1"}}).everywhere.prefer->value == Kind::reference);
    CHECK(from_settings({{"prefer_vendor", "1"}}).everywhere.prefer->value == Kind::vendor);
}

TEST_CASE("the pause before what failed is tried again is a time, or off") {
    const auto seconds = [](const char *value) {
        return from_settings({{"retry_failed", value}}).everywhere.retry_failed->value;
    };
    CHECK(seconds("30") == 30);
    CHECK(seconds("500 ms") == 0.5);
    CHECK(seconds("2m") == 120);
    CHECK(seconds(" Off ") == 0);
    CHECK(seconds("0") == 0);
    CHECK(message_of([] {
              from_settings({{"retry_failed", "never"}});
          }) == "setting 'retry_failed', column 1: expected seconds, such as 0.5, 500ms or 2m, or off, found 'never'");
    CHECK_THROWS(seconds("-1"));
    CHECK_THROWS(seconds(""));
}

TEST_CASE("what implementations have to promise is a list for all ops, and one for each op that is named") {
    const auto required = [](const char *value) { return from_settings({{"require", value}}).everywhere; };
    using Names = std::vector<std::string>;
    const PolicySection both = required(" Deterministic ; gelu = batch_invariant,deterministic; silu=");
    CHECK(names_of(both.require->value) == Names{"deterministic"});
    CHECK(names_of(both.require_per_op.at("gelu").value) == Names{"deterministic", "batch_invariant"});
    CHECK(both.require_per_op.at("silu").value == Contracts{});
    CHECK(names_of(required("batch_invariant, deterministic,").require->value).size() == 2);
    CHECK(required("").require->value == Contracts{});
    const PolicySection of_op = required("gelu=deterministic");
    CHECK_FALSE(of_op.require);
    CHECK(of_op.require_per_op.size() == 1);
    const auto wrong = [](const char *value) { return message_of([&] { from_settings({{"require", value}}); }); };
    CHECK(wrong("determinstic") ==
          "setting 'require', column 1: expected a contract ('deterministic' or 'batch_invariant'), found "
          "'determinstic'; did you mean 'deterministic'?");
    CHECK(wrong("deterministic,gelu=batch_invariant") ==
          "setting 'require', column 15: expected a contract ('deterministic' or 'batch_invariant'), found "
          "'gelu=batch_invariant'; write the contracts of one op after a ';'");
    CHECK(wrong("gelu=deterministic|batch_invariant") ==
          "setting 'require', column 6: expected a contract ('deterministic' or 'batch_invariant'), found "
          "'deterministic|batch_invariant'; write ',' between contracts");
    CHECK(wrong("deterministic;batch_invariant") == "setting 'require', column 15: the contracts of all ops are given "
                                                    "twice; keep one list, with ',' between contracts");
    CHECK(wrong("gelu=deterministic;gelu=") == "setting 'require', column 20: op 'gelu' is given twice; keep one list");
    CHECK(wrong("ge-lu=deterministic") == "setting 'require', column 3: expected the name of an op (letters, digits, "
                                          "'_' and '.'), found 'ge-lu'");
    CHECK(wrong(";deterministic").starts_with("setting 'require', column 1: expected a contract"));
    CHECK(wrong("deterministic,,").starts_with("setting 'require', column 15: expected a contract"));
}

TEST_CASE("an unknown setting lists the settings and the nearest") {
    const Error error = thrown_by([] { from_settings({{"deny_vendor", "acme"}}); });
    CHECK(error.status() == OPDOCK_INVALID_POLICY);
    CHECK(std::string(error.what()) ==
          "expected a setting (" + one_of(setting_names()) + "), found 'deny_vendor'; did you mean 'deny_vendors'?");
    for (const std::string_view setting : {"prefer", "deny_vendors", "prefer_vendor", "per_op", "require"}) {
        CHECK(std::string(error.what()).find(quote(setting)) != std::string::npos);
    }
}

TEST_CASE("a setting given twice is an error") {
    CHECK(message_of([] {
              from_settings({{"strict", "1"}, {"strict", "1"}});
          }) == "setting 'strict' is given twice; keep one");
}

TEST_CASE("all variables that are wrong are told at once") {
    const std::string message = message_of([] {
        from_environment({{"PLUGIN_PREFER", "vendr"}, {"PLUGIN_STRICT", "maybe"}, {"PLUGIN_PER_OP", "gelu=refrence"}});
    });
    CHECK(message.find("PLUGIN_PREFER, column 1: ") == 0);
    CHECK(message.find("\nPLUGIN_STRICT, column 1: ") != std::string::npos);
    CHECK(message.find("\nPLUGIN_PER_OP, column 6: ") != std::string::npos);
}

TEST_CASE("a wrong value of a setting names the setting and the column") {
    CHECK(message_of([] {
              from_settings({{"per_op", "gelu=default;silu"}});
          }) == "setting 'per_op', column 14: expected OP=TOKEN|TOKEN, found 'silu'");
}
