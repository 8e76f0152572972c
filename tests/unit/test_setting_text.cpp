#include "text/setting_text.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "thrown_error.hpp"

using namespace opdock::core;
using opdock::test::message_of;
using opdock::test::thrown_by;

namespace {

const Place variable{"PLUGIN_STRICT"};
const Place file{"/etc/opdock/policy.yaml", 3, 9};

} // namespace

TEST_CASE("every spelling of a switch means the same, in any case") {
    for (const char *on : {"1", "true", "yes", "on", "TRUE", "Yes", "oN", " on\n"}) {
        CAPTURE(on);
        CHECK(parse_switch(on, variable));
    }
    for (const char *off : {"0", "false", "no", "off", "FALSE", "No", "oFF", " 0 "}) {
        CAPTURE(off);
        CHECK_FALSE(parse_switch(off, variable));
    }
}

TEST_CASE("anything else is no switch, and the error names the variable and what was found") {
    for (const char *value : {"", " ", "2", "-1", "01", "y", "n", "t", "enabled", "true,false", "1 0"}) {
        CAPTURE(value);
        const Error error = thrown_by([&] { parse_switch(value, variable); });
        CHECK(error.status() == OPDOCK_INVALID_POLICY);
        CHECK(std::string(error.what()) ==
              "PLUGIN_STRICT, column 1: expected 1/0, true/false, yes/no or on/off, found '" + std::string(value) +
                  "'");
    }
}

TEST_CASE("a place in a file counts columns from where the value begins") {
    CHECK(file.text() == "/etc/opdock/policy.yaml:3:9");
    CHECK(file.at(0) == "/etc/opdock/policy.yaml:3:9");
    CHECK(file.at(4) == "/etc/opdock/policy.yaml:3:13");
    CHECK(variable.text() == "PLUGIN_STRICT");
    CHECK(variable.at(4) == "PLUGIN_STRICT, column 5");
}

TEST_CASE("a list keeps its order, drops the space around names and folds them") {
    CHECK(parse_vendors("Beta, ACME ,gamma", variable) == std::vector<std::string>{"beta", "acme", "gamma"});
    CHECK(parse_vendors("acme,ACME", variable) == std::vector<std::string>{"acme"});
}

TEST_CASE("an empty value is an empty list") {
    CHECK(parse_vendors("", variable).empty());
    CHECK(parse_vendors("  ", variable).empty());
    CHECK(split(" \t", ",:").empty());
}

TEST_CASE("a comma or semicolon at the end of a list begins no entry") {
    const auto texts = [](std::string_view value, std::string_view separators) {
        std::vector<std::string_view> found;
        for (const Piece &piece : split(value, separators)) {
            found.push_back(piece.text);
        }
        return found;
    };
    using Texts = std::vector<std::string_view>;
    CHECK(texts("acme,beta,", ",") == Texts{"acme", "beta"});
    CHECK(texts("acme , ", ",") == Texts{"acme"});
    CHECK(texts("gelu=default;", ";") == Texts{"gelu=default"});
    CHECK(texts("/opt/acme,", ",:") == Texts{"/opt/acme"});
    CHECK(texts("/opt/acme:", ",:") == Texts{"/opt/acme", ""}); // other programs read "" as the working directory
    CHECK(texts("default|", "|") == Texts{"default", ""});
    CHECK(texts(",acme", ",") == Texts{"", "acme"});
}

TEST_CASE("a malformed list of vendors is an error with the column") {
    const struct {
        const char *value, *at, *message;
    } cases[] = {
        {"acme,,beta", "column 6", "expected the name of a vendor, found nothing"},
        {"acme,,", "column 6", "expected the name of a vendor, found nothing"},
        {",", "column 1", "expected the name of a vendor, found nothing"},
        {",acme", "column 1", "expected the name of a vendor, found nothing"},
        {"acme, ,beta", "column 6", "expected the name of a vendor, found nothing"},
        {"acme beta", "column 5", "unexpected ' ' in 'acme beta'"},
        {"acme;beta", "column 5", "unexpected ';'"},
        {"acme|beta", "column 5", "unexpected '|'"},
        {"ok,vendor:acme", "column 10", "unexpected ':'"},
        {"a=b", "column 2", "unexpected '='"},
    };
    for (const auto &[value, at, expected] : cases) {
        const auto &tried = value;
        CAPTURE(tried);
        const std::string message =
            message_of([&, text = value] { parse_vendors(text, Place{"PLUGIN_DENY_VENDORS"}); });
        CHECK(message.starts_with(std::string("PLUGIN_DENY_VENDORS, ") + at + ": "));
        CHECK(message.find(expected) != std::string::npos);
    }
}

TEST_CASE("a name in a policy that no plugin can have is an error") {
    for (const char *name : {"ac\u200bme", "ac\u00a0me", "\u0430cme", "acm\u00e9", "ac\tme", "ac'me"}) {
        CAPTURE(name);
        const std::string message = message_of([&] { parse_vendors(std::string("ok,") + name, variable); });
        CHECK(message.find("unexpected '") != std::string::npos);
        CHECK(message.find("in ASCII") != std::string::npos);
    }
}

TEST_CASE("seconds are more than none and at most a day, in one of three units") {
    const auto seconds = [](const char *value) { return parse_seconds(value, variable); };
    CHECK(seconds("0.5") == 0.5);
    CHECK(seconds("30") == 30);
    CHECK(seconds("30s") == 30);
    CHECK(seconds(" 500 ms ") == 0.5);
    CHECK(seconds("1ms") == 0.001);
    CHECK(seconds("2m") == 120);
    CHECK(seconds("86400") == 86400);
    CHECK(seconds("1440m") == 86400);
    CHECK(seconds("86400000ms") == 86400);
    for (const char *value : {"", "0", "0ms", "-1", "86400.5", "1441m", "86401s", "1h", "ms", "m", "1 m s", "1,5",
                              "nan", "inf", "1e999", "off", "1 2"}) {
        CAPTURE(value);
        CHECK(message_of([&] { seconds(value); }) ==
              "PLUGIN_STRICT, column 1: expected seconds, such as 0.5, 500ms or 2m, found '" + std::string(value) +
                  "'");
    }
}

TEST_CASE("a pause is seconds too, or off, of which 0 is another word") {
    const auto pause = [](const char *value) { return parse_pause(value, variable); };
    CHECK(pause("off") == 0);
    CHECK(pause(" OFF ") == 0);
    CHECK(pause("0") == 0);
    CHECK(pause(" 0 ") == 0);
    CHECK(pause("250ms") == 0.25);
    for (const char *value : {"", "0.0", "0s", "on", "-1", "of"}) {
        CAPTURE(value);
        CHECK(message_of([&] { pause(value); }).find("500ms or 2m, or off, found") != std::string::npos);
    }
}

TEST_CASE("a piece of a list has the column where its text begins, or where it should begin") {
    const auto offsets = [](std::string_view value, std::string_view separators) {
        std::vector<std::size_t> found;
        for (const Piece &piece : split(value, separators)) {
            found.push_back(piece.offset);
        }
        return found;
    };
    using Offsets = std::vector<std::size_t>;
    CHECK(offsets(" a, bc ,d", ",") == Offsets{1, 4, 8});
    CHECK(offsets("a,,b", ",") == Offsets{0, 2, 3});
    CHECK(offsets("a, ,b", ",") == Offsets{0, 2, 4});
    CHECK(offsets("a;b:", ";:") == Offsets{0, 2, 4});
}
