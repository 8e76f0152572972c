#include "dispatch/line_pause.hpp"

#include <doctest/doctest.h>

using opdock::core::LinePause;
using namespace std::chrono_literals;

TEST_CASE("lines that are alike come after pauses that double up to an hour, each with how many were left out") {
    LinePause pause;
    LinePause::Clock::time_point now{};
    CHECK(pause.pass(now) == "");
    int lines = 1;
    for (int i = 1; i < 40'000; ++i) {
        now += 1s;
        lines += pause.pass(now) ? 1 : 0;
    }
    // At 1, 3, 7, ... 4,095 s, and then once an hour.
    CHECK(lines == 1 + 12 + (39'999 - 4'095) / 3'600);
    now += 1h;
    const auto last = pause.pass(now);
    REQUIRE(last);
    CHECK(last->starts_with(" (and "));
    CHECK(last->ends_with(" more times since the last such line)"));
}

TEST_CASE("after an hour without such a line the pauses begin anew") {
    LinePause pause;
    LinePause::Clock::time_point now{};
    CHECK(pause.pass(now) == "");
    now += 1s;
    CHECK(pause.pass(now) == "");
    now += 1s;
    CHECK_FALSE(pause.pass(now)); // the pause is 2 s now
    now += 2h;
    CHECK(pause.pass(now) == " (and 1 more times since the last such line)");
    now += 1s;
    CHECK(pause.pass(now) == "");
}

TEST_CASE("what is left out is settled when nothing more was for a minute") {
    LinePause pause;
    LinePause::Clock::time_point now{};
    CHECK(pause.begin(now));
    CHECK_FALSE(pause.is_settled(now + 1h));
    pause.count_left_out(now);
    CHECK_FALSE(pause.is_settled(now + 59s));
    CHECK(pause.is_settled(now + 60s));
    CHECK(pause.take_left_out() == 1);
    CHECK_FALSE(pause.is_settled(now + 60s));
    CHECK_FALSE(pause.is_over(now));
    pause.end();
    CHECK(pause.is_over(now));
}
