#include "text/bounded_yaml.hpp"

#include <algorithm>
#include <ctime>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "thrown_error.hpp"

using namespace opdock::core;
using opdock::test::message_of;
using opdock::test::thrown_by;

namespace {

using Type = YamlNode::Type;

YamlNode parse(std::string_view text) {
    return parse_bounded_yaml(text, "f.yaml", OPDOCK_INVALID_POLICY);
}

std::string refusal(const std::string &text) {
    return message_of([&] { parse(text); });
}

// `piece` repeated up to `bytes`, with a line break before each piece that would exceed the longest line.
std::string filled(const std::string &piece, std::size_t bytes, const std::string &line_break = {}) {
    std::string text;
    std::size_t column = 0;
    while (text.size() + piece.size() + line_break.size() <= bytes) {
        text += piece;
        column = piece.back() == '\n' ? 0 : column + piece.size();
        if (!line_break.empty() && column + piece.size() > most_yaml_line_bytes) {
            text += line_break;
            column = line_break.size();
        }
    }
    return text;
}

double cpu_milliseconds() {
    timespec now = {};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
}

// Milliseconds of processor time. The worst text takes 72 in an unoptimized build: load does not reach this limit, but
// time that is quadratic in the bytes does.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr double time_limit = 40'000;
#else
constexpr double time_limit = 2000;
#endif

std::size_t count_nodes(const YamlNode &node) {
    std::size_t count = 1;
    for (const YamlNode &item : node.items) {
        count += count_nodes(item);
    }
    for (const auto &[key, value] : node.entries) {
        count += count_nodes(key) + count_nodes(value);
    }
    return count;
}

} // namespace

TEST_CASE("a text becomes a tree of values with their positions") {
    const YamlNode root = parse("a: 1\nlist:\n  - x\n  - 'y z'\nmap: {k: v}\nnothing:\n");
    REQUIRE(root.type == Type::map);
    REQUIRE(root.entries.size() == 4);
    CHECK(root.entries[0].key.text == "a");
    CHECK(root.entries[0].value.text == "1");
    const YamlNode &list = root.entries[1].value;
    REQUIRE(list.items.size() == 2);
    CHECK(list.items[1].text == "y z");
    CHECK(list.items[1].is_quoted);
    CHECK(list.items[1].line == 4);
    CHECK(list.items[1].column == 5);
    CHECK(root.entries[2].value.entries[0].value.text == "v");
    CHECK(root.entries[3].value.type == Type::null);
    CHECK(root.entries[3].value.line == 6); // the key's line: an empty value has none
}

TEST_CASE("an empty text and one of comments are nothing") {
    CHECK(parse("").type == Type::null);
    CHECK(parse("# [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[ nothing but brackets\n").type == Type::null);
}

TEST_CASE("what has no place in a configuration file is an error with line and column") {
    const struct {
        const char *text, *message;
    } cases[] = {
        {"a: b\nc: *x\n", "f.yaml:2:4: an alias (*name) without its anchor (&name) before it"},
        {"a: &x [b, *x]\n", "f.yaml:1:11: an alias (*name) inside the value that it names; write the value out"},
        {"a: &x b\n<<: *x\n", "f.yaml:2:1: '<<' merges a map, or a list of maps"},
        {"a: &x {b: 1}\n? *x\n: c\n", "f.yaml:2:3: expected a plain name as key, found a list, a map or nothing"},
        {"a: !!str b\n", "f.yaml:1:4: a tag is not allowed: remove 'tag:yaml.org,2002:str'"},
        {"a: !local [b]\n", "f.yaml:1:4: a tag is not allowed: remove '!local'"},
        {"%YAML 1.2\n---\na: b\n", "f.yaml:1:1: directives (%YAML, %TAG) are not allowed; remove the line"},
        {"a: b\n---\nc: d\n", "f.yaml:2:1: a second document begins; expected one"},
        {"a: 1\nb: 2\na: 3\n", "f.yaml:3:1: key 'a' is given twice; keep one"},
        {"a: {b: 1, \"b\": 2}\n", "f.yaml:1:11: key 'b' is given twice; keep one"},
        {"? [a]\n: b\n", "f.yaml:1:3: expected a plain name as key, found a list, a map or nothing"},
        {"a: [b, c\n", "f.yaml:2:1: a list that begins with '[' does not end; expected ']'"},
        {"{a: b\n", "f.yaml:2:1: a map that begins with '{' does not end; expected '}'"},
        {"a: 'b", "f.yaml:1:6: a quoted text does not end; expected the closing quote"},
        {"a: b: c\n", "f.yaml:1:5: unexpected ':'; check the indentation (spaces, no tabs), or quote the text"},
        {"a: 1\n  b: 2\n", "f.yaml:2:4: unexpected ':'; check the indentation (spaces, no tabs), or quote the text"},
        {"a: b\nc: \x01\n", "f.yaml:2:4: unexpected control character '\\x01'; expected UTF-8 text"},
        {"a: b\nc\x88: d\n", "f.yaml:2:2: unexpected byte '\\x88'; expected UTF-8 text"},
        {"a: \"\xc3\"\n", "f.yaml:1:5: unexpected byte '\\xc3'; expected UTF-8 text"},
        {"a: b # caf\xe9\n", "f.yaml:1:11: unexpected byte '\\xe9'; expected UTF-8 text"},
        {"\xff\xfe\x61", "f.yaml:1:1: the text is UTF-16; expected UTF-8"},
    };
    for (const auto &[text, message] : cases) {
        const auto &tried = text;
        CAPTURE(tried);
        CHECK(refusal(text) == message);
    }
}

namespace {

// A tree as one line: {a: [b, c]}
std::string spelled(const YamlNode &node) {
    std::string text;
    for (const YamlNode &item : node.items) {
        text += (text.empty() ? "" : ", ") + spelled(item);
    }
    for (const auto &[key, value] : node.entries) {
        text += (text.empty() ? "" : ", ") + spelled(key) + ": " + spelled(value);
    }
    return node.type == Type::sequence ? "[" + text + "]"
           : node.type == Type::map    ? "{" + text + "}"
           : node.type == Type::null   ? "~"
                                       : node.text;
}

} // namespace

TEST_CASE("an alias is the value that its anchor names, wherever that stands") {
    const std::pair<const char *, const char *> cases[] = {
        {"a: &x b\nc: *x\n", "{a: b, c: b}"},
        {"- &x\n- *x\n", "[~, ~]"},
        {"a: &x [1, {b: 2}]\nc: [0, *x, *x]\n", "{a: [1, {b: 2}], c: [0, [1, {b: 2}], [1, {b: 2}]]}"},
        {"a: {b: [&x {c: 1}, *x]}\nd: *x\n", "{a: {b: [{c: 1}, {c: 1}]}, d: {c: 1}}"},
        {"a: {k: 0, b: {c: &x 1, d: *x}, e: *x}\n", "{a: {k: 0, b: {c: 1, d: 1}, e: 1}}"},
        {"&x a: b\nc: *x\n", "{a: b, c: a}"},
        {"a: &x 1\nb: &x 2\nc: *x\n", "{a: 1, b: 2, c: 2}"},
        {"a: &x {b: &y [1], c: *y}\nd: {e: *x, f: *y}\n", "{a: {b: [1], c: [1]}, d: {e: {b: [1], c: [1]}, f: [1]}}"},
        {"a: &x b\n*x : c\n", "{a: b, b: c}"},
    };
    for (const auto &[text, tree] : cases) {
        const auto &tried = text;
        CAPTURE(tried);
        CHECK(spelled(parse(text)) == tree);
    }
    const YamlNode root = parse("a: &x\n  - b\nc: *x\n");
    CHECK(root.entries[1].value.items[0].line == 2); // where the value was written
}

TEST_CASE("a merged map gives the entries that the map around it does not have") {
    const std::pair<const char *, const char *> cases[] = {
        {"- &x {a: 1, b: 2}\n- {<<: *x, b: 3, c: 4}\n", "[{a: 1, b: 2}, {b: 3, c: 4, a: 1}]"},
        {"- &x {a: 1, b: 2}\n- &y {b: 5, d: 6}\n- {<<: [*x, *y]}\n",
         "[{a: 1, b: 2}, {b: 5, d: 6}, {a: 1, b: 2, d: 6}]"},
        {"- &x {a: 1}\n- &y {<<: *x, b: 2}\n- {<<: *y, c: &z 3, d: *z}\n",
         "[{a: 1}, {b: 2, a: 1}, {c: 3, d: 3, b: 2, a: 1}]"},
        {"'<<': {a: 1}\n", "{<<: {a: 1}}"},
        {"1: {a: 2}\n<: {b: 3}\n<<<: {c: 4}\n", "{1: {a: 2}, <: {b: 3}, <<<: {c: 4}}"},
    };
    for (const auto &[text, tree] : cases) {
        const auto &tried = text;
        CAPTURE(tried);
        CHECK(spelled(parse(text)) == tree);
    }
}

TEST_CASE("what aliases come to is within the limits of what is written out") {
    std::string laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
    for (int i = 1; i < 10; ++i) {
        const std::string before = "*a" + std::to_string(i - 1);
        laughs += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + before;
        for (int j = 1; j < 10; ++j) {
            laughs += ", " + before;
        }
        laughs += "]\n";
    }
    CHECK(refusal(laughs) == "f.yaml:5:10: more than 20000 values; shorten the text");

    std::string deep = "a0: &a0 [[[[[[[[[[x]]]]]]]]]]\n"; // ten levels
    deep += "b: [[[[[[[[[[[[[[[[[[[[[*a0]]]]]]]]]]]]]]]]]]]]]\n";
    CHECK_NOTHROW(parse(deep)); // 1 + 21 + 10
    deep += "c: [[[[[[[[[[[[[[[[[[[[[[*a0]]]]]]]]]]]]]]]]]]]]]]\n";
    CHECK(refusal(deep) == "f.yaml:3:26: nested deeper than 32 levels");

    const std::string text(8192, 'x');
    std::string long_texts = "- &a " + text + "\n";
    for (int i = 0; i < 32; ++i) {
        long_texts += "- *a\n";
    }
    CHECK(parse(long_texts).items.size() == 33);
    CHECK(refusal(long_texts + "- *a\n") ==
          "f.yaml:34:3: aliases (*name) expand to more than 262144 bytes of text; shorten it");
}

TEST_CASE("a NUL byte is an error, not the end of the text") {
    CHECK(refusal(std::string("a: b\0c\n", 7)) ==
          "f.yaml:1:5: unexpected control character '\\x00'; expected UTF-8 text");
}

TEST_CASE("a text in UTF-32 is told as that, and not as UTF-16, which begins alike") {
    for (const std::string &text : {std::string("\xff\xfe\0\0a\0\0\0", 8), std::string("\0\0\xfe\xff\0\0\0a", 8)}) {
        CHECK(refusal(text) == "f.yaml:1:1: the text is UTF-32; expected UTF-8");
    }
}

// yaml-cpp takes it for a line break, editors do not: line numbers would differ, and comments would end where no
// reader of the file sees it.
TEST_CASE("a carriage return alone is an error, and before a line feed part of it") {
    CHECK(refusal("a: b # c\rd: e\n") ==
          "f.yaml:1:9: a carriage return without a line feed; expected lines that end in LF or CR LF");
    CHECK(refusal("a: b\r") ==
          "f.yaml:1:5: a carriage return without a line feed; expected lines that end in LF or CR LF");
    CHECK(refusal("# " + std::string("\r") + std::string(100'000, '[')).starts_with("f.yaml:1:3: a carriage return"));
    CHECK(parse("a: b\r\nc: d\r\n").entries.size() == 2);
}

TEST_CASE("errors carry the status that the caller names") {
    CHECK(thrown_by([] { parse_bounded_yaml("a: [", "f", OPDOCK_LOAD_FAILED); }).status() == OPDOCK_LOAD_FAILED);
}

TEST_CASE("32 levels are taken and 33 are not, however they are written") {
    const auto nested = [](const std::string &open, std::size_t levels, const std::string &close) {
        std::string text;
        for (std::size_t i = 0; i < levels; ++i) {
            text += open;
        }
        text += "a";
        for (std::size_t i = 0; i < levels; ++i) {
            text += close;
        }
        return text;
    };
    const std::string too_deep = "nested deeper than 32 levels";
    CHECK_NOTHROW(parse(nested("[", 32, "]")));
    CHECK(refusal(nested("[", 33, "]")) == "f.yaml:1:33: " + too_deep);
    CHECK_NOTHROW(parse(nested("- ", 32, "")));
    CHECK(refusal(nested("- ", 33, "")) == "f.yaml:1:65: " + too_deep);
    CHECK_NOTHROW(parse(nested("{a: ", 32, "}")));
    CHECK(refusal(nested("{a: ", 33, "}")) == "f.yaml:1:129: " + too_deep);
}

TEST_CASE("a key of 240 bytes is taken and a longer one is not") {
    const std::string longest(240, '\'');
    CHECK(parse("? \"" + longest + "\"\n: 1\n").entries.front().key.text == longest);
    CHECK(refusal("a: {" + std::string(241, 'k') + ": 1}\n") ==
          "f.yaml:1:5: the key is longer than 240 bytes; shorten it");
}

TEST_CASE("brackets inside quotes and comments are no levels") {
    std::string text;
    for (int i = 0; i < 100; ++i) {
        text += "k" + std::to_string(i) + ": '[ {' # ] }\n";
    }
    CHECK(parse("# " + std::string(100, '[') + "\n" + text).entries.size() == 100);
}

TEST_CASE("a closing bracket ends one level, and where none is open it ends nothing") {
    const auto text = [](const std::string &before, std::size_t levels) {
        return "k: '" + before + std::string(levels, '[') + std::string(levels, '}') + "'\n";
    };
    for (const char *before : {"", "[]", "{}{}", "[[]]", "]", "}}}"}) {
        CAPTURE(before);
        CHECK_NOTHROW(parse(text(before, 32)));
        CHECK(refusal(text(before, 33)).ends_with("nested deeper than 32 levels"));
    }
}

TEST_CASE("closing brackets in comments hide no depth from the reader") {
    std::string text = "a: ";
    for (int i = 0; i < 40; ++i) {
        text += "[ # ]\n ";
    }
    text += std::string(40, ']');
    CHECK(refusal(text) == "f.yaml:32:2: nested deeper than 32 levels");
}

TEST_CASE("each limit has its error") {
    CHECK(refusal(filled("a: b # 3456789 123456789 123456789\n", most_yaml_bytes + 100))
              .find("the text is longer than 262144 bytes; shorten it") != std::string::npos);
    CHECK(refusal("a: " + std::string(most_yaml_line_bytes, 'b')) ==
          "f.yaml:1:16385: the line is longer than 16384 bytes; break it");
    CHECK(refusal(std::string(most_yaml_lines, '\n')) ==
          "f.yaml:40001:1: the text has more than 40000 lines; shorten it");
    CHECK(refusal(filled("[]\n", most_yaml_bytes)) ==
          "f.yaml:8193:1: more than 16384 of [ ] { } , in one text; write long lists with one entry per line");
    CHECK(refusal(filled("- a\n", 4 * most_yaml_nodes)) == "f.yaml:20000:3: more than 20000 values; shorten the text");
    CHECK(parse(filled("- a\n", 4 * (most_yaml_nodes - 1))).items.size() == most_yaml_nodes - 1);
}

TEST_CASE("no text takes long to judge") {
    constexpr std::size_t mebibyte = 1024 * 1024;
    constexpr std::size_t fits = most_yaml_bytes;
    std::vector<std::pair<std::string, std::string>> texts;
    for (const char *piece : {"[",     "{",   "- ",  "? ",     "a: ", "!",     "! ",  "&a ",    "*a ",          "\"",
                              "'",     "a,",  "[a,", "{a: b,", "\n",  "- a\n", "-\n", "a: b\n", "%TAG !a! b\n", "---\n",
                              "...\n", "#\n", "|\n", "\xff",   " ",   "a"}) {
        texts.emplace_back(piece, filled(piece, mebibyte));
    }
    for (const char *piece : {"- ", "? ", "! ", "&a ", "*a ", "a ", "\"a\" ", "a: ", "a ? ", "\xe2\x80\xa8 "}) {
        texts.emplace_back(piece, filled(piece, fits, "\n"));
    }
    for (const char *piece :
         {"\"abc\"\n", "b b\n ", "- abcd\n", "    \t\n", "a:\n- - - b\n", "- - - - - - - - - - a\n"}) {
        texts.emplace_back(piece, filled(piece, fits));
    }
    texts.emplace_back("unclosed list", "[\n" + filled("\"abc\"\n", fits - 2));
    texts.emplace_back("long text", "a: " + filled("b ", fits - 3, "\n "));
    texts.emplace_back("long quoted text", "a: \"" + filled("\\x41 ", fits - 5, "\n ") + "\"");
    std::string keys;
    for (std::size_t i = 0; i < most_yaml_nodes / 2 - 2; ++i) {
        keys += "k" + std::to_string(i) + ": 1\n";
    }
    texts.emplace_back("duplicate at the end", keys + "k0: 1\n");
    std::string anchors;
    for (std::size_t i = 0; i < most_yaml_nodes / 2 - 1; ++i) {
        anchors += "- &a" + std::to_string(i) + " 1\n- *a" + std::to_string(i) + "\n";
    }
    texts.emplace_back("anchors and aliases", anchors);
    std::string nested;
    for (std::size_t i = 0; i < most_yaml_depth; ++i) {
        nested += "&a" + std::to_string(i) + " [";
    }
    texts.emplace_back("anchors in anchors", nested + "\n" + filled("&b a,\n", fits / 2));
    std::string merges = "- &a {k: 1}\n";
    for (std::size_t i = 0; i < most_yaml_nodes / 6; ++i) {
        merges += "- &a {<<: *a}\n";
    }
    texts.emplace_back("merges of merges", merges);
    const std::string half = "- &a\n" + filled("  - 1\n", most_yaml_nodes / 2 * 6);
    texts.emplace_back("a copy of half", half + "- *a\n");
    for (const auto &[name, text] : texts) {
        const auto &tried = name;
        CAPTURE(tried);
        const std::size_t size = text.size();
        CAPTURE(size);
        const double before = cpu_milliseconds();
        try {
            const YamlNode root = parse(text);
            CHECK(count_nodes(root) <= most_yaml_nodes);
        } catch (const Error &error) {
            CHECK(std::string(error.what()).starts_with("f.yaml:"));
        }
        CHECK(cpu_milliseconds() - before < time_limit);
    }
}

TEST_CASE("a text may be as large as its limits say") {
    std::string longest = filled("# 3456789 123456789 123456789\n", most_yaml_bytes);
    longest.append(most_yaml_bytes - longest.size(), '\n');
    CHECK(parse(longest).type == Type::null);
    CHECK(refusal(longest + "\n").find("the text is longer than 262144 bytes; shorten it") != std::string::npos);
    const std::string widest(most_yaml_line_bytes - 3, 'b');
    CHECK(parse("a: " + widest).entries.at(0).value.text == widest);
    CHECK(parse(std::string(most_yaml_lines - 1, '\n')).type == Type::null);
    CHECK(parse(filled("- []\n", 5 * most_yaml_flow_indicators / 2)).items.size() == most_yaml_flow_indicators / 2);
}

TEST_CASE("control characters are an error up to the space and behind the tilde") {
    CHECK(refusal("a: \x1f\n") == "f.yaml:1:4: unexpected control character '\\x1f'; expected UTF-8 text");
    CHECK(refusal("a: \x7f\n") == "f.yaml:1:4: unexpected control character '\\x7f'; expected UTF-8 text");
    CHECK(parse("a: '~ !'\t# c\n").entries.at(0).value.text == "~ !");
}

TEST_CASE("a percent sign is a directive at the beginning of a line alone") {
    CHECK(parse("a: 50%\n").entries.at(0).value.text == "50%");
    CHECK(parse(" # %YAML 1.2\n").type == Type::null);
    CHECK(refusal("a: b\n%TAG\n") == "f.yaml:2:1: directives (%YAML, %TAG) are not allowed; remove the line");
}

TEST_CASE("a comment may stand behind tabs, whatever its brackets") {
    CHECK(parse("a: b\n \t# " + std::string(40, '[') + "\n").entries.size() == 1);
}

TEST_CASE("a value that is missing stands where its key does") {
    const YamlNode nothing = parse("map:\n  k:\n").entries.at(0).value.entries.at(0).value;
    CHECK(nothing.type == Type::null);
    CHECK(nothing.line == 2);
    CHECK(nothing.column == 3);
}

TEST_CASE("maps that aliases name are levels, and their keys are values, as if written out") {
    const auto around = [](std::size_t levels) {
        return "a: &a {b: c}\nd: " + std::string(levels, '[') + "*a" + std::string(levels, ']') + "\n";
    };
    CHECK(parse(around(30)).entries.size() == 2); // 1 + 30 + 1
    CHECK(refusal(around(31)) == "f.yaml:2:35: nested deeper than 32 levels");

    std::string text = "- &a\n";
    for (int i = 0; i < 4999; ++i) {
        text += "  k" + std::to_string(i) + ": v\n";
    }
    text += "- *a\n- x\n"; // 1 + 2 * (1 + 2 * 4999) + 1
    CHECK(parse(text).items.size() == 3);
    CHECK(refusal(text + "- y\n") == "f.yaml:5003:3: more than 20000 values; shorten the text");
}
