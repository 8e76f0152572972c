// Conversions between f32 and fp8, compared with those of the SDK.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include <doctest/doctest.h>

#include "tests/each_target.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/test_fp8.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h, which includes this file again for each target.
#include "hwy/highway.h"
#include "simd/fp8-inl.h"
#include "simd/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cpu {
namespace HWY_NAMESPACE {

template<class From, class To>
void convert(const From *from, To *to, size_t n) {
    along(n, [=](size_t i, auto extent) HWY_ATTR { store(load(from + i, extent), to + i, extent); });
}

void widen_e4m3(const opdock::e4m3_t *from, float *to, size_t n) {
    convert(from, to, n);
}
void widen_e5m2(const opdock::e5m2_t *from, float *to, size_t n) {
    convert(from, to, n);
}
void narrow_e4m3(const float *from, opdock::e4m3_t *to, size_t n) {
    convert(from, to, n);
}
void narrow_e5m2(const float *from, opdock::e5m2_t *to, size_t n) {
    convert(from, to, n);
}

} // namespace HWY_NAMESPACE
} // namespace cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cpu {

HWY_EXPORT(widen_e4m3);
HWY_EXPORT(widen_e5m2);
HWY_EXPORT(narrow_e4m3);
HWY_EXPORT(narrow_e5m2);

namespace {

void widen(const std::vector<opdock::e4m3_t> &from, std::vector<float> &to) {
    HWY_DYNAMIC_DISPATCH(widen_e4m3)(from.data(), to.data(), from.size());
}
void widen(const std::vector<opdock::e5m2_t> &from, std::vector<float> &to) {
    HWY_DYNAMIC_DISPATCH(widen_e5m2)(from.data(), to.data(), from.size());
}
void narrow(const std::vector<float> &from, std::vector<opdock::e4m3_t> &to) {
    HWY_DYNAMIC_DISPATCH(narrow_e4m3)(from.data(), to.data(), from.size());
}
void narrow(const std::vector<float> &from, std::vector<opdock::e5m2_t> &to) {
    HWY_DYNAMIC_DISPATCH(narrow_e5m2)(from.data(), to.data(), from.size());
}

// Every f32 whose lower half is about a tie of the formats, or next to one.
std::vector<float> samples() {
    std::vector<float> values;
    for (uint32_t upper = 0; upper < 0x10000; ++upper)
        for (const uint32_t lower : {0u, 1u, 0x7fffu, 0x8000u, 0xffffu}) {
            const uint32_t bits = upper << 16 | lower;
            float value;
            std::memcpy(&value, &bits, sizeof value);
            values.push_back(value);
        }
    return values;
}

template<class F>
void check_narrow() {
    const std::vector<float> from = samples();
    std::vector<F> to(from.size());
    narrow(from, to);
    int64_t wrong = 0;
    for (size_t i = 0; i < from.size(); ++i)
        wrong += to[i].bits != F(from[i]).bits;
    CHECK(wrong == 0);
}

template<class F>
void check_widen() {
    std::vector<F> from(256);
    for (size_t i = 0; i < from.size(); ++i)
        from[i].bits = static_cast<uint8_t>(i);
    std::vector<float> to(from.size());
    widen(from, to);
    for (size_t i = 0; i < from.size(); ++i) {
        CAPTURE(i);
        const auto expected = float(from[i]);
        CHECK((std::isnan(expected) ? std::isnan(to[i]) : to[i] == expected));
        CHECK(std::signbit(to[i]) == std::signbit(expected));
    }
}

} // namespace

TEST_CASE("what becomes of f32 in fp8 is what the SDK makes of it") {
    for_each_target([] {
        check_narrow<opdock::e4m3_t>();
        check_narrow<opdock::e5m2_t>();
    });
}

TEST_CASE("every fp8 value becomes the same f32 as in the SDK") {
    for_each_target([] {
        check_widen<opdock::e4m3_t>();
        check_widen<opdock::e5m2_t>();
    });
}

} // namespace cpu
#endif
