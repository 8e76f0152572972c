#include "cli/printable.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/page.hpp"

using namespace opdock::cli;

TEST_CASE("control characters are shown, not sent") {
    CHECK(printable("a\x1b[31mb\tc\x7f") == "a\\x1b[31mb\\x09c\\x7f");
    CHECK(printable("two\nlines, \xc3\xa9") == "two\nlines, \xc3\xa9");
}

TEST_CASE("characters of C1, broken UTF-8 and the direction of writing are shown, not obeyed") {
    CHECK(printable("\u009b31m \x9b"
                    "31m \xc3") == "\\u009b31m \\x9b31m \\xc3");
    CHECK(printable("\u061c \u200e \u200f \u202a \u202b \u202c \u202d \u202e \u2066 \u2067 \u2068 \u2069") ==
          "\\u061c \\u200e \\u200f \\u202a \\u202b \\u202c \\u202d \\u202e \\u2066 \\u2067 \\u2068 \\u2069");
    CHECK(printable("\u00e9\u4e2d\U0001f600") == "\u00e9\u4e2d\U0001f600");
}

TEST_CASE("a JSON document says the same with such characters escaped") {
    const nlohmann::json document = {{"\u202ename", "a\u009b\x7f\x1b\n\u2066\u00e9\U000e0041\U0001f600"}};
    const std::string text = printable_json(document.dump(2));
    CHECK(nlohmann::json::parse(text) == document);
    CHECK(text == "{\n  \"\\u202ename\": \"a\\u009b\\u007f\\u001b\\n\\u2066\u00e9\\udb40\\udc41\U0001f600\"\n}");
}

TEST_CASE("what is painted is made printable") {
    CHECK(Page(true).paint(Tint::bad, "\u202e\x1b") == "\x1b[31m\\u202e\\x1b\x1b[0m");
    CHECK(Page(false).paint(Tint::plain, "\u202e\x1b") == "\\u202e\\x1b");
}

TEST_CASE("lines after the first are indented") {
    CHECK(indent_further_lines("a\nb\nc", 2) == "a\n  b\n  c");
}

TEST_CASE("a letter of two bytes takes one column") {
    CHECK(columns("\xc3\xa9t\xc3\xa9") == 3);
}
