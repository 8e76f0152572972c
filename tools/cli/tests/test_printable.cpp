#include "cli/printable.hpp"

#include <doctest/doctest.h>

using namespace opdock::cli;

TEST_CASE("control characters are shown, not sent") {
    CHECK(printable("a\x1b[31mb\tc\x7f") == "a\\x1b[31mb\\x09c\\x7f");
    CHECK(printable("two\nlines, \xc3\xa9") == "two\nlines, \xc3\xa9");
}

TEST_CASE("lines after the first are indented") {
    CHECK(indent_further_lines("a\nb\nc", 2) == "a\n  b\n  c");
}

TEST_CASE("a letter of two bytes takes one column") {
    CHECK(columns("\xc3\xa9t\xc3\xa9") == 3);
}

TEST_CASE("measured numbers have three digits") {
    CHECK(short_number(0.01234) == "0.0123");
    CHECK(short_number(12.34) == "12.3");
    CHECK(short_number(12345.6) == "12346");
}
