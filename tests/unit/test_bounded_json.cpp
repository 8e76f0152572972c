#include "text/bounded_json.hpp"

#include <doctest/doctest.h>

#include "thrown_error.hpp"

using namespace opdock::core;
using opdock::test::message_of;

TEST_CASE("a text is read to its end, whatever lies behind it in memory") {
    const std::string_view whole = "{}]";
    BoundedJson inside(whole.substr(0, 2), "a.json", OPDOCK_INVALID_ARGUMENT, {4, 4});
    CHECK_NOTHROW(inside.read());
    BoundedJson json(whole, "a.json", OPDOCK_INVALID_ARGUMENT, {4, 4});
    CHECK(message_of([&] { json.read(); }) == "a.json:1:3: this is not JSON: unexpected ']'");
    BoundedJson marked("\xef\xbb\xbf{}", "a.json", OPDOCK_INVALID_ARGUMENT, {4, 4});
    CHECK(message_of([&] { marked.read(); }) ==
          "a.json:1:1: this is not JSON: unexpected byte order mark; save it as UTF-8 without one");
    BoundedJson empty("", "a.json", OPDOCK_INVALID_ARGUMENT, {4, 4});
    CHECK(message_of([&] { empty.read(); }) == "a.json:1:1: this is not JSON: unexpected end of the file");
}
