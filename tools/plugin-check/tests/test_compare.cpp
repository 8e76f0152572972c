#include "compare.hpp"

#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include "op-call/element.hpp"
#include "opdock/plugin.h"
#include "parts.hpp"
#include "tensor_files.hpp"

using namespace opdock::plugin_check;

namespace {

Output output(uint32_t dtype, const std::vector<double> &values) {
    Output output{"output", dtype, {static_cast<int64_t>(values.size())}, {}};
    output.elements.resize(values.size() * opdock::files::element_size(dtype));
    for (size_t i = 0; i < values.size(); ++i) {
        opdock::op_call::store_element(dtype, output.elements.data(), i, values[i]);
    }
    return output;
}

Agreement agreement(uint32_t dtype, const std::vector<double> &found, const std::vector<double> &expected,
                    const std::vector<double> &noise = {}) {
    return compare(output(dtype, found), expected, tolerance_for(dtype, 1),
                   [&] { return noise.empty() ? std::vector<double>(expected.size()) : noise; });
}

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

} // namespace

TEST_CASE("rounding to the output's dtype is no fault") {
    const std::vector<double> expected = {1.0 / 3, -2.0 / 3, 1e-3};
    for (const uint32_t dtype : {OPDOCK_F32, OPDOCK_F16, OPDOCK_BF16}) {
        CHECK(agreement(dtype, expected, expected).problem.empty());
    }
}

TEST_CASE("one wrong element among many is found, which the norm alone would not") {
    std::vector<double> expected(100'000, 1.0);
    std::vector<double> found = expected;
    found[777] = 1.001;
    const Agreement far = agreement(OPDOCK_F32, found, expected);
    CHECK(far.error < 1e-5);
    CHECK(far.problem == "one element is far off: [777] is 1.001, expected 1");
}

TEST_CASE("NaN and infinity where the reference has none are wrong, and the other way round") {
    CHECK(agreement(OPDOCK_F32, {1, not_a_number}, {1, 2}).problem == "[1] is nan, expected 2");
    CHECK(agreement(OPDOCK_F32, {1, infinity}, {1, 2}).problem == "[1] is inf, expected 2");
    CHECK(agreement(OPDOCK_F32, {1, 2}, {1, -infinity}).problem == "[1] is 2, expected -inf");
    CHECK(agreement(OPDOCK_F32, {1, infinity}, {1, infinity}).problem.empty());
    CHECK(agreement(OPDOCK_F32, {1, 2}, {1, not_a_number}).problem.empty());
}

TEST_CASE("NaN may stand for an infinity where the order of terms decides it, and a number may not") {
    const auto problem = [](const std::vector<double> &found) {
        return compare(output(OPDOCK_F32, found), {1, infinity}, 1e-5, [] { return std::vector<double>(2); },
                       {.nan_for_infinite = true})
            .problem;
    };
    CHECK(problem({1, infinity}).empty());
    CHECK(problem({1, not_a_number}).empty());
    CHECK(problem({1, 0}) == "[1] is 0, expected inf");
    CHECK(problem({not_a_number, infinity}) == "[0] is nan, expected 1");
}

TEST_CASE("where a result depends on what is NaN no number is right") {
    const auto problem = [](const std::vector<double> &found, bool depends = true) {
        return compare(output(OPDOCK_F32, found), {1, not_a_number}, 1e-5, [] { return std::vector<double>(2); },
                       {.keeps_nan = {false, depends}})
            .problem;
    };
    CHECK(problem({1, not_a_number}).empty());
    CHECK(problem({1, 0}) == "[1] is 0, expected nan");
    CHECK(problem({1, 0}, false).empty());
    CHECK(problem({not_a_number, not_a_number}) == "[0] is nan, expected 1");
}

TEST_CASE("where a result is past the range of its dtype, infinity is right, and so is the largest number next to it") {
    CHECK(agreement(OPDOCK_F16, {1, infinity}, {1, 1e6}).problem.empty());
    CHECK(agreement(OPDOCK_F16, {1, 65504}, {1, 65530}).problem.empty());
    CHECK_FALSE(agreement(OPDOCK_F16, {1, 100}, {1, 1e6}).problem.empty());
    CHECK_FALSE(agreement(OPDOCK_F16, {1, -infinity}, {1, 1e6}).problem.empty());
}

TEST_CASE("a result that rounding may have moved past the range of its dtype may be infinite, or not be") {
    CHECK(agreement(OPDOCK_F16, {1, infinity}, {1, 0}, {0, 1e4}).problem.empty());
    CHECK(agreement(OPDOCK_F16, {1, 62336}, {1, 65530}, {0, 1e3}).problem.empty());
    CHECK_FALSE(agreement(OPDOCK_F16, {1, infinity}, {1, 0}, {0, 1e3}).problem.empty());
    CHECK_FALSE(agreement(OPDOCK_F16, {1, 62336}, {1, 65530}, {0, 1}).problem.empty());
    CHECK_FALSE(agreement(OPDOCK_F16, {1, not_a_number}, {1, 0}, {0, 1e6}).problem.empty());
}

TEST_CASE("where inputs are infinite, the largest number is no infinity") {
    const auto problem = [](const std::vector<double> &found) {
        return compare(output(OPDOCK_F32, found), {1, infinity}, 1e-5, [] { return std::vector<double>(2); },
                       {.infinite_inputs = true})
            .problem;
    };
    CHECK(problem({1, infinity}).empty());
    CHECK(problem({1, std::numeric_limits<float>::max()}) == "[1] is 3.402823e+38, expected inf");
}

TEST_CASE("what cancellation costs the reference too is no fault") {
    CHECK_FALSE(agreement(OPDOCK_F32, {1e-6}, {2e-6}).problem.empty());
    CHECK(agreement(OPDOCK_F32, {1e-6}, {2e-6}, {1e-6}).problem.empty());
}

TEST_CASE("integers are equal or wrong") {
    CHECK(agreement(OPDOCK_U8, {0, 1, 1}, {0, 1, 1}).problem.empty());
    CHECK(agreement(OPDOCK_U8, {0, 1, 0}, {0, 1, 1}).problem == "1 of 3 elements differ: [2] is 0, expected 1");
}

TEST_CASE("a place is told in all dims") {
    CHECK(place_text(7, {2, 5}) == "[1, 2]");
    CHECK(place_text(0, {}) == "[]");
}

TEST_CASE("rows of one magnitude are judged on their own, and of large constants only what kind of number results") {
    const std::vector<Magnitude> magnitudes = {Magnitude::constant, Magnitude::ordinary, Magnitude::thousand,
                                               Magnitude::ordinary};
    const std::vector<double> expected = {1e25, 1e25, 1, 2, 1000, 1001, 3, 4};
    std::vector<double> found = expected;
    const auto problems = [&] {
        std::string all;
        for (const Part &part : parts_of(magnitudes, found.size())) {
            all += compare(
                       output(OPDOCK_F32, found), expected, 1e-5, [&] { return std::vector<double>(8); }, part)
                       .problem;
        }
        return all;
    };
    CHECK(problems().empty());
    found[3] = 2.1; // negligible in the norm of all
    CHECK(agreement(OPDOCK_F32, found, expected).problem.empty());
    CHECK(problems().find("[3] is 2.1, expected 2") != std::string::npos);
    found = expected;
    found[0] = 0;
    CHECK(problems().empty());
    found[0] = not_a_number;
    CHECK(problems().find("[0] is nan") != std::string::npos);
    CHECK(parts_of(magnitudes, 7).size() == 1); // for example, a sum over rows
    CHECK(usual_rows(magnitudes, 8).size() == 3);
    CHECK(usual_rows(magnitudes, 7).empty());
}
