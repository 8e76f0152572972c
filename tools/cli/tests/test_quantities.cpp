#include "cli/quantities.hpp"

#include <doctest/doctest.h>

using namespace opdock::cli;

TEST_CASE("measured numbers have three digits") {
    CHECK(short_number(0.01234) == "0.0123");
    CHECK(short_number(12.34) == "12.3");
    CHECK(short_number(12345.6) == "12346");
}

TEST_CASE("numbers have three digits and the unit that suits them") {
    CHECK(time_text(0.0123) == "12.3 ns");
    CHECK(time_text(12.34) == "12.3 us");
    CHECK(time_text(999.9) == "1 ms");
    CHECK(time_text(2.5e6) == "2.5 s");
    CHECK(rate_text(4.253e12, "B/s") == "4.25 TB/s");
    CHECK(rate_text(999.9e9, "FLOP/s") == "1 TFLOP/s");
    CHECK(rate_text(1 / 0.0, "B/s") == "an unknown rate");
    CHECK(percent_text(0.8349) == "83.5 %");
}

TEST_CASE("a ratio of times says which of the two is faster") {
    CHECK(speed_text(1.25) == "1.25x faster");
    CHECK(speed_text(0.1) == "10.0x slower");
    CHECK(speed_text(1.004) == "as fast");
    CHECK(speed_text(1 / 1.004) == "as fast");
    CHECK(speed_text(250) == "250x faster");
}
