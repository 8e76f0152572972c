#include "op-call/dims.hpp"

#include <doctest/doctest.h>

using namespace opdock::op_call;

TEST_CASE("expressions have the value their names give them") {
    const Sizes sizes = {{"n", 10}, {"m", 3}, {"...", 7}};
    CHECK(evaluate("2*n", sizes) == 20);
    CHECK(evaluate("(n+7)/8", sizes) == 2);
    CHECK(evaluate("n - m * 2 + 1", sizes) == 5);
    CHECK(evaluate("n % 4 * 2", sizes) == 4);
    CHECK(evaluate("...", sizes) == 7);
    CHECK(evaluate("64", sizes) == 64);
}

TEST_CASE("what has no value has none") {
    const Sizes sizes = {{"n", 10}};
    for (const char *wrong : {"k", "n/0", "n+", "(n", "n n", "", "..."}) {
        INFO(wrong);
        CHECK_FALSE(evaluate(wrong, sizes));
    }
}

TEST_CASE("names are found once each") {
    CHECK(names_in("2*n+m*n") == std::vector<std::string>{"n", "m"});
    CHECK(names_in("...") == std::vector<std::string>{"..."});
    CHECK(names_in("12").empty());
}
