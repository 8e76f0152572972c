#include "tune/expression.hpp"

#include <chrono>
#include <string>
#include <vector>

#include <doctest/doctest.h>

using opdock::core::TuneExpression;

namespace {

const std::vector<std::string> names = {"n", "rows", "block"};

double value(const std::string &text, double n = 0, double rows = 0, double block = 0) {
    const auto parsed = TuneExpression::parse(text, names);
    const auto *fault = std::get_if<TuneExpression::Fault>(&parsed);
    REQUIRE_MESSAGE(fault == nullptr, fault->message);
    return std::get<TuneExpression>(parsed).evaluate(std::vector<double>{n, rows, block}).value_or(-1);
}

std::string fault(const std::string &text) {
    const auto parsed = TuneExpression::parse(text, names);
    const auto *found = std::get_if<TuneExpression::Fault>(&parsed);
    return found != nullptr ? std::to_string(found->at) + ": " + found->message : "";
}

} // namespace

TEST_CASE("tune expressions compute what their functions say") {
    CHECK(value("min(1024, next_pow2(n))", 1000) == 1024);
    CHECK(value("min(1024, next_pow2(n))", 33) == 64);
    CHECK(value("next_pow2(n)", 64) == 64);
    CHECK(value("next_pow2(n)", 0) == 1);
    CHECK(value("next_pow2(0 / 0)") == -1); // no value
    CHECK(value("prev_pow2(0 / 0)") == -1);
    CHECK(value("prev_pow2(n)", 63) == 32);
    CHECK(value("prev_pow2(n)", 1) == 1);
    CHECK(value("ceil_div(n, 8)", 17) == 3);
    CHECK(value("cdiv(n, 8)", 17) == 3);
    CHECK(value("round_up(n, 8)", 17) == 24);
    CHECK(value("n / 2", 5) == 2.5);
    CHECK(value("n > 4 && rows <= 2 ? 8 : 16", 5, 2) == 8);
    CHECK(value("n > 4 && rows <= 2 ? 8 : 16", 5, 3) == 16);
    CHECK(value("block * rows <= n", 8, 2, 4) == 1);
    CHECK(value("log2(n) + abs(0 - rows) + floor(block / 2)", 8, 2, 5) == 7);
    CHECK(value("2^3") == 8);
    CHECK(value("n % 8 == 0 ? 8 : 1", 24) == 8);
    CHECK(value("1 + n % 8 * 2", 25) == 3);
    CHECK(value("5 + -n % 4", 7) == 2); // -3: the sign of the left side
    CHECK(value("n / 2", 7) == 3.5);
    CHECK(value("ceil_div(0 - n, 2) + 10", 7) == 7);
    CHECK(value("n / 0", 1) == -1); // no value
}

TEST_CASE("min and max take two values or more") {
    CHECK(value("min(n, rows, block, 7)", 9, 8, 6) == 6);
    CHECK(value("max(n, rows, block, 7)", 9, 8, 6) == 9);
    CHECK(value("min(max(n, 4, rows), 32, block)", 9, 8, 16) == 9);
    CHECK(value("max(0 / 0, n, 0 / 0)", 3) == 3); // operands without a value do not count, as with two
    CHECK(fault("max(n)") == "3: max expects two values or more");
    CHECK(fault("n > 0 ? 1 : min ()") == "16: min expects two values or more");
    CHECK(fault("min(max(n, 2))") == "3: min expects two values or more");
    CHECK(fault("n2max(n)").starts_with("0: unknown function 'n2max'")); // nor one called max
    CHECK(fault("n_max(n)").starts_with("0: unknown function 'n_max'"));
}

TEST_CASE("an expression has 2 KiB, and counts once for every 512 bytes that it begins") {
    std::string sum = "n";
    while (sum.size() + 2 <= TuneExpression::most_bytes) {
        sum += "+n";
    }
    CHECK(value(sum, 1) == static_cast<double>((sum.size() + 1) / 2));
    CHECK(fault(sum + std::string(2049 - sum.size(), ' ')) == "2048: the expression is longer than 2048 bytes");
    CHECK(TuneExpression::count_of("") == 1);
    CHECK(TuneExpression::count_of(std::string(512, 'n')) == 1);
    CHECK(TuneExpression::count_of(std::string(513, 'n')) == 2);
    CHECK(TuneExpression::count_of(std::string(2048, 'n')) == 4);
}

TEST_CASE("what is not finite is no value") {
    CHECK(value("1 / n", 0) == -1);
    CHECK(value("sqrt(0 - n)", 4) == -1);
    CHECK(value("10^n", 400) == -1);
    CHECK(value("next_pow2(n)", 1e300) == -1);
    constexpr double largest = 9007199254740992; // 2^53
    CHECK(value("next_pow2(n)", largest) == largest);
    CHECK(value("prev_pow2(n)", largest) == largest);
    CHECK(value("next_pow2(n)", largest + 2) == -1);
    CHECK(value("prev_pow2(n)", largest + 2) == -1);
    CHECK(value("prev_pow2(n)", largest - 1) == largest / 2);
    CHECK(value("next_pow2(n)", largest - 1) == largest);
    CHECK(value("next_pow2(n)", 2) == 2);
    CHECK(value("next_pow2(n)", 1.5) == 2);
    CHECK(value("prev_pow2(n)", 2) == 2);
    CHECK(value("prev_pow2(n)", 1.5) == 1);
}

TEST_CASE("names have letters of either case, underscores and, behind those, digits; numbers may have exponents") {
    const std::vector<std::string> odd = {"a", "z", "A", "Z", "_", "a0", "z9", "_x_1"};
    const auto parsed = TuneExpression::parse("a + 2*z + 4*A + 8*Z + 16*_ + 32*a0 + 64*z9 + 128*_x_1", odd);
    REQUIRE(std::holds_alternative<TuneExpression>(parsed));
    CHECK(std::get<TuneExpression>(parsed).reads() == std::vector<size_t>{0, 1, 2, 3, 4, 5, 6, 7});
    CHECK(std::get<TuneExpression>(parsed).evaluate(std::vector<double>(8, 1)) == 255);
    CHECK(value("1e3") == 1000);
    CHECK(value("2.5E1 + n", 1) == 26);
    CHECK(value("0.5*n", 4) == 2);
    CHECK(value("90 - 09") == 81);
    const std::vector<std::string> of_the_parser = {"_pi", "_e", "sin", "sum", "avg"}; // names of the parser itself
    const auto own = TuneExpression::parse("_pi + 2*_e + 4*sin + 8*sum + 16*avg", of_the_parser);
    REQUIRE(std::holds_alternative<TuneExpression>(own));
    CHECK(std::get<TuneExpression>(own).evaluate(std::vector<double>(5, 1)) == 31);
    CHECK(fault("nn").starts_with("0: unknown name 'nn'"));
    CHECK(fault("1 + n_").starts_with("4: unknown name 'n_'"));
    CHECK(fault("1 + n0 ").starts_with("4: unknown name 'n0'"));
    CHECK(fault("n (1)").starts_with("0: unknown function 'n'"));
}

TEST_CASE("parentheses are nested 32 levels deep and no deeper") {
    CHECK(value(std::string(32, '(') + "n" + std::string(32, ')'), 3) == 3);
    CHECK(fault(std::string(33, '(') + "n" + std::string(33, ')')) ==
          "32: parentheses are nested deeper than 32 levels");
    CHECK(value("(" + std::string(31, '(') + "n" + std::string(31, ')') + " + (n))", 3) == 6);
}

TEST_CASE("an expression says which names it reads") {
    CHECK(std::get<TuneExpression>(TuneExpression::parse("block + n", names)).reads() == std::vector<size_t>{0, 2});
    CHECK(std::get<TuneExpression>(TuneExpression::parse("1", names)).reads().empty());
}

TEST_CASE("a faulty expression says where and what") {
    CHECK(fault("min(1024, nxt_pow2(n))") == "10: unknown function 'nxt_pow2'; did you mean 'next_pow2'?");
    CHECK(fault("blok + 1") == "0: unknown name 'blok'; did you mean 'block'?");
    CHECK(fault("n + min(rows, 2n)").empty() == false);
    CHECK(fault("next_pow2 + 1") == "0: unknown name 'next_pow2'");
    CHECK(fault("n = 1") == "2: '=' assigns; a comparison is '=='");
    CHECK(fault("").starts_with("0: expected an expression"));
    CHECK(fault("n, rows") == "1: unexpected ','");
    CHECK(fault("min(n") != "");
    CHECK(fault("n +") != "");
    CHECK(fault("min()") != "");
    CHECK(fault("\"n\"") == "0: unexpected '\"'");
    CHECK(fault("n}") == "1: unexpected '}'");
    CHECK(fault("n + {") == "4: unexpected '{'");
    CHECK(fault("n; n") == "1: unexpected ';'");
    CHECK(fault("n ~ 1").find("unexpected '~'") == std::string::npos); // reported by muParser
    CHECK(fault("=") == "0: '=' assigns; a comparison is '=='");
    CHECK(fault("n =") == "2: '=' assigns; a comparison is '=='");
    CHECK(fault("n <= 1 && n >= 1 && n != 1 && n == 1").empty());
    for (const char *faulty : {"n +", "min(n", "min()", "n + min(rows, 2n)", "1 2", "n ~ 1", "(n", "n)"}) {
        CAPTURE(faulty);
        CHECK(fault(faulty) != "");
        CHECK_FALSE(fault(faulty).ends_with('.')); // more sentences follow
        CHECK_FALSE(fault(faulty).ends_with('\n'));
    }
    CHECK(fault("_pi") != ""); // muParser's own constants are not part of the grammar
    CHECK(fault("sin(n)") != "");
}

TEST_CASE("expression bombs are refused, or cost next to nothing") {
    const auto began = std::chrono::steady_clock::now();
    CHECK(fault(std::string(100'000, '(')).find("longer than 2048 bytes") != std::string::npos);
    CHECK(fault(std::string(200, '(') + "n" + std::string(200, ')')).find("nested deeper") != std::string::npos);
    std::string minuses(2047, '-');
    (void)fault(minuses + "n");
    std::string powers = "9";
    for (int i = 0; i < 1000; ++i) {
        powers += "^9";
    }
    CHECK(value(powers) == -1);
    std::string choices;
    for (int i = 0; i < 60; ++i) {
        choices += "n>1?1:(";
    }
    (void)fault(choices);
    CHECK(std::chrono::steady_clock::now() - began < std::chrono::seconds(5)); // guards against hanging; no benchmark
}
