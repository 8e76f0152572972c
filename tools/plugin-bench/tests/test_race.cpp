#include "race.hpp"

#include <doctest/doctest.h>

using namespace opdock::plugin_bench;

static size_t batch(double microseconds, size_t rounds, double seconds, size_t contenders) {
    return batch_of(microseconds, {rounds, seconds, {}}, contenders);
}

TEST_CASE("a batch is long enough for the clock and short enough for all rounds") {
    CHECK(batch(1, 15, 2, 2) == 5000);         // 5 ms instead of the 67 ms available
    CHECK(batch(100, 15, 0.03, 2) == 10);      // 1 ms each
    CHECK(batch(10, 15, 0.001, 2) == 30);      // still 300 us
    CHECK(batch(1e6, 15, 2, 2) == 1);          // longer than any batch
    CHECK(batch(0.00001, 15, 2, 2) == 100000); // too short for any clock
}
