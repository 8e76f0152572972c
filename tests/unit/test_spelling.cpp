#include "text/spelling.hpp"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace opdock::core;

TEST_CASE("names compare without the case of ASCII letters, and nothing else is folded") {
    CHECK(same_name("Acme", "aCME"));
    CHECK_FALSE(same_name("acme", "acme2"));
    CHECK_FALSE(same_name("acm", "acme"));
    CHECK_FALSE(same_name("\xc3\x84", "\xc3\xa4")); // Ä and ä: names do not depend on a locale
    CHECK(folded("VENDOR:Acme_1") == "vendor:acme_1");
}

TEST_CASE("a misspelt word is traced to the nearest known one") {
    constexpr std::array<std::string_view, 4> known = {"default", "vendor", "reference", "strict"};
    CHECK(nearest("vednor", known) == "vendor"); // two swapped neighbours are one slip
    CHECK(nearest("VENDR", known) == "vendor");
    CHECK(nearest("referense", known) == "reference");
    CHECK(nearest("stric", known) == "strict");
    CHECK(nearest("prefer_vendor", known).empty());
    CHECK(nearest("x", known).empty());
    CHECK(nearest("", known).empty());
    CHECK(nearest("vendor", {}).empty());
    CHECK(nearest(std::string(100'000, 'v'), known).empty());
}

TEST_CASE("a third of the letters may be wrong, and one of a short word") {
    const auto finds = [](std::string_view word, std::string_view known) {
        return !nearest(word, std::array{known}).empty();
    };
    CHECK(finds("abcxyf", "abcdef"));
    CHECK_FALSE(finds("abxyzf", "abcdef"));
    CHECK(finds("abcdexyzi", "abcdefghi"));
    CHECK_FALSE(finds("abcdwxyzi", "abcdefghi"));
    CHECK(finds("ax", "ab"));
    CHECK_FALSE(finds("xy", "ab"));
    CHECK(finds("abcdefgh", "abcdef")); // two extra letters
    CHECK_FALSE(finds("abcdefghi", "abcde"));
}

TEST_CASE("a slip is a letter more, a letter less, another one, or two neighbours in the wrong order, anywhere") {
    const auto finds = [](std::string_view word, std::string_view known) {
        return !nearest(word, std::array{known}).empty();
    };
    for (const char *slip : {"xabc", "axbc", "abxc", "abcx", "bc", "ac", "ab", "xbc", "axc", "abx", "bac", "acb"}) {
        CAPTURE(slip);
        CHECK(finds(slip, "abc"));
    }
    CHECK(finds("ba", "ab"));
    CHECK(finds("abdc", "abcd"));
    CHECK(finds("badc", "abcd") == false); // two swaps
    for (const char *two : {"cab", "bca", "cba", "xaxbc", "xabcx", "a", "c", "axx", "xbx", "", "bxac"}) {
        CAPTURE(two);
        CHECK_FALSE(finds(two, "abc"));
    }
    CHECK_FALSE(finds("abxc", "abcd")); // the neighbours differ
    CHECK_FALSE(finds("abcx", "abdc"));
}

TEST_CASE("the nearest word is suggested, wherever it stands among others that are near") {
    constexpr std::array<std::string_view, 4> known = {"abcdefxxx", "abcdefghx", "abcdefghi", "abcdefghj"};
    CHECK(nearest("abcdefghi", known) == "abcdefghi");
    CHECK(nearest("abcdefghk", known) == "abcdefghx");
    CHECK(nearest("abcdefyxx", known) == "abcdefxxx");
}

TEST_CASE("a word of as many letters as the longest name is traced, one of more is not") {
    const std::string known(128, 'a');
    CHECK(nearest(std::string(127, 'a') + "b", std::array{std::string_view(known)}) == known);
    CHECK(nearest(std::string(128, 'a') + "b", std::array{std::string_view(known)}).empty());
}

TEST_CASE("a number is all of a text, a switch counts as 1 or 0, and nothing else is one") {
    CHECK(whole_number("0") == 0);
    CHECK(whole_number("-7") == -7);
    CHECK(whole_number("True") == 1);
    CHECK(whole_number("false") == 0);
    CHECK(whole_number("9223372036854775807") == INT64_MAX);
    CHECK(whole_number("-9223372036854775808") == INT64_MIN);
    for (const char *text : {"", "-", "+1", " 1", "1 ", "1.0", "1x", "0x1", "9223372036854775808", "yes", "truer"}) {
        CAPTURE(text);
        CHECK_FALSE(whole_number(text).has_value());
    }
}

TEST_CASE("space around a text is no part of it, whatever kind of space") {
    CHECK(trimmed(" \t\r\n\f\va b\v\f\n\r\t ") == "a b");
    CHECK(trimmed("a") == "a");
    CHECK(trimmed("a ") == "a");
    CHECK(trimmed(" a") == "a");
    CHECK(trimmed(" \t ").empty());
    CHECK(trimmed("").empty());
}

TEST_CASE("of two equally near words the first is suggested") {
    constexpr std::array<std::string_view, 2> known = {"gelu", "relu"};
    CHECK(nearest("xelu", known) == "gelu");
    CHECK(did_you_mean("xelu", known) == "; did you mean 'gelu'?");
    CHECK(did_you_mean("rmsnorm_fwd", known).empty());
}

TEST_CASE("of very many names the first are looked at") {
    std::vector<std::string> names;
    for (int i = 0; i < 10'000; ++i) {
        names.push_back("op_" + std::to_string(10'000 + i));
    }
    const std::vector<std::string_view> known(names.begin(), names.end());
    CHECK(nearest("op_10x23", known) == "op_10023");
    CHECK(nearest("op_1x999", known) != "op_19999"); // the last
}

TEST_CASE("text from outside is shown so that it cannot disturb a terminal or a log") {
    CHECK(quote("acme") == "'acme'");
    CHECK(quote("a\x1b[2J\n") == "'a\\x1b[2J\\x0a'");
    CHECK(quote("gr\xc3\xbc\xc3\x9f") == "'gr\xc3\xbc\xc3\x9f'");
    CHECK(quote("\xff\xc3") == "'\\xff\\xc3'");
    CHECK(quote(std::string_view("\0", 1)) == "'\\x00'");
    CHECK(quote(std::string(1'000'000, 'a')) == "'" + std::string(80, 'a') + "...'");
    CHECK(quote(std::string(80, 'a')) == "'" + std::string(80, 'a') + "'");
}

TEST_CASE("a name is shown whole and on one line") {
    CHECK(visible_line("a\n\x1b[2Jb\u202e") == "a\\x0a\\x1b[2Jb\\u202e");
    CHECK(visible_line(std::string(1000, 'a')) == std::string(1000, 'a'));
}

TEST_CASE("controls of terminals and of the direction of writing are shown, whatever their encoding") {
    CHECK(visible("a\x1b]0;title\x07 b\r") == "a\\x1b]0;title\\x07 b\\x0d");
    CHECK(visible("one\ntwo") == "one\ntwo"); // line breaks stay
    CHECK(visible("\xc2\x9b"
                  "2J") == "\\u009b2J"); // CSI as one character
    CHECK(visible("\u202egnp.so\u2066 \u200e\u061c\u2028") == "\\u202egnp.so\\u2066 \\u200e\\u061c\\u2028");
    CHECK(visible("a\u200bb\ufeff\u00ad \u2060 \uffff\u3164") == "a\\u200bb\\ufeff\\u00ad \\u2060 \\uffff\\u3164");
    CHECK(visible("acme\U000e0041\U000e007f") == "acme\\U000e0041\\U000e007f"); // tags make it a different text
    CHECK(visible("a\u115f\u1160\uffa0b") == "a\\u115f\\u1160\\uffa0b");
    CHECK(visible("\xff \xc3") == "\\xff \\xc3");
    CHECK(visible("\xe0\x80\x8a \xed\xa0\x80") ==
          "\\xe0\\x80\\x8a \\xed\\xa0\\x80"); // an overlong encoding, a surrogate
    CHECK(visible("gr\xc3\xbc\xc3\x9f \u4e2d\U0001f680") == "gr\xc3\xbc\xc3\x9f \u4e2d\U0001f680");
    CHECK(quote("\u202e\xc2\x85") == "'\\u202e\\u0085'");
    CHECK_FALSE(is_printable("a\u202e"));
    CHECK_FALSE(is_printable("a\xc2\x9b"));
    CHECK(is_printable("\u4e2d\U0001f680"));
}

TEST_CASE("the first and the last character of each length are characters, and what lies beside them is none") {
    for (const char *character :
         {" ", "~", "\u00a0", "\u07ff", "\u0800", "\xed\x9f\xbf", "\ue000", "\ufffd", "\U00010000", "\U0010ffff"}) {
        CAPTURE(character);
        CHECK(is_printable(character));
        CHECK(visible(character) == character);
        const std::string cut(character, std::string_view(character).size() - 1);
        CHECK(is_printable(cut) == cut.empty());
        CHECK_FALSE(is_printable(character + std::string("\xbf")));
    }
    for (const char *none :
         {"\x80", "\xbf", "\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xed\xbf\xbf", "\xf0\x8f\xbf\xbf",
          "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "\xc2 ", "\xc2\xc2", "\xe1\x80 ", "\xf1\x80\x80 "}) {
        CAPTURE(none);
        CHECK_FALSE(is_printable(none));
    }
}

TEST_CASE("what stands right beside the controls is shown as it is") {
    for (const char *control :
         {"\x01",   "\x1f",   "\x7f",   "\xc2\x80", "\xc2\x9f", "\u00ad",     "\u061c",     "\u115f",    "\u1160",
          "\u180e", "\u200b", "\u200f", "\u2028",   "\u202e",   "\u2060",     "\u206f",     "\u3164",    "\ufeff",
          "\uffa0", "\ufff9", "\ufffb", "\ufffe",   "\uffff",   "\U000e0000", "\U000e0020", "\U000e007f"}) {
        CAPTURE(control);
        CHECK_FALSE(is_printable(control));
    }
    for (const char *beside :
         {" ",      "~",          "\u00a0",     "\u00ac", "\u00ae", "\u061b", "\u061d", "\u115e", "\u1161", "\uff9f",
          "\uffa1", "\U000dfffd", "\U000e0080", "\u180d", "\u180f", "\u200a", "\u2010", "\u2027", "\u202f", "\u205f",
          "\u2070", "\u3163",     "\u3165",     "\ufefe", "\uff01", "\ufff8", "\ufffc", "\ufffd"}) {
        CAPTURE(beside);
        CHECK(is_printable(beside));
    }
}

TEST_CASE("names that policies spell are printable ASCII without separators") {
    CHECK(find_no_name_character("Acme-norms_2.x+y") == std::string_view::npos);
    for (const char *name : {"a b", "a,b", "a;b", "a:b", "a|b", "a=b", "a'b", "a\"b", "a\tb", "a\x7f", "a\u200b",
                             "a\u00a0b", "a\u0441me", "a\u00adb", "a\ufeff"}) {
        CAPTURE(name);
        CHECK(find_no_name_character(name) == 1);
    }
}

TEST_CASE("a choice of words reads as a sentence") {
    constexpr std::array<std::string_view, 3> words = {"a", "b", "c"};
    CHECK(one_of(words) == "'a', 'b' or 'c'");
    CHECK(one_of(std::span(words).first(2)) == "'a' or 'b'");
    CHECK(one_of(std::span(words).first(1)) == "'a'");
}

TEST_CASE("a count is followed by its noun in singular or plural") {
    CHECK(counted(1, "config") == "1 config");
    CHECK(counted(0, "config") == "0 configs");
    CHECK(counted(2, "entry", "entries") == "2 entries");
    CHECK(counted(1, "entry", "entries") == "1 entry");
}
