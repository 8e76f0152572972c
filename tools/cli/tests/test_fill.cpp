#include "cli/fill.hpp"

#include <doctest/doctest.h>

#include "cli/table.hpp"

using namespace opdock::cli;

TEST_CASE("text is broken between words and goes on where it should") {
    CHECK(fill(words_of("one two  three"), 4, 2, 80) == "one two  three");
    CHECK(fill(words_of("one two  three"), 4, 2, 11) == "one two\n  three");
    CHECK(fill(words_of("one two  three"), 4, 2, 10) == "one\n  two\n  three");
    CHECK(fill(words_of(""), 4, 2, 10).empty());
}

TEST_CASE("a word that is too wide stays whole") {
    CHECK(fill(words_of("/a/very/long/path b"), 0, 2, 8) == "/a/very/long/path\n  b");
}

TEST_CASE("a word that is too wide is broken behind its separators, and else anywhere, where that is asked for") {
    using Words = std::vector<std::string>;
    CHECK(broken_words({"one ", "/opt/acme/lib/libacme.so  ", "two"}, 10) ==
          Words{"one ", "/", "opt/", "acme/", "lib/", "libacme.so  ", "two"});
    CHECK(broken_words({"a=1,b=2,c=3"}, 10) == Words{"a=1,", "b=2,", "c=3"});
    CHECK(broken_words({"/a/b.so,/opt/c.so,/d"}, 9) == Words{"/a/b.so,", "/", "opt/", "c.so,", "/d"});
    CHECK(broken_words({"0123456789abcdef"}, 10) == Words{"0123456789", "abcdef"});
    CHECK(broken_words({"\u00e4\u00e4\u00e4"}, 2) == Words{"\u00e4", "\u00e4", "\u00e4"});
    CHECK(fill(broken_words({"/opt/acme/libacme.so"}, 12), 2, 2, 14) == "/opt/acme/\n  libacme.so");
}

TEST_CASE("a signature is broken between parameters, not inside a shape") {
    const std::string text = "f(a: T[..., n], b: U[n, m]) -> (c: T[n]) where m in 1|n";
    CHECK(parameters_of(text) ==
          std::vector<std::string>{"f(a: T[..., n], ", "b: U[n, m]) ", "-> (c: T[n]) ", "where m in 1|n"});
    CHECK(fill(parameters_of(text), 2, 6, 20) == "f(a: T[..., n],\n      b: U[n, m])\n      -> (c: T[n])\n"
                                                 "      where m in 1|n");
    CHECK(parameters_of("").size() == 1);
}

TEST_CASE("the last cell of a row goes on below itself") {
    Table table;
    table.row({{"a"}, {"one two three"}});
    table.row({{"bb"}, {"four"}});
    CHECK(table.text(Page(false, 24)) == "  a   one two three\n  bb  four\n");
    CHECK(table.text(Page(false, 23)) == "  a   one two three\n  bb  four\n");
    CHECK(table.text(Page(false, 18)) == "  a   one two\n      three\n  bb  four\n");
}
