// exp, sigmoid, sine and cosine, compared with the C library in f64.
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include "tests/each_target.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/test_math.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h, which includes this file again for each target.
#include "hwy/highway.h"
#include "simd/activation-inl.h"
#include "simd/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cpu {
namespace HWY_NAMESPACE {

void exp_of(const float *x, float *y, size_t n) {
    along(n, [=](size_t i, auto extent) HWY_ATTR { store(exp(load(x + i, extent)), y + i, extent); });
}

void sigmoid_of(const float *x, float *y, size_t n) {
    along(n, [=](size_t i, auto extent) HWY_ATTR { store(sigmoid(load(x + i, extent)), y + i, extent); });
}

void gelu_slope_of(const float *x, float *y, size_t n) {
    along(n, [=](size_t i, auto extent) HWY_ATTR { store(Gelu::slope(load(x + i, extent)), y + i, extent); });
}

// n must be a multiple of the number of lanes.
void sine_cosine_of(const double *x, double *sines, double *cosines, size_t n) {
    const hn::ScalableTag<double> f64;
    for (size_t i = 0; i < n; i += hn::Lanes(f64)) {
        auto sine = hn::Zero(f64), cosine = sine;
        sine_cosine(f64, hn::LoadU(f64, x + i), sine, cosine);
        hn::StoreU(sine, f64, sines + i);
        hn::StoreU(cosine, f64, cosines + i);
    }
}

} // namespace HWY_NAMESPACE
} // namespace cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cpu {

HWY_EXPORT(exp_of);
HWY_EXPORT(sigmoid_of);
HWY_EXPORT(gelu_slope_of);
HWY_EXPORT(sine_cosine_of);

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

std::vector<float> from_to(float low, float high, size_t count) {
    std::vector<float> values(count);
    for (size_t i = 0; i < count; ++i)
        values[i] = low + (high - low) * static_cast<float>(i) / static_cast<float>(count - 1);
    return values;
}

template<class Function>
std::vector<float> applied(const std::vector<float> &x, Function function) {
    std::vector<float> y(x.size());
    function(x.data(), y.data(), x.size());
    return y;
}

template<class Reference>
double largest_relative_error(const std::vector<float> &x, const std::vector<float> &y, Reference reference) {
    double largest = 0;
    for (size_t i = 0; i < x.size(); ++i) {
        const double expected = reference(static_cast<double>(x[i]));
        largest = std::fmax(largest, std::fabs(static_cast<double>(y[i]) - expected) / std::fabs(expected));
    }
    return largest;
}

} // namespace

TEST_CASE("exp is right to 3 units in the last place wherever its result is a normal number") {
    const std::vector<float> x = from_to(-87.3f, 88.3f, 200'001);
    for_each_target([&] {
        const auto y = applied(x, [](auto... a) { HWY_DYNAMIC_DISPATCH(exp_of)(a...); });
        CHECK(largest_relative_error(x, y, [](double v) { return std::exp(v); }) < 3 * 1.2e-7);
    });
}

TEST_CASE("exp goes to exact limits and keeps NaN") {
    const std::vector<float> x = {-infinity, -1e30f, -88.0f, 0.0f, -0.0f, 88.8f, 1e30f, infinity, nan, -nan};
    for_each_target([&] {
        const auto y = applied(x, [](auto... a) { HWY_DYNAMIC_DISPATCH(exp_of)(a...); });
        CHECK(std::vector<float>(y.begin(), y.begin() + 8) ==
              std::vector<float>{0, 0, 0, 1, 1, infinity, infinity, infinity});
        CHECK(std::isnan(y[8]));
        CHECK(std::isnan(y[9]));
    });
}

TEST_CASE("sigmoid is right far to the left of zero, where its result is small") {
    const std::vector<float> x = from_to(-87.0f, 20.0f, 100'001);
    for_each_target([&] {
        const auto y = applied(x, [](auto... a) { HWY_DYNAMIC_DISPATCH(sigmoid_of)(a...); });
        CHECK(largest_relative_error(x, y, [](double v) { return 1 / (1 + std::exp(-v)); }) < 3.6e-7);
    });
}

TEST_CASE("the slope of gelu stays finite where x squared overflows") {
    const std::vector<float> left = {-infinity, -3e38f, -1e20f, -50.0f};
    const std::vector<float> right = {50.0f, 1e20f, 3e38f, infinity};
    for_each_target([&] {
        const auto slope = [](const std::vector<float> &x) {
            return applied(x, [](auto... a) { HWY_DYNAMIC_DISPATCH(gelu_slope_of)(a...); });
        };
        for (const float y : slope(left))
            CHECK(std::fabs(y) < 1e-30f);
        for (const float y : slope(right))
            CHECK(y == 1.0f);
        CHECK(std::isnan(slope({nan})[0]));
    });
}

TEST_CASE("sine and cosine are right to better than f32 rounds, also of large angles") {
    std::vector<double> x;
    for (const double scale : {1.0, 1e3, 1e6, 1e9}) {
        for (int i = -4096; i < 4096; ++i)
            x.push_back(static_cast<double>(static_cast<float>(scale * i / 4096.0)));
    }
    for_each_target([&] {
        std::vector<double> sines(x.size()), cosines(x.size());
        HWY_DYNAMIC_DISPATCH(sine_cosine_of)(x.data(), sines.data(), cosines.data(), x.size());
        double largest = 0;
        for (size_t i = 0; i < x.size(); ++i) {
            largest = std::fmax(largest, std::fabs(sines[i] - std::sin(x[i])));
            largest = std::fmax(largest, std::fabs(cosines[i] - std::cos(x[i])));
        }
        CHECK(largest < 1e-8);
    });
}

} // namespace cpu
#endif
