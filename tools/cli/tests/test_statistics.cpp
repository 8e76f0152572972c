#include "cli/statistics.hpp"

#include <doctest/doctest.h>

using namespace opdock::cli;

TEST_CASE("median and quartiles, whatever the order of the samples") {
    const Summary odd = summarize({5, 1, 4, 2, 3});
    CHECK(odd.median == 3);
    CHECK(odd.low == 2);
    CHECK(odd.high == 4);
    CHECK(odd.samples == 5);
    CHECK(odd.spread() == doctest::Approx(2.0 / 3));
    const Summary even = summarize({4, 1, 3, 2});
    CHECK(even.median == 2.5);
    CHECK(even.low == 1.75);
    CHECK(even.high == 3.25);
}

TEST_CASE("one sample spreads nothing, and none are nothing") {
    CHECK(summarize({7}).median == 7);
    CHECK(summarize({7}).spread() == 0);
    CHECK(summarize({}).samples == 0);
    CHECK(summarize({}).spread() == 0);
}
