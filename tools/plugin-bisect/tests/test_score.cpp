#include "score.hpp"

#include <doctest/doctest.h>

#include "cli/exit.hpp"

using namespace opdock::plugin_bisect;

namespace {

std::optional<double> score(const std::string &text, const std::string &pattern, uint64_t of = 0) {
    return find_score(text, score_pattern(pattern), of);
}

} // namespace

TEST_CASE("the last line that the pattern finds has the score, and its first group is it") {
    const std::string text = "loss 3.5\nloss 1.25 step 9\ndone\n";
    CHECK(score(text, "loss ([0-9.]+)") == 1.25);
    CHECK(score(text, "[0-9]+$") == 9);
    CHECK(score("accuracy=-1e-3", "accuracy=([-+0-9.e]+)") == -0.001);
    CHECK(score("x +2", "x (.*)") == 2);
    CHECK_FALSE(score(text, "accuracy ([0-9]+)"));
    CHECK_FALSE(score("", "loss"));
}

TEST_CASE("what is found is a finite number or no score") {
    CHECK_FALSE(score("loss nan", "loss (.*)"));
    CHECK_FALSE(score("loss inf", "loss (.*)"));
    CHECK_FALSE(score("loss 1.2.3", "loss (.*)"));
    CHECK_FALSE(score("loss ", "loss (.*)"));
}

TEST_CASE("of 50, a score is a count, a fraction or per cent") {
    CHECK(score("right: 45", "right: (.*)", 50) == 45);
    CHECK(score("right: 1", "right: (.*)", 50) == 1);
    CHECK(score("right: 1.0", "right: (.*)", 50) == 50);
    CHECK(score("right: 0.9", "right: (.*)", 50) == 45);
    CHECK(score("right: 0.667", "right: (.*)", 3) == 2);
    CHECK(score("right: 90%", "right: ([0-9]+)", 50) == 45);
    CHECK(score("right: 90 %", "right: ([0-9]+)", 50) == 45);
    CHECK_FALSE(score("right: 51", "right: (.*)", 50));
    CHECK_FALSE(score("right: 45.5", "right: (.*)", 50));
    CHECK_FALSE(score("right: -1", "right: (.*)", 50));
}

TEST_CASE("a long line costs no stack, and is searched at its beginning") {
    const std::string line = "score 7 " + std::string(10'000'000, 'x');
    CHECK(score(line, "score ([0-9]+).*") == 7);
    CHECK_FALSE(score(std::string(10'000'000, 'x') + " score 7", "score ([0-9]+)"));
}

TEST_CASE("a pattern that is none is wrong usage") {
    CHECK_THROWS_AS(score_pattern("([0-9]"), opdock::cli::UsageError);
}
