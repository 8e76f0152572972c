#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "difference.hpp"
#include "opdock/abi/dtype.h"

using namespace numerics;

namespace {

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

Output expected(std::vector<double> values, double tolerance = 1e-3, double scale = 0) {
    return {.name{"y"},
            .dtype = 0,
            .shape = {static_cast<std::int64_t>(values.size())},
            .strides = {},
            .expected = std::move(values),
            .scale = scale,
            .tolerance = tolerance,
            .step = 0,
            .in_place_of = {}};
}

doctest::String message(const Output &output, const std::vector<double> &found) {
    return compare(output, found).message.c_str();
}

} // namespace

TEST_CASE("comparison: the error is the norm of the difference over the norm of what was expected") {
    CHECK(compare(expected({3, 4}), {3, 4}).error == 0);
    CHECK(compare(expected({3, 4}), {3, 4.5}).error == doctest::Approx(0.1));
    CHECK(compare(expected({3, 4}, 1e-3, 50), {3, 4.5}).error == doctest::Approx(0.01));
}

TEST_CASE("comparison: rounding to the smallest numbers of f16 is no error") {
    Output tiny = expected({7.18872e-6});
    CHECK_FALSE(compare(tiny, {7.21216e-6}).message.empty());
    tiny.dtype = OPDOCK_F16;
    CHECK(compare(tiny, {7.21216e-6}).message.empty());
    CHECK_FALSE(compare(tiny, {7.3e-6}).message.empty());
}

TEST_CASE("comparison: one element may be a step off where that is allowed") {
    Output coarse = expected({160, 20, 3}, 1e-3);
    coarse.step = 1.0 / 8;
    CHECK(message(coarse, {176, 20, 3}) == "");
    CHECK(message(coarse, {144, 20, 3}) == "");
    CHECK(message(coarse, {192, 20, 3}) != "");
    CHECK(message(coarse, {176, 22, 3}) != "");
    coarse.step = 0;
    CHECK(message(coarse, {176, 20, 3}) != "");
}

TEST_CASE("comparison: an error above the tolerance is reported with the worst element") {
    CHECK(message(expected({3, 4}, 0.11), {3, 4.5}) == "");
    CHECK(message(expected({3, 4}, 0.09), {3, 4.5}) == doctest::Contains("at [1]: expected 4, found 4.5"));
    CHECK(message(expected({0, 0}), {0, 1e-9}) == doctest::Contains("relative error inf"));
}

TEST_CASE("comparison: NaN and infinity are wrong where the reference has none, and the other way round") {
    for (double bad : {not_a_number, infinity, -infinity}) {
        CHECK(message(expected({1, 2}), {1, bad}) == doctest::Contains("NaN or infinity on one side only at [1]"));
        CHECK(message(expected({1, bad}), {1, 2}) == doctest::Contains("NaN or infinity on one side only at [1]"));
        CHECK(message(expected({1, bad}), {1, bad}) == "");
    }
    CHECK(message(expected({infinity}), {-infinity}) != "");
    CHECK(message(expected({infinity}), {not_a_number}) != "");
}

TEST_CASE("comparison: an element is named by its index in every dimension") {
    Output output = expected({0, 0, 0, 0, 0, 0});
    output.shape = {1, 2, 3};
    CHECK(message(output, {0, 0, 0, 0, 0, 1}) == doctest::Contains("at [0, 1, 2]"));
}

TEST_CASE("comparison: nothing is as expected when there are no elements") {
    CHECK(message(expected({}), {}) == "");
}
