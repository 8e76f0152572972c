#include "tune/tune_file.hpp"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <spdlog/fmt/fmt.h>

#include "opdock/opdock.h"
#include "temporary_directory.hpp"
#include "text/error.hpp"
#include "thrown_error.hpp"

using namespace opdock::core;
using opdock::test::thrown_by;

namespace {

TuneFile parse(const std::string &text) {
    return parse_tune_file(text, "acme.tune.yaml");
}

std::vector<std::string> problems(const std::string &text) {
    const TuneFile file = parse(text);
    std::vector<std::string> texts;
    for (const TuneProblem &problem : file.problems) {
        texts.push_back(text_of(file, problem));
    }
    return texts;
}

// The text of a file whose only section has this `body`.
std::string section(const std::string &body) {
    return "schema: opdock.tune/1\nops:\n  scale:\n    " + body + "\n";
}

// A config as text, "a=1 b=2 c=word", sorted by name.
std::string spelled(const NamedValues &config) {
    std::set<std::string> parts;
    for (const NamedValue &value : config) {
        parts.insert(value.name.text + "=" + value.value.word.value_or(std::to_string(value.value.value)));
    }
    std::string text;
    for (const std::string &part : parts) {
        text += (text.empty() ? "" : " ") + part;
    }
    return text;
}

std::set<std::string> configs(const TuneFile &file, const std::string &op) {
    std::set<std::string> found;
    for (const TuneSection &one : file.sections) {
        for (size_t i = 0; one.op.text == op && i < one.configs.size(); ++i) {
            NamedValues config = one.configs[i];
            for (const NamedValue &assumed : one.assumed) {
                const bool is_given = std::any_of(config.begin(), config.end(), [&](const NamedValue &value) {
                    return value.name.text == assumed.name.text;
                });
                if (!is_given) {
                    config.push_back(assumed);
                }
            }
            found.insert(spelled(config));
        }
    }
    return found;
}

} // namespace

TEST_CASE("a tune file with everything is read") {
    const TuneFile file = parse(R"(schema: opdock.tune/1
ops:
  rmsnorm_fwd:
    - impl: vendor.acme
      architectures: [sm_90, sm_80+]
      devices: ['NVIDIA H200']
      dtypes: ['bf16,f32', f16]
      key: {n: exact, rows: log2, m: multiple of 64}
      configs:
        - {block: 256, stream: true}
        - {block: 512}
      product:
        block: [64, 128]
        vector: 4
      where:
        - block * vector <= n
      heuristics:
        block: min(1024, next_pow2(n))
      pinned:
        - {key: {n: 4096, rows: 16, m: 64}, config: {block: 1024, stream: false}}
    - configs: [{block: 1}]
  gelu:
    configs: [{block: 2}]
)");
    CHECK(file.problems.empty());
    REQUIRE(file.sections.size() == 3);
    const TuneSection &first = file.sections[0];
    CHECK(first.op.text == "rmsnorm_fwd");
    CHECK(first.implementations.size() == 1);
    CHECK(first.implementations[0].text == "vendor.acme");
    CHECK(first.architectures.size() == 2);
    CHECK(first.devices[0].text == "NVIDIA H200");
    CHECK(first.dtypes[0].text == "bf16,f32");
    REQUIRE(first.key.size() == 3);
    CHECK(first.key[2].second.of(65) == 128);
    CHECK(first.key[1].second.of(65) == 128);
    CHECK(first.key[0].second.of(65) == 65);
    REQUIRE(first.configs.size() == 2);
    CHECK(spelled(first.configs[0]) == "block=256 stream=1");
    CHECK(first.product.size() == 2);
    CHECK(first.product[1].second.size() == 1);
    CHECK(first.where[0].text == "block * vector <= n");
    CHECK(first.heuristics[0].second.text == "min(1024, next_pow2(n))");
    REQUIRE(first.pinned.size() == 1);
    CHECK(spelled(first.pinned[0].key) == "m=64 n=4096 rows=16");
    CHECK(first.pinned[0].place.line == 20);
    CHECK(file.sections[2].op.text == "gelu");

    // Printed and read again, it is the same.
    const TuneFile again = parse(print_tune_file(file));
    CHECK(again.problems.empty());
    CHECK(print_tune_file(again) == print_tune_file(file));
}

TEST_CASE("what is wrong with an entry has its line and column, and the rest is read") {
    using Texts = std::vector<std::string>;
    CHECK(problems(section("confgs: [{block: 1}]")) ==
          Texts{"acme.tune.yaml:4:5: unknown field 'confgs'; did you mean 'configs'?"});
    CHECK(problems("schema: opdock.tune/1\nop: {}\n") ==
          Texts{"acme.tune.yaml:2:1: unknown field 'op'; did you mean 'ops'?"});
    CHECK(problems(section("configs: [{block: []}, {block: 2}]")) ==
          Texts{"acme.tune.yaml:4:23: 'block': expected an integer, true or false, found a list"});
    CHECK(problems(section("pinned: [{key: {n: many}, config: {block: 8}}]")) ==
          Texts{"acme.tune.yaml:4:24: 'n': expected an integer, true or false, found 'many'"});
    CHECK(problems(section("configs: 5")) == Texts{"acme.tune.yaml:4:14: configs: expected a list, found a value"});
    CHECK(problems(section("key: {n: log}")) ==
          Texts{"acme.tune.yaml:4:14: expected exact, log2 or multiple of N, found 'log'"});
    CHECK(problems(section("key: {n: multiple of 0}")).size() == 1);
    CHECK(problems(section("product: {block: []}")).size() == 1);
    CHECK(problems(section("pinned: [{key: {n: 1}}]")) ==
          Texts{"acme.tune.yaml:4:14: a pinned entry has a key and a config"});
    CHECK(problems("schema: opdock.tune/1\nops:\n  scale: 5\n").size() == 1);

    CHECK(parse(section("configs: [{block: []}, {block: 2}]")).sections[0].configs.size() == 1);
}

TEST_CASE("what is no tune file is one error") {
    for (const auto &[text, part] : std::vector<std::pair<std::string, std::string>>{
             {"[1, 2]", "1:1: expected a map, found a list"},
             {"schema: opdock.tune/2\n", "1:9: expected schema opdock.tune/1, found 'opdock.tune/2'"},
             {"ops: {scale: {}}\n", "1:1: expected 'schema: opdock.tune/1', or a list of configs for each op"},
             {"schema: opdock.tune/1\nops: {a: {}, b: *x}\n", "2:17: an alias (*name) without its anchor"},
             {"schema: opdock.tune/1\nops:\n  a: {}\n  a: {}\n", "4:3: key 'a' is given twice"},
         }) {
        const auto &tried = text;
        CAPTURE(tried);
        const Error error = thrown_by([&text = text] { parse(text); });
        CHECK(error.status() == OPDOCK_INVALID_TUNE_FILE);
        CHECK(std::string(error.what()).starts_with("acme.tune.yaml:"));
        CHECK(std::string(error.what()).find(part) != std::string::npos);
    }
    CHECK(parse("").sections.empty());
}

TEST_CASE("a product that explodes is left out") {
    std::string body = "product: {";
    for (int knob = 0; knob < 20; ++knob) {
        body += (knob == 0 ? "k" : ", k") + std::to_string(knob) + ": [1, 2, 3, 4, 5, 6, 7, 8]";
    }
    const TuneFile file = parse(section(body + "}"));
    REQUIRE(file.problems.size() == 1);
    CHECK(file.problems[0].message == "the product gives more than 65536 configs");
    CHECK(file.sections[0].product.empty());
    const std::string none = section("product: {block: 1, vector: []}");
    CHECK(problems(none) ==
          std::vector<std::string>{"acme.tune.yaml:4:33: 'vector' has no values, which leaves no config"});
    CHECK(parse(none).sections[0].product.empty());
}

TEST_CASE("what is long is written so that it can be read again, or not at all") {
    std::string values;
    for (int i = 0; i < 9000; ++i) {
        values += fmt::format("        - {}\n", 100 + i);
    }
    const TuneFile file = parse("schema: opdock.tune/1\nops:\n  scale:\n    product:\n      block:\n" + values);
    REQUIRE(file.sections.at(0).product.at(0).second.size() == 9000);
    const TuneFile again = parse(print_readable_tune_file(file));
    REQUIRE(again.sections.at(0).product.size() == 1);
    CHECK(again.sections[0].product[0].second.size() == 9000);

    std::string gems = "scale:\n- gen: true\n  a: [";
    for (int i = 0; i < 200; ++i) {
        gems += fmt::format("{}{}", i == 0 ? "" : ", ", i);
    }
    gems += "]\n  param_map: {META: {A: a}, num_warps: a}\n";
    const TuneFile generated = parse(gems);
    CHECK(generated.sections.at(0).configs.size() == 40'000);
    CHECK(opdock::test::message_of([&] {
              (void)print_readable_tune_file(generated);
          }).find("more than a tune file may hold") != std::string::npos);
}

TEST_CASE("a value is bucketed as it is, by powers of two, or by multiples, and below none it stays as it is") {
    const Bucket exact{}, log2{Bucket::Kind::log2, 1}, multiple{Bucket::Kind::multiple, 32};
    constexpr int64_t most = int64_t{1} << 53;
    struct Row {
        int64_t value, by_log2, by_multiple;
    };
    for (const Row &row : {Row{-33, -33, -33}, Row{-1, -1, -1}, Row{0, 0, 0}, Row{1, 1, 32}, Row{2, 2, 32},
                           Row{3, 4, 32}, Row{31, 32, 32}, Row{32, 32, 32}, Row{33, 64, 64}, Row{64, 64, 64},
                           Row{65, 128, 96}, Row{most, most, most}}) {
        CAPTURE(row.value);
        CHECK(exact.of(row.value) == row.value);
        CHECK(log2.of(row.value) == row.by_log2);
        CHECK(multiple.of(row.value) == row.by_multiple);
    }
    CHECK(exact.of(most + 1) == most);
    CHECK(log2.of(INT64_MAX) == most);
    CHECK(exact.text() == "exact");
    CHECK(log2.text() == "log2");
    CHECK(multiple.text() == "multiple of 32");
}

TEST_CASE("a key has multiples of 1 to 2 to the 40th") {
    const auto bucket = [](const std::string &text) {
        const TuneFile file = parse(section("key: {n: " + text + "}"));
        return file.problems.empty() ? file.sections.at(0).key.at(0).second.text() : file.problems[0].message;
    };
    CHECK(bucket("multiple of 1") == "multiple of 1");
    CHECK(bucket("multiple of 1099511627776") == "multiple of 1099511627776");
    for (const char *text : {"multiple of 0", "multiple of -1", "multiple of 1099511627777", "multiple of x", "log",
                             "multiple of", "multiple"}) {
        CAPTURE(text);
        CHECK(bucket(text) == "expected exact, log2 or multiple of N, found '" + std::string(text) + "'");
    }
    CHECK(
        problems(section("key: {n: [exact]}")) ==
        std::vector<std::string>{"acme.tune.yaml:4:14: the bucket of 'n' in the key: expected a value, found a list"});
}

TEST_CASE("a pinned entry has a key and a config and nothing else, and one that is wrong is left out alone") {
    const auto pinned = [](const std::string &entry) {
        const TuneFile file = parse(section("pinned: [" + entry + ", {key: {n: 7}, config: {block: 7}}]"));
        CHECK(file.problems.size() <= 1);
        CHECK(file.sections.at(0).pinned.back().config.at(0).value.value == 7);
        return std::to_string(file.sections[0].pinned.size()) +
               (file.problems.empty() ? "" : " " + file.problems[0].message);
    };
    CHECK(pinned("{key: {n: 1}, config: {block: 8}}") == "2");
    CHECK(pinned("{config: {block: 8}, key: {n: 1}}") == "2");
    CHECK(pinned("{key: {}, config: {}}") == "2");
    CHECK(pinned("{key: {n: 1}}") == "1 a pinned entry has a key and a config");
    CHECK(pinned("{config: {block: 8}}") == "1 a pinned entry has a key and a config");
    CHECK(pinned("{keys: {n: 1}, key: {n: 1}, config: {block: 8}}") == "2 unknown field 'keys'; did you mean 'key'?");
    CHECK(pinned("{key: {n: 1}, config: 5}") == "1 config: expected a map, found a value");
    CHECK(pinned("{key: {n: one}, config: {block: 8}}") ==
          "1 'n': expected an integer, true or false, found 'one'"); // only knobs may have words
    CHECK(pinned("{key: {n: 1}, config: {block: one}}") == "2");
    CHECK(pinned("5") == "1 a pinned entry: expected a map, found a value");
}

TEST_CASE("merging joins what is for the same, and the later pins win") {
    const TuneFile vendor = parse(section("configs: [{block: 1}]"));
    const TuneFile first = parse(section("{impl: a, pinned: [{key: {n: 1}, config: {block: 1}}, "
                                         "{key: {n: 2}, config: {block: 2}}]}"));
    const TuneFile second = parse(section("{impl: a, pinned: [{key: {n: 2}, config: {block: 3}}]}"));
    const TuneFile merged = merge_tune_files({vendor, first, second});
    REQUIRE(merged.sections.size() == 2);
    REQUIRE(merged.sections[1].pinned.size() == 2);
    CHECK(spelled(merged.sections[1].pinned[1].config) == "block=3");

    const TuneFile bucketed =
        merge_tune_files({parse(section("pinned: [{key: {n: 4000, rows: 2}, config: {block: 1}}]")),
                          parse(section("pinned: [{key: {rows: 2, n: 4096}, config: {block: 2}}]"))});
    REQUIRE(bucketed.sections.size() == 1);
    REQUIRE(bucketed.sections[0].pinned.size() == 1); // both apply to n=4096 rows=2; of two, the first would count
    CHECK(spelled(bucketed.sections[0].pinned[0].config) == "block=2");

    const TuneFile results = parse(section("{devices: A, pinned: [{key: {n: 1}, config: {block: 9}}]}"));
    const TuneFile pins = parse(section("{configs: [{block: 1}], pinned: [{key: {n: 1}, config: {block: 1}}]}"));
    const TuneFile ordered = merge_tune_files({pins, results});
    REQUIRE(ordered.sections.size() == 2); // the first section that pins a call applies
    CHECK(spelled(ordered.sections[0].pinned.at(0).config) == "block=9");
    CHECK(spelled(ordered.sections[1].pinned.at(0).config) == "block=1");
    const TuneFile back = merge_tune_files({results, pins});
    REQUIRE(back.sections.size() == 3);
    CHECK(spelled(back.sections[0].pinned.at(0).config) == "block=1");
    CHECK(back.sections[0].configs.empty());
    CHECK(back.sections[2].pinned.empty());
    CHECK(back.sections[2].configs.size() == 1);

    const TuneFile both = parse("schema: opdock.tune/1\nops:\n  a: {configs: [{block: 1}]}\n"
                                "  b: {pinned: [{key: {n: 1}, config: {block: 1}}]}\n");
    const TuneFile of_b =
        parse("schema: opdock.tune/1\nops:\n  b: {devices: A, pinned: [{key: {n: 1}, config: {block: 9}}]}\n");
    const TuneFile two_ops = merge_tune_files({both, of_b});
    REQUIRE(two_ops.sections.size() == 3); // the sections of each op stay together
    CHECK(two_ops.sections[0].op.text == "a");
    CHECK(spelled(two_ops.sections[1].pinned.at(0).config) == "block=9");
    CHECK(spelled(two_ops.sections[2].pinned.at(0).config) == "block=1");

    // A section that already exists does not conflict with itself, even after one that pins.
    const TuneFile pins_first = parse(section("[{devices: A, pinned: [{key: {n: 1}, config: {block: 1}}]}, "
                                              "{configs: [{block: 1}]}]"));
    CHECK(merge_tune_files({pins_first, vendor}).sections.size() == 2);
    const TuneFile more =
        merge_tune_files({pins_first, parse(section("{configs: [{block: 1}], pinned: [{key: {n: 2}, config: "
                                                    "{block: 2}}]}"))});
    REQUIRE(more.sections.size() == 3);
    CHECK(spelled(more.sections[0].pinned.at(0).config) == "block=2");
    CHECK(more.sections[1].devices.size() == 1);
    CHECK(more.sections[2].pinned.empty());
    CHECK(more.sections[2].configs.size() == 1);

    const TuneFile other = parse(section("configs: [{block: 2}]"));
    const Error error = thrown_by([&] { merge_tune_files({vendor, other}); });
    CHECK(error.status() == OPDOCK_INVALID_TUNE_FILE);
    CHECK(std::string(error.what()).find("keep one") != std::string::npos);
}

TEST_CASE("sections of two files are rivals when they are for the same in every way") {
    const auto merged = [](const std::string &one, const std::string &other) {
        return merge_tune_files(
                   {parse("schema: opdock.tune/1\nops:\n  " + one), parse("schema: opdock.tune/1\nops:\n  " + other)})
            .sections.size();
    };
    const std::string one = "scale: {impl: a, architectures: x, devices: A, dtypes: f32, configs: [{block: 1}]}\n";
    CHECK(merged(one, one) == 1);
    for (const char *other :
         {"scales: {impl: a, architectures: x, devices: A, dtypes: f32, configs: [{block: 2}]}\n",
          "scale: {impl: b, architectures: x, devices: A, dtypes: f32, configs: [{block: 2}]}\n",
          "scale: {impl: a, architectures: y, devices: A, dtypes: f32, configs: [{block: 2}]}\n",
          "scale: {impl: a, architectures: x, devices: B, dtypes: f32, configs: [{block: 2}]}\n",
          "scale: {impl: a, architectures: x, devices: A, dtypes: f16, configs: [{block: 2}]}\n",
          "scale: {impl: a, architectures: x, devices: A, dtypes: [f32, f16], configs: [{block: 2}]}\n"}) {
        CAPTURE(other);
        CHECK(merged(one, other) == 2);
    }
    for (const char *rival : {"configs: [{block: 2}]", "product: {block: [1]}", "heuristics: {block: '1'}",
                              "configs: [{block: 1}], where: n > 1"}) {
        CAPTURE(rival);
        const std::string other =
            "scale: {impl: a, architectures: x, devices: A, dtypes: f32, " + std::string(rival) + "}\n";
        CHECK(std::string(thrown_by([&] { merged(one, other); }).what()).ends_with("for the same; keep one"));
    }
}

TEST_CASE("a text is printed plain where it reads back as that text, and else in quotes or with escapes") {
    const std::pair<const char *, const char *> texts[] = {
        {"H200", "[H200]"},
        {"two words", "[two words]"},
        {"\xc3\xa9t\xc3\xa9", "[\xc3\xa9t\xc3\xa9]"},
        {" before", "[' before']"},
        {"behind ", "['behind ']"},
        {"-x", "['-x']"},
        {"x-", "[x-]"},
        {".5", "['.5']"},
        {"5.x", "[5.x]"},
        {"12", "['12']"},
        {"Null", "['Null']"},
        {"~", "['~']"},
        {"", "['']"},
        {"it's", "['it''s']"},
        {"a:b", "['a:b']"},
        {"a\\b", "['a\\b']"},
        {"a\"b", "['a\"b']"},
        {"a\x1f", R"(["a\x1f"])"},
        {"a\x7f\"\\b", R"(["a\x7f\"\\b"])"},
        {"a\U000e0041\u115f", R"(["a\U000e0041\u115f"])"},
    };
    for (const auto &row : texts) {
        const std::string text = row.first, printed = row.second;
        CAPTURE(text);
        TuneFile file = parse(section("{devices: [here], configs: [{block: 1}]}"));
        file.sections.at(0).devices.at(0).text = text;
        const std::string whole = print_tune_file(file);
        CHECK_MESSAGE(whole.find("devices: " + printed + "\n") != std::string::npos, whole);
        CHECK(parse(whole).sections.at(0).devices.at(0).text == text);
    }
}

TEST_CASE("what is printed has one layout, whatever the file looked like") {
    const TuneFile file = parse(R"(schema: opdock.tune/1
ops:
  scale:
    - {impl: a, architectures: [x, y], devices: H200, dtypes: f16, key: {n: exact}, assume: {block: 2},
       configs: [{block: 1}, {block: 3, vector: 4}], product: {block: [5, 6], vector: 7}, where: [block > 1, n > 2],
       heuristics: {block: n / 2, vector: '1'}, pinned: [{config: {block: 8}, key: {n: 9}}]}
    - {}
  other: {key: {}}
)");
    CHECK(file.problems.empty());
    const std::string expected = R"(schema: opdock.tune/1
ops:
  scale:
    - impl: [a]
      architectures: [x, y]
      devices: [H200]
      dtypes: [f16]
      key: {n: exact}
      assume: {block: 2}
      configs:
        - {block: 1}
        - {block: 3, vector: 4}
      product:
        block: [5, 6]
        vector: [7]
      where:
        - 'block > 1'
        - 'n > 2'
      heuristics:
        block: n / 2
        vector: '1'
      pinned:
        - {key: {n: 9}, config: {block: 8}}
    - {}
  other:
    - key: {}
)";
    CHECK(print_tune_file(file) == expected);
    CHECK(print_tune_file(parse(expected)) == expected);
}

TEST_CASE("a list is broken where a line would have more than a thousand bytes of it") {
    const auto printed = [](size_t last) {
        TuneFile file = parse(section("{devices: [here, there], configs: [{block: 1}]}"));
        file.sections.at(0).devices.at(0).text = std::string(500, 'a');
        file.sections.at(0).devices.at(1).text = std::string(last, 'b');
        return print_tune_file(file);
    };
    CHECK(printed(500).find("a, b") != std::string::npos);
    CHECK(printed(501).find("a,\n            b") != std::string::npos);
    // The limit applies to the line to which the next item is appended.
    TuneFile file = parse(section("{devices: [1, 2, 3, 4], configs: [{block: 1}]}"));
    for (size_t i = 0; i < 4; ++i) {
        file.sections.at(0).devices.at(i).text = std::string(501, static_cast<char>('a' + i));
    }
    const std::string text = print_tune_file(file);
    CHECK(text.find("a,\n            b") != std::string::npos);
    CHECK(text.find("b,\n            c") != std::string::npos);
    CHECK(text.find("c,\n            d") != std::string::npos);
    CHECK(parse(text).sections.at(0).devices.size() == 4);
}

TEST_CASE("words are choices of knobs, and stay words when they are printed") {
    const TuneFile file =
        parse(section("{configs: [{pipeline: cpasync, block: '8'}], product: {pipeline: ['null', 2]}}"));
    CHECK(file.problems.empty());
    const NamedValues &config = file.sections.at(0).configs.at(0);
    CHECK(config.at(0).value.word == "cpasync");
    CHECK(config.at(1).value.word == "8"); // quoted, so it is a text
    CHECK(file.sections[0].product.at(0).second.at(0).word == "null");
    const std::string printed = print_tune_file(file);
    CHECK(printed.find("{pipeline: cpasync, block: '8'}") != std::string::npos);
    CHECK(printed.find("pipeline: ['null', 2]") != std::string::npos);
    CHECK(print_tune_file(parse(printed)) == printed);
}

TEST_CASE("a file comes to a bounded number of configs, sections, expressions and told faults") {
    const auto numbers = [](size_t count) {
        std::string text = "\n";
        for (size_t i = 0; i < count; ++i) {
            text += "        - " + std::to_string(i) + "\n";
        }
        return text;
    };
    const auto product = [&](size_t one, size_t other) {
        return section("- product:\n       block:" + numbers(one) + "       vector:" + numbers(other));
    };
    CHECK(problems(product(256, 256)).empty());
    REQUIRE(parse(product(257, 256)).problems.size() == 1);
    CHECK(parse(product(257, 256)).problems[0].message == "the product gives more than 65536 configs");
    // With a clause, each config counts once more.
    const std::string where = "      where: block < vector\n";
    CHECK(problems(product(181, 181) + where).empty());
    const TuneFile file = parse(product(182, 181) + where);
    REQUIRE(file.problems.size() == 1);
    CHECK(file.problems[0].message.starts_with("here the file reaches more than 65536 configs"));
    CHECK(file.sections.at(0).product.empty());
    // And once more for every 64 bytes of the clause.
    const auto clause = [](size_t bytes) { return "      where: block <" + std::string(bytes - 13, ' ') + "vector\n"; };
    CHECK(problems(product(181, 181) + clause(63)).empty());
    CHECK(problems(product(181, 181) + clause(64)).size() == 1);

    const auto repeated = [](const std::string &entry, size_t count) {
        std::string text = "schema: opdock.tune/1\nops:\n  scale:\n";
        for (size_t i = 0; i < count; ++i) {
            text += entry;
        }
        return text;
    };
    CHECK(problems(repeated("    - impl: a\n", most_sections)).empty());
    CHECK_THROWS_WITH(parse(repeated("    - impl: a\n", most_sections + 1)),
                      "acme.tune.yaml:1028:7: more than 1024 sections");
    const std::string expressions = "    - where:\n        - n > 1\n        - n > 2\n        - n > 3\n";
    CHECK_THROWS_WITH(
        parse(repeated(expressions, 342)),
        "acme.tune.yaml:1368:7: more than 1024 expressions, each counted once for every 512 bytes or part of them");
    std::string thirty_long_ones = "    - where: ['n > 1" + std::string(508, ' ') + "'"; // 513 bytes each
    for (int i = 1; i < 30; ++i) {
        thirty_long_ones += ",'n > 1" + std::string(508, ' ') + "'";
    }
    const auto long_ones_and = [&](size_t short_ones) {
        std::string text = repeated(thirty_long_ones + "]\n", 16);
        for (size_t i = 0; i < short_ones; ++i) {
            text += "    - where: n > 1\n";
        }
        return text;
    };
    CHECK(problems(long_ones_and(64)).empty());
    CHECK_THROWS_WITH(
        parse(long_ones_and(65)),
        "acme.tune.yaml:84:7: more than 1024 expressions, each counted once for every 512 bytes or part of them");
    CHECK(problems(repeated("    - impel: a\n", 1000)).size() == most_problems + 1);

    std::string wide = "- configs:\n        - k0: 0\n";
    for (size_t i = 1; i <= most_knobs; ++i) {
        wide += "          k" + std::to_string(i) + ": 0\n";
    }
    CHECK(problems(section(wide)) ==
          std::vector<std::string>{"acme.tune.yaml:5:11: a config gives more than 256 values"});
    const auto product_of = [](size_t knobs) {
        std::string text = "- product:\n";
        for (size_t i = 0; i < knobs; ++i) {
            text += "        k" + std::to_string(i) + ": 0\n";
        }
        return section(text);
    };
    CHECK(problems(product_of(most_knobs)).empty());
    CHECK(parse(product_of(most_knobs)).sections.at(0).product.size() == most_knobs);
    CHECK(problems(product_of(most_knobs + 1)) ==
          std::vector<std::string>{"acme.tune.yaml:5:9: the product has more than 256 knobs"});
    CHECK(parse(product_of(most_knobs + 1)).sections.at(0).product.empty());
}

// --- FlagGems -------------------------------------------------------------------------------------------------------

TEST_CASE("a FlagGems file is told by its lists, and comes to the configs that FlagGems makes of it") {
    const TuneFile file = parse(R"(mm:
  - META:
      BLOCK_M: 64
      BLOCK_N: 128
    num_stages: 5
    num_warps: 8
  - META: {BLOCK_M: 32, BLOCK_N: 32}
softmax:
  - META:
      TILE_N: 32
    maxnreg: 128
    num_ctas: 2
by_name:
  - gen: true
    param_map:
      META:
        BLOCK: block_n
        LITERAL: [1, 2]
        CONSTANT: 2048
        PRE_LOAD: pre
      num_warps: warps
    block_n: [1024, 4096]
    pre: [true, false]
    warps: [4, 8]
whole:
  - gen: true
    param_map:
      META: metas
      num_warps: 16
      num_stages: stages
    metas:
      - {M: 32, N: 128}
      - {M: 64, N: 64}
    stages: [2, 3]
no_meta:
  - gen: true
    param_map:
      META: {}
      num_warps: warps
    warps: [4, 16]
both:
  - META: {B: 1}
  - gen: true
    param_map: {META: {B: bs}}
    bs: [2, 3]
)");
    for (const TuneProblem &problem : file.problems) {
        FAIL_CHECK(problem.message);
    }
    using Set = std::set<std::string>;
    CHECK(configs(file, "mm") == Set{"BLOCK_M=64 BLOCK_N=128 num_ctas=1 num_ldmatrixes=0 num_stages=5 num_warps=8",
                                     "BLOCK_M=32 BLOCK_N=32 num_ctas=1 num_ldmatrixes=0 num_stages=2 num_warps=4"});
    CHECK(configs(file, "softmax") ==
          Set{"TILE_N=32 maxnreg=128 num_ctas=2 num_ldmatrixes=0 num_stages=2 num_warps=4"});
    Set expected;
    for (const char *block : {"1024", "4096"}) {
        for (const char *literal : {"1", "2"}) {
            for (const char *pre : {"0", "1"}) {
                for (const char *warps : {"4", "8"}) {
                    expected.insert(std::string("BLOCK=") + block + " CONSTANT=2048 LITERAL=" + literal + " PRE_LOAD=" +
                                    pre + " num_ctas=1 num_ldmatrixes=0 num_stages=2 num_warps=" + warps);
                }
            }
        }
    }
    CHECK(configs(file, "by_name") == expected);
    CHECK(configs(file, "whole") == Set{"M=32 N=128 num_ctas=1 num_ldmatrixes=0 num_stages=2 num_warps=16",
                                        "M=32 N=128 num_ctas=1 num_ldmatrixes=0 num_stages=3 num_warps=16",
                                        "M=64 N=64 num_ctas=1 num_ldmatrixes=0 num_stages=2 num_warps=16",
                                        "M=64 N=64 num_ctas=1 num_ldmatrixes=0 num_stages=3 num_warps=16"});
    CHECK(configs(file, "no_meta") == Set{"num_ctas=1 num_ldmatrixes=0 num_stages=2 num_warps=16",
                                          "num_ctas=1 num_ldmatrixes=0 num_stages=2 num_warps=4"});
    CHECK(configs(file, "both") == Set{"B=1 num_ctas=1 num_ldmatrixes=0 num_stages=2 num_warps=4",
                                       "B=2 num_ctas=1 num_ldmatrixes=0 num_stages=2 num_warps=4",
                                       "B=3 num_ctas=1 num_ldmatrixes=0 num_stages=2 num_warps=4"});

    // In opdock's grammar the set is the same.
    const TuneFile converted = parse(print_tune_file(file));
    for (const char *op : {"mm", "softmax", "by_name", "whole", "no_meta", "both"}) {
        CHECK(configs(converted, op) == configs(file, op));
    }
}

TEST_CASE("a word of a FlagGems file may be empty, and stays a word") {
    const TuneFile file = parse("mm:\n  - META: {scenario: \"\"}\n  - META: {scenario: unroll}\n");
    const std::set<std::string> expected = {"num_ctas=1 num_ldmatrixes=0 num_stages=2 num_warps=4 scenario=",
                                            "num_ctas=1 num_ldmatrixes=0 num_stages=2 num_warps=4 scenario=unroll"};
    CHECK(file.problems.empty());
    CHECK(configs(file, "mm") == expected);
    CHECK(configs(parse(print_tune_file(file)), "mm") == expected);
    CHECK(problems("mm:\n  - META: {scenario: }\n").size() == 1); // a missing value is not a word
}

// As in Triton, the launch options outside of META are used.
TEST_CASE("launch options inside of META do not count") {
    const TuneFile file = parse(R"(mm:
  - META: {B: 1, num_warps: 8, num_stages: 3, num_ctas: 2}
  - META: {B: 2, num_warps: 8, maxnreg: 64}
    num_warps: 16
softmax:
  - gen: true
    param_map: {META: {B: bs, num_warps: warps}}
    bs: [1, 2]
    warps: [8, 16]
whole:
  - gen: true
    param_map: {META: metas, num_stages: [5]}
    metas: [{B: 1, num_warps: 8, num_stages: 3}]
)");
    CHECK(file.problems.empty());
    using Set = std::set<std::string>;
    CHECK(configs(file, "mm") == Set{"B=1 num_ctas=1 num_ldmatrixes=0 num_stages=2 num_warps=4",
                                     "B=2 maxnreg=64 num_ctas=1 num_ldmatrixes=0 num_stages=2 num_warps=16"});
    CHECK(configs(file, "softmax") == Set{"B=1 num_ctas=1 num_ldmatrixes=0 num_stages=2 num_warps=4",
                                          "B=2 num_ctas=1 num_ldmatrixes=0 num_stages=2 num_warps=4"});
    CHECK(configs(file, "whole") == Set{"B=1 num_ctas=1 num_ldmatrixes=0 num_stages=5 num_warps=4"});
}

TEST_CASE("lists and a strategy become a product and a key") {
    const TuneFile file = parse(R"(gemv:
  - config:
    param_map:
      META: {BLOCK_M: block_m, pipeline: kinds}
      num_stages: stages
      num_warps: warps
    block_m: [8, 16]
    kinds: ["null", basic]
    stages: [2]
    warps: [4, 8]
  - strategy: {M: align32, K: default, top: log, stride_am: default, dtype: default}
)");
    CHECK(file.problems.empty());
    const std::string printed = print_tune_file(file);
    CHECK(printed == R"(schema: opdock.tune/1
ops:
  gemv:
    - key: {M: multiple of 32, K: exact, top: log2}
      assume: {num_stages: 2, num_warps: 4, num_ctas: 1, num_ldmatrixes: 0}
      product:
        BLOCK_M: [8, 16]
        pipeline: ['null', basic]
        num_stages: [2]
        num_warps: [4, 8]
)");
    CHECK(print_tune_file(parse(printed)) == printed);
    // Without the empty field, with `gen`, and without a strategy.
    const std::string lists =
        "    param_map: {META: {B: bs}, num_warps: ws, num_stages: 3}\n    bs: [1]\n    ws: [4]\n";
    const auto product = [&](const std::string &text) { return parse(text).sections.at(0).product.size(); };
    CHECK(product("gemv:\n  -\n" + lists) == 3);
    CHECK(product("gemv:\n  - gen: true\n" + lists + "  - strategy: {M: log}\n") == 3);
    CHECK_FALSE(parse("gemv:\n  -\n" + lists).sections.at(0).has_key);
}

TEST_CASE("what is wrong with lists and strategies is told, and that op left out") {
    using Texts = std::vector<std::string>;
    CHECK(problems("mm:\n  - strategy: {M: log}\n") ==
          Texts{"acme.tune.yaml:2:3: op 'mm' has a strategy, but no entry with param_map"});
    CHECK(problems("mm:\n  - param_map: {META: metas}\n") ==
          Texts{"acme.tune.yaml:2:5: param_map must be a map that contains META, a map"});
    CHECK(problems("mm:\n  - param_map: {META: {B: bs}}\n    b: [1]\n") ==
          Texts{"acme.tune.yaml:2:27: there is no list 'bs' in this entry; did you mean 'b'?"});
    CHECK(problems("mm:\n  - param_map: {META: {B: bs}}\n    bs: []\n") ==
          Texts{"acme.tune.yaml:2:27: 'B' has no values, which leaves no config"});
    CHECK(problems("mm:\n  - param_map: {META: {B: bs}}\n    bs: [1]\n  - strategy: {M: align64}\n") ==
          Texts{"acme.tune.yaml:4:19: 'M': expected default, align32 or log, found 'align64'"});
    CHECK(parse("mm:\n  - param_map: {META: {B: bs}}\n    b: [1]\n").sections.empty());
    CHECK(parse("mm:\n  - param_map: {META: {B: [1]}, num_warps: ws}\n    w: [1]\n").sections.empty());
    std::string bomb = "mm:\n  - param_map:\n      META:\n";
    for (int i = 0; i < 40; ++i) {
        bomb += "        K" + std::to_string(i) + ": [1, 2, 3, 4]\n";
    }
    const Texts told = problems(bomb);
    REQUIRE(told.size() == 1);
    CHECK(told[0].ends_with("'K8': here the lists give more than 65536 configs"));
}

TEST_CASE("what is wrong in a FlagGems file is told, and that entry left out") {
    using Texts = std::vector<std::string>;
    CHECK(problems("mm:\n  - num_warps: 4\n") == Texts{"acme.tune.yaml:2:5: expected META, or gen with param_map"});
    const Texts no_map = {"acme.tune.yaml:2:5: gen needs param_map, a map that contains META"};
    CHECK(problems("mm:\n  - gen: true\n    block: [1]\n") == no_map);
    CHECK(problems("mm:\n  - gen: true\n    param_map: [META]\n") == no_map);
    CHECK(problems("mm:\n  - gen: true\n    param_map: META\n") == no_map);
    CHECK(problems("mm:\n  - gen: true\n    param_map: {META: {B: blok}}\n    block: [1]\n") ==
          Texts{"acme.tune.yaml:3:27: there is no list 'blok' in this entry; did you mean 'block'?"});
    CHECK(problems("mm:\n  - gen: true\n    param_map: {META: {B: {C: 1}}}\n") ==
          Texts{"acme.tune.yaml:3:27: expected the name of a list, a list or one value"});
    CHECK(problems("mm:\n  - gen: true\n    param_map: {num_warps: 4}\n").size() == 1);
    CHECK(problems("mm:\n  - META: {B: {C: 1}}\n").size() == 1);
    std::string list = "[0";
    for (int i = 1; i < 200; ++i) {
        list += fmt::format(", {}", i);
    }
    const std::string many = // with one value each: num_warps does not count here
        fmt::format("  - {{gen: true, param_map: {{META: {{A: a, num_warps: b}}}}, a: {0}], b: {0}]}}\n", list);
    CHECK(problems("mm:\n" + many).empty()); // 40,000
    const Texts too_many = problems("mm:\n" + many + many);
    REQUIRE(too_many.size() == 1);
    CHECK(too_many[0].starts_with(
        "acme.tune.yaml:3:5: here the file reaches more than 65536 configs; the configs of this entry are left out"));
    std::string bomb = "mm:\n  - gen: true\n    param_map:\n      META:\n";
    for (int i = 0; i < 30; ++i) {
        bomb += "        K" + std::to_string(i) + ": [1, 2, 3, 4]\n";
    }
    CHECK(problems(bomb).size() == 1);
}

TEST_CASE("what the lists of a FlagGems file generate is bounded over all of its ops, and so is the text in it") {
    const auto op = [](const std::string &name, const std::string &item) {
        std::string list;
        for (int i = 0; i < 13; ++i) {
            list += fmt::format("{}{}{}", i == 0 ? "" : ", ", item, i);
        }
        return fmt::format("{}:\n  - {{gen: true, param_map: {{META: {{A: a, B: a, C: a, D: a}}}}, a: [{}]}}\n", name,
                           list);
    };
    std::string text;
    for (int i = 0; i < 100; ++i) {
        text += op(fmt::format("op{}", i), "1");
    }
    const TuneFile many = parse(text);
    REQUIRE(many.problems.size() == 1);
    CHECK(many.problems[0].place.line == 4); // in the second op
    CHECK(many.problems[0].message.starts_with("here the lists of the file reach more than 131072 values"));
    CHECK(many.sections.at(0).configs.size() == 28561);
    const TuneFile long_words = parse(op("op", std::string(1000, 'w')));
    REQUIRE(long_words.problems.size() == 1);
    CHECK(long_words.sections.at(0).configs.empty());
}

TEST_CASE("what the configs of a file may come to is shared by its sections, and a section more is left out") {
    std::string text = "- product:\n       block:\n";
    std::string vector = "       vector:\n";
    for (int i = 0; i < 256; ++i) {
        text += fmt::format("        - {}\n", i);
        vector += fmt::format("        - {}\n", i);
    }
    text = section(text + vector + "    - configs:\n        - block: 1");
    const TuneFile file = parse(text);
    REQUIRE(file.problems.size() == 1);
    CHECK(file.problems[0].message.starts_with("here the file reaches more than 65536 configs"));
    REQUIRE(file.sections.size() == 2);
    CHECK_FALSE(file.sections[0].product.empty());
    CHECK(file.sections[1].configs.empty());
}

TEST_CASE("a config of a FlagGems file has as many names as a kernel may have knobs, and one more is told") {
    using Texts = std::vector<std::string>;
    const auto map_of = [](size_t count) {
        std::string text;
        for (size_t i = 0; i < count; ++i) {
            text += fmt::format("{}K{}: 1", i == 0 ? "" : ", ", i);
        }
        return "{" + text + "}";
    };
    const std::string most = map_of(most_knobs), more = map_of(most_knobs + 1);
    CHECK(problems("mm:\n  - META: " + most + "\n").empty());
    CHECK(problems("mm:\n  - META: " + more + "\n") == Texts{"acme.tune.yaml:2:11: more than 256 names"});
    CHECK(configs(parse("mm:\n  - META: " + more + "\n"), "mm").empty());
    const std::string gen = "mm:\n  - gen: true\n    param_map: ";
    CHECK(problems(gen + "{META: " + most + "}\n").empty());
    CHECK(problems(gen + "{META: " + more + "}\n") == Texts{"acme.tune.yaml:3:23: more than 256 names"});
    CHECK(problems(gen + "{META: {}, " + more.substr(1) + "\n") == Texts{"acme.tune.yaml:3:16: more than 256 names"});
    CHECK(problems("mm:\n  - param_map: {META: " + more + "}\n") == Texts{"acme.tune.yaml:2:23: more than 256 names"});
    CHECK(problems("mm:\n  - param_map: {META: {}, " + more.substr(1) + "\n") ==
          Texts{"acme.tune.yaml:2:16: more than 256 names"});
}

TEST_CASE("a FlagGems file has as many ops as a tune file may have sections, and one with more has none") {
    const auto ops = [](size_t count) {
        std::string text;
        for (size_t i = 0; i < count; ++i) {
            text += fmt::format("op{}:\n  - META: {{B: 1}}\n", i);
        }
        return parse(text);
    };
    const TuneFile most = ops(most_sections);
    CHECK(most.problems.empty());
    CHECK(most.sections.size() == most_sections);
    const TuneFile more = ops(most_sections + 1);
    REQUIRE(more.problems.size() == 1);
    CHECK(text_of(more, more.problems[0]) == "acme.tune.yaml:1:1: more than 1024 ops");
    CHECK(more.sections.empty());
}

TEST_CASE("a META that is no map is told, and there is no config of it") {
    using Texts = std::vector<std::string>;
    CHECK(problems("mm:\n  - META: 5\n") == Texts{"acme.tune.yaml:2:11: META: expected a map, found a value"});
    const std::string text = "mm:\n  - {gen: true, param_map: {META: metas}, metas: [{B: 1}, 5]}\n";
    CHECK(problems(text) == Texts{"acme.tune.yaml:2:59: META: expected a map, found a value"});
    CHECK(configs(parse(text), "mm").empty());
    CHECK(configs(parse("mm:\n  - META: 5\n"), "mm").empty());
    CHECK(configs(parse("mm:\n  - META: {B: {}}\n"), "mm").empty());
    CHECK(configs(parse("mm:\n  - META: {B: 1}\n    num_warps: [1]\n"), "mm").empty());
}

TEST_CASE("lists of a FlagGems file come to 65536 configs, and no more") {
    using Texts = std::vector<std::string>;
    const auto list = [](size_t count) {
        std::string text = "[0";
        for (size_t i = 1; i < count; ++i) {
            text += fmt::format(", {}", i);
        }
        return text + "]";
    };
    const auto generated = [&](size_t one, size_t other) { // num_warps within META does not count as a value
        return fmt::format(
            "mm:\n  - gen: true\n    param_map: {{META: {{A: a, num_warps: b}}}}\n    a: {}\n    b: {}\n", list(one),
            list(other));
    };
    const TuneFile most = parse(generated(256, 256));
    CHECK(most.problems.empty());
    CHECK(most.sections.at(0).configs.size() == 65536);
    CHECK(problems(generated(256, 257)) == Texts{"acme.tune.yaml:3:30: the lists give more than 65536 configs"});
    const auto product = [&](const std::string &op, size_t one, size_t other) {
        return fmt::format("{}:\n  - param_map: {{META: {{BLOCK_M: a, BLOCK_N: b}}}}\n    a: {}\n    b: {}\n", op,
                           list(one), list(other));
    };
    CHECK(problems(product("mm", 256, 256)).empty());
    CHECK(problems(product("mm", 257, 256)) ==
          Texts{"acme.tune.yaml:2:45: 'BLOCK_N': here the lists give more than 65536 configs"});
    // For bmm there are two more choices of each config, and the expression that decides between them counts once more.
    CHECK(problems(product("bmm", 128, 128)).empty());
    CHECK(problems(product("bmm", 129, 128)) == Texts{"acme.tune.yaml:2:5: here the file reaches more than 65536 "
                                                      "configs; the configs of this entry are left out"});
    // Earlier configs count too.
    const std::string one_more = "softmax:\n  - META: {B: 1}\n";
    CHECK(problems(product("mm", 256, 255) + one_more).empty());
    CHECK(problems(product("mm", 256, 256) + one_more).size() == 1);
    CHECK(parse(product("mm", 256, 256) + one_more).sections.at(1).configs.empty());
}

TEST_CASE("a strategy buckets as FlagGems does, and tells what it does not know") {
    const auto strategy = [](const std::string &text) {
        const TuneFile file = parse("mm:\n  - param_map: {META: {B: bs}}\n    bs: [1]\n  - strategy: " + text + "\n");
        std::string found;
        for (const auto &[name, bucket] : file.sections.at(0).key) {
            found += name.text + " " + bucket.text() + "; ";
        }
        return found + (file.problems.empty() ? "" : file.problems[0].message);
    };
    CHECK(strategy("{M: align32, N: log, K: default}") == "M multiple of 32; N log2; K exact; ");
    CHECK(strategy("{stride_am: default, dtype: default, stride: log}") == "stride log2; ");
    CHECK(strategy("{M: [log]}") == "'M': expected default, align32 or log, found a list");
    CHECK(strategy("[M]") == "strategy: expected a map, found a list");
    CHECK(strategy("{}").empty());
}

TEST_CASE("what is no list where one is named is told") {
    using Texts = std::vector<std::string>;
    const auto told = [](const std::string &source, const std::string &lists) {
        return problems("mm:\n  - gen: true\n    param_map: {META: {B: " + source + "}}\n    " + lists + "\n");
    };
    CHECK(told("bs", "bs: [1, 2]").empty());
    CHECK(told("7", "bs: [1]").empty()); // a single value
    CHECK(told("bs", "bs: 5") == Texts{"acme.tune.yaml:4:9: 'bs': expected a list, found a value"});
    CHECK(told("'7'", "bs: [1]").size() == 1); // in quotes it is a name
    CHECK(told("bs", "bs: []").empty());
    CHECK(configs(parse("mm:\n  - gen: true\n    param_map: {META: {B: bs}}\n    bs: []\n"), "mm").empty());
    CHECK(problems("mm:\n  - gen: true\n    param_map: {META: 5}\n") ==
          Texts{"acme.tune.yaml:3:23: META: expected a map, found a value"}); // as a list with one element
}
