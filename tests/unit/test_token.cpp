#include "load/token.hpp"

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "thrown_error.hpp"

using namespace opdock::core;
using opdock::test::message_of;
using opdock::test::thrown_by;

namespace {

const Place place{"PLUGIN_PER_OP"};

} // namespace

TEST_CASE("every token is read in any case and written in one way") {
    const struct {
        const char *text, *written;
    } cases[] = {
        {"default", "default"},
        {"DEFAULT", "default"},
        {"flagos", "flagos"},
        {"FlagOS", "flagos"},
        {"vendor", "vendor"},
        {"Vendor", "vendor"},
        {"reference", "reference"},
        {"REFERENCE", "reference"},
        {"vendor:acme", "vendor:acme"},
        {"VENDOR:ACME", "vendor:acme"},
        {"impl:vendor.acme", "impl:vendor.acme"},
        {"IMPL:Vendor.Acme", "impl:Vendor.Acme"},
        {"impl:a:b", "impl:a:b"},
    };
    for (const auto &[text, written] : cases) {
        const auto &tried = text;
        CAPTURE(tried);
        CHECK(parse_token(text, place).text() == written);
    }
}

TEST_CASE("a token names the implementations it should, and no other") {
    struct Implementation {
        const char *impl_id;
        Kind kind;
        const char *vendor;
    };
    const Implementation implementations[] = {
        {"default.cpu", Kind::default_, ""},      {"vendor.acme", Kind::vendor, "acme"},
        {"vendor.beta", Kind::vendor, "Beta"},    {"reference.cpp", Kind::reference, ""},
        {"default.acme", Kind::default_, "acme"}, // a default whose name mentions a vendor is not that vendor's
        {"vendor.cuda", Kind::vendor, "cuda"},
    };
    const struct {
        const char *token;
        bool names[6];
    } cases[] = {
        {"default", {true, false, false, false, true, false}},
        {"flagos", {true, false, false, false, true, true}},
        {"vendor", {false, true, true, false, false, true}},
        {"reference", {false, false, false, true, false, false}},
        {"vendor:acme", {false, true, false, false, false, false}},
        {"vendor:BETA", {false, false, true, false, false, false}},
        {"vendor:gamma", {false, false, false, false, false, false}},
        {"impl:default.cpu", {true, false, false, false, false, false}},
        {"impl:VENDOR.ACME", {false, true, false, false, false, false}},
        {"impl:vendor", {false, false, false, false, false, false}},
    };
    for (const auto &[text, names] : cases) {
        const Token token = parse_token(text, place);
        for (std::size_t i = 0; i < std::size(implementations); ++i) {
            const auto &tried = text;
            CAPTURE(tried);
            CAPTURE(implementations[i].impl_id);
            CHECK(token.names(implementations[i].impl_id, implementations[i].kind, implementations[i].vendor, true) ==
                  names[i]);
        }
    }
}

TEST_CASE("only flagos depends on whether an implementation comes with opdock, and only for vendors cuda and hip") {
    for (const char *vendor : {"cuda", "hip"}) {
        CAPTURE(vendor);
        CHECK(parse_token("flagos", place).names("vendor.any", Kind::vendor, vendor, true));
        CHECK_FALSE(parse_token("flagos", place).names("vendor.any", Kind::vendor, vendor, false));
        CHECK(parse_token("vendor", place).names("vendor.any", Kind::vendor, vendor, false));
        CHECK(parse_token(std::string("vendor:") + vendor, place).names("vendor.any", Kind::vendor, vendor, false));
    }
    CHECK_FALSE(parse_token("flagos", place).names("vendor.acme", Kind::vendor, "acme", true));
    CHECK(parse_token("flagos", place).names("default.acme", Kind::default_, "acme", false)); // admission checked it
}

TEST_CASE("a company's name means opdock's plugin for its GPUs too, and not the other way round") {
    CHECK(names_vendor("nvidia", "cuda"));
    CHECK(names_vendor("AMD", "hip"));
    CHECK(names_vendor("Nvidia", "nvidia"));
    CHECK_FALSE(names_vendor("cuda", "nvidia"));
    CHECK_FALSE(names_vendor("hip", "amd"));
    CHECK_FALSE(names_vendor("nvidia", "hip"));
}

TEST_CASE("preferring one kind keeps the others behind it in a fixed order") {
    CHECK(order_text(preferred_order(Kind::default_)) == "default|vendor|reference");
    CHECK(order_text(preferred_order(Kind::vendor)) == "vendor|default|reference");
    CHECK(order_text(preferred_order(Kind::reference)) == "reference|default|vendor");
}

TEST_CASE("an order per op is read with space around every part") {
    const auto orders = parse_per_op(" rmsnorm_fwd = vendor:acme | default ;gelu=reference", place);
    REQUIRE(orders.size() == 2);
    CHECK(order_text(orders.at("rmsnorm_fwd")) == "vendor:acme|default");
    CHECK(order_text(orders.at("gelu")) == "reference");
    CHECK(parse_per_op("", place).empty());
    CHECK(parse_per_op("gelu=reference;", place).size() == 1);
    CHECK(order_text(parse_per_op("acme.my_op=impl:x=y", place).at("acme.my_op")) == "impl:x=y");
}

TEST_CASE("names of ops keep their case") {
    const auto orders = parse_per_op("dGELU=default;gelu_bwd=vendor", place);
    CHECK(orders.size() == 2);
}

TEST_CASE("every malformed entry of an order per op is an error with variable, column and remedy") {
    const struct {
        const char *value;
        int column;
        const char *message;
    } cases[] = {
        {"gelu", 1, "expected OP=TOKEN|TOKEN, found 'gelu'"},
        {"gelu=default;;", 14, "expected OP=TOKEN|TOKEN, found ''"},
        {";gelu=default", 1, "expected OP=TOKEN|TOKEN, found ''"},
        {"gelu=default;;silu=vendor", 14, "expected OP=TOKEN|TOKEN, found ''"},
        {"=default", 1, "expected the name of an op"},
        {"ge lu=default", 3, "expected the name of an op (letters, digits, '_' and '.'), found 'ge lu'"},
        {"gelu,silu=default", 5, "expected the name of an op"},
        {"gelu=", 6, "expected at least one token"},
        {"gelu=default|", 14, "expected a token"},
        {"gelu=|default", 6, "expected a token"},
        {"gelu=default||vendor", 14, "expected a token"},
        {"gelu=defualt", 6, "found 'defualt'; did you mean 'default'?"},
        {"gelu=vendor|refrence", 13, "found 'refrence'; did you mean 'reference'?"},
        {"gelu=flagso", 6, "did you mean 'flagos'?"},
        {"gelu=default;silu=vendr:acme", 19, "found 'vendr:acme'; did you mean 'vendor:acme'?"},
        {"gelu=imp:vendor.acme", 6, "did you mean 'impl:vendor.acme'?"},
        {"gelu=impl", 6, "did you mean 'impl:ID'?"},
        {"gelu=vendor.nova", 6, "found 'vendor.nova'; did you mean 'impl:vendor.nova'?"},
        {"gelu=default:acme", 6, "found 'default:acme'"},
        {"gelu=vendor:", 13, "expected a name after 'vendor:'"},
        {"gelu=impl: ", 11, "expected a name after 'impl:'"},
        {"gelu=vendor: acme", 13, "unexpected space in 'vendor: acme'; write it without"},
        {"gelu=vendor:acme,beta", 17, "unexpected ','"},
        {"gelu=impl:vendor.ac me", 20, "unexpected ' ' in 'impl:vendor.ac me'"},
        {"gelu=impl:vendor.\u0430cme", 18, "unexpected '\\xd0'"},
        {"gelu=default,vendor", 6, "found 'default,vendor'"},
        {"gelu=default;silu=vendor; gelu=reference", 27, "op 'gelu' is given twice; keep one order"},
    };
    for (const auto &[value, column, expected] : cases) {
        const auto &tried = value;
        CAPTURE(tried);
        const Error error = thrown_by([&, text = value] { parse_per_op(text, place); });
        const std::string message = error.what();
        CAPTURE(message);
        CHECK(error.status() == OPDOCK_INVALID_POLICY);
        CHECK(message.starts_with("PLUGIN_PER_OP, column " + std::to_string(column) + ": "));
        CHECK(message.find(expected) != std::string::npos);
    }
}

TEST_CASE("an unknown token lists what a token can be") {
    CHECK(message_of([] { parse_token("fastest", place); }) ==
          "PLUGIN_PER_OP, column 1: expected a token ('default', 'vendor', 'reference', 'flagos', 'measured', "
          "'vendor:NAME' or "
          "'impl:ID'), "
          "found "
          "'fastest'; for a vendor of that name write 'vendor:fastest'");
}

TEST_CASE("all wrong tokens of a value are told at once, a line each") {
    const std::string message =
        message_of([] { parse_per_op("gelu=vendr|default|acme;silu=refrence;relu;tanh=default", place); });
    std::vector<std::string> lines;
    std::istringstream text(message);
    for (std::string line; std::getline(text, line);) {
        lines.push_back(line);
    }
    REQUIRE(lines.size() == 4);
    CHECK(lines[0].starts_with("PLUGIN_PER_OP, column 6: "));
    CHECK(lines[0].ends_with("found 'vendr'; did you mean 'vendor'?"));
    CHECK(lines[1].starts_with("PLUGIN_PER_OP, column 20: "));
    CHECK(lines[1].ends_with("found 'acme'; for a vendor of that name write 'vendor:acme'"));
    CHECK(lines[2].ends_with("found 'refrence'; did you mean 'reference'?"));
    CHECK(lines[3] == "PLUGIN_PER_OP, column 39: expected OP=TOKEN|TOKEN, found 'relu'");
}

TEST_CASE("of many wrong tokens 20 are told, whatever the entries that hold them") {
    std::string value;
    for (int entry = 0; entry < 5; ++entry) {
        value += "op" + std::to_string(entry) + "=a|b|c|d|e|f;";
    }
    const std::string message = message_of([&] { parse_per_op(value, place); });
    CHECK(std::count(message.begin(), message.end(), '\n') == 20);
    CHECK(message.ends_with("\nand more"));
    CHECK(message_of([&] { parse_per_op("gelu=" + std::string(20, '|'), place); }).ends_with("\nand more"));
    CHECK_FALSE(message_of([&] { parse_per_op("gelu=" + std::string(19, '|'), place); }).ends_with("more"));
}

TEST_CASE("'measured' names nobody, and has something behind it") {
    const Place per_op{"PLUGIN_PER_OP"};
    const Order order = parse_order("impl:a|Measured|default", per_op);
    CHECK(order_text(order) == "impl:a|measured|default");
    for (const Kind kind : {Kind::default_, Kind::vendor, Kind::reference}) {
        CHECK_FALSE(order[1].names("a", kind, "acme", true));
    }
    CHECK(message_of([&] { parse_per_op("gelu=measured", per_op); }) ==
          "PLUGIN_PER_OP, column 6: 'measured' names no implementation: it puts the fastest one of the tokens after it "
          "first; write 'measured|default|vendor'");
    CHECK_THROWS_AS(parse_order("default|measured", per_op), Error);
}

TEST_CASE("only kinds can be preferred") {
    const Place prefer{"PLUGIN_PREFER"};
    CHECK(parse_kind("Vendor ", prefer) == Kind::vendor);
    CHECK(parse_kind("FLAGOS", prefer) == Kind::default_);
    CHECK(parse_kind("reference", prefer) == Kind::reference);
    CHECK(parse_kind("measured", prefer) == Kind::measured);
    CHECK(order_text(preferred_order(Kind::measured)) == "measured|default|vendor|reference");
    CHECK(message_of([&] { parse_kind("vendor:acme", prefer); }) ==
          "PLUGIN_PREFER, column 1: expected 'default', 'vendor', 'reference', 'flagos' or 'measured', found "
          "'vendor:acme'");
    CHECK(message_of([&] { parse_kind("  vender", prefer); }) ==
          "PLUGIN_PREFER, column 3: expected 'default', 'vendor', 'reference', 'flagos' or 'measured', found 'vender'; "
          "did you "
          "mean 'vendor'?");
    CHECK(message_of([&] { parse_kind("", prefer); }) ==
          "PLUGIN_PREFER, column 1: expected 'default', 'vendor', 'reference', 'flagos' or 'measured', found ''");
    CHECK_THROWS_AS(parse_kind("default,vendor", prefer), Error);
}
