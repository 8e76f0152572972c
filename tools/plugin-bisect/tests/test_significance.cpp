#include "significance.hpp"

#include <doctest/doctest.h>

using namespace opdock::plugin_bisect;
using doctest::Approx;

TEST_CASE("one answer of 50 more or less is not significant, and a dozen are") {
    CHECK(*p_value({{45}, 50}, {{46}, 50}) == Approx(1));
    CHECK(*p_value({{46}, 50}, {{45}, 50}) == Approx(1));
    // scipy.stats.fisher_exact([[34, 16], [46, 4]]) and [[3, 1], [0, 4]]
    CHECK(*p_value({{34}, 50}, {{46}, 50}) == Approx(0.00497).epsilon(0.01));
    CHECK(*p_value({{3}, 4}, {{0}, 4}) == Approx(0.142857));
}

TEST_CASE("counts of several runs are added") {
    CHECK(*p_value({{45, 45}, 50}, {{46, 46}, 50}) == Approx(*p_value({{90}, 100}, {{92}, 100})));
    CHECK(*p_value({{1, 1, 1, 1}, 1}, {{0, 0, 0, 0}, 1}) == Approx(2.0 / 70));
}

TEST_CASE("no two counts can be told apart where all are right, or none are") {
    CHECK(*p_value({{50}, 50}, {{50}, 50}) == 1);
    CHECK(*p_value({{0}, 50}, {{0}, 50}) == 1);
}

TEST_CASE("other scores are compared by their spread, which takes two of each") {
    CHECK_FALSE(p_value({{1}, 0}, {{2}, 0}));
    CHECK_FALSE(p_value({{1, 2}, 0}, {{2}, 0}));
    // scipy.stats.ttest_ind([1, 2, 3, 4], [3, 4, 5, 7], equal_var=False)
    CHECK(*p_value({{1, 2, 3, 4}, 0}, {{3, 4, 5, 7}, 0}) == Approx(0.0743).epsilon(0.02));
    CHECK(*p_value({{1, 1.1, 0.9}, 0}, {{5, 5.1, 4.9}, 0}) < 1e-4);
}

TEST_CASE("of a program that always gives the same, any difference counts") {
    CHECK(*p_value({{0.25, 0.25}, 0}, {{0.25, 0.25}, 0}) == 1);
    CHECK(*p_value({{0.25, 0.25}, 0}, {{0.5, 0.5}, 0}) == 0);
}
