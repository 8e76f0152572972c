#include "strict_json.hpp"

#include <doctest/doctest.h>

#include "text/error.hpp"

using namespace opdock;
using namespace opdock::plugin_pack;

namespace {

bool is_short(const std::string &text) {
    return text.size() < 5;
}

// The message when `read` reads the outermost value of the text.
template<class Read>
std::string refusal(std::string_view text, Read read) {
    try {
        const JsonText document(text, "file", {8, 100});
        read(document.root());
    } catch (const core::Error &error) {
        return error.what();
    }
    return {};
}

} // namespace

TEST_CASE("a value that is not as expected is refused with line, column, the way to it, and what it is") {
    const std::string text = "{\"a\": [[], {\"b\": [1, \"two\", null]}],\n \"c\": {\"b\": 3 },\n \"d\": -1 }";
    const auto b = [](const JsonValue &root) { return root.at("a").items().at(1).at("b"); };
    CHECK(refusal(text, [&](const JsonValue &root) { b(root).items().at(0).text(); }) ==
          "file:1:20: /a/1/b/0: expected a text, found 1");
    CHECK(refusal(text, [&](const JsonValue &root) { b(root).items().at(1).number(0, 9); }) ==
          "file:1:26: /a/1/b/1: expected an integer from 0 to 9, found 'two'");
    CHECK(refusal(text, [&](const JsonValue &root) { b(root).items().at(2).items(); }) ==
          "file:1:32: /a/1/b/2: expected a list, found null");
    CHECK(refusal(text, [&](const JsonValue &root) { b(root).text(); }) ==
          "file:1:18: /a/1/b: expected a text, found a list");
    CHECK(refusal(text, [&](const JsonValue &root) { root.at("c").at("b").items(); }) ==
          "file:2:14: /c/b: expected a list, found 3");
    CHECK(refusal(text, [&](const JsonValue &root) { root.at("c").at("x"); }) ==
          "file:2:7: /c: expected a field 'x', found none");
    CHECK(refusal(text, [&](const JsonValue &root) { root.at("a").at("x"); }) ==
          "file:1:7: /a: expected an object, found a list");
    CHECK(refusal(text, [&](const JsonValue &root) { root.items(); }) == "file:1:1: expected a list, found an object");
    CHECK(refusal(text, [&](const JsonValue &root) { root.at("a").items().at(0).text(); }) ==
          "file:1:8: /a/0: expected a text, found an empty list");
    CHECK(refusal(text, [&](const JsonValue &root) { root.at("d").number(0, 9); }) ==
          "file:3:9: /d: expected an integer from 0 to 9, found -1");
    CHECK(refusal("[\"short\"]", [&](const JsonValue &root) { root.items().at(0).text(is_short, "a short one"); }) ==
          "file:1:8: /0: expected a short one, found 'short'");
    CHECK(refusal("true", [&](const JsonValue &root) { root.at("x"); }) ==
          "file:1:4: expected an object, found a switch");
}

TEST_CASE("a number is an integer within its range, of which nothing is cut off") {
    for (const char *text : {"10", "0", "-1", "1.0", "1.5", "1e3", "18446744073709551616", "true", "null", "\"1\""}) {
        CAPTURE(text);
        CHECK(refusal(text, [](const JsonValue &root) { root.number(1, 9); }).find("an integer from 1 to 9, found ") !=
              std::string::npos);
    }
    const JsonText nine("9", "file", {8, 100});
    CHECK(nine.root().number(1, 9) == 9);
    CHECK(refusal("1e999", [](const JsonValue &) {}).starts_with("file:1:5: this is not JSON"));
}

TEST_CASE("fields that may be absent, and what is there, are taken as they are") {
    const JsonText document(R"({"a": "text", "b": null, "c": ["x", "y"]})", "file", {8, 100});
    const JsonValue root = document.root();
    CHECK(root.at("a").text() == "text");
    CHECK(root.at("a").is_text());
    CHECK(root.at("b").is_null());
    CHECK(root.has("b"));
    CHECK_FALSE(root.has("d"));
    REQUIRE(root.at("c").items().size() == 2);
    CHECK(root.at("c").items()[1].text() == "y");
}
