// Conversions between f32 and the 16-bit types, exhaustively.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "tests/each_target.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/test_convert.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h, which includes this file again for each target.
#include "hwy/highway.h"
#include "simd/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cpu {
namespace HWY_NAMESPACE {

template<class From, class To>
void convert(const From *from, To *to, size_t n) {
    along(n, [=](size_t i, auto extent) HWY_ATTR { store(load(from + i, extent), to + i, extent); });
}

void widen_f16(const opdock::half_t *from, float *to, size_t n) {
    convert(from, to, n);
}
void widen_bf16(const opdock::bfloat16_t *from, float *to, size_t n) {
    convert(from, to, n);
}
void narrow_f16(const float *from, opdock::half_t *to, size_t n) {
    convert(from, to, n);
}
void narrow_bf16(const float *from, opdock::bfloat16_t *to, size_t n) {
    convert(from, to, n);
}

} // namespace HWY_NAMESPACE
} // namespace cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cpu {

HWY_EXPORT(widen_f16);
HWY_EXPORT(widen_bf16);
HWY_EXPORT(narrow_f16);
HWY_EXPORT(narrow_bf16);

namespace {

// The 16-bit types, straight from their definitions.
struct F16 {
    using Type = opdock::half_t;
    static constexpr int mantissa_bits = 10;
    static constexpr int bias = 15;
    static void widen(const Type *from, float *to, size_t n) { HWY_DYNAMIC_DISPATCH(widen_f16)(from, to, n); }
    static void narrow(const float *from, Type *to, size_t n) { HWY_DYNAMIC_DISPATCH(narrow_f16)(from, to, n); }
};
struct BF16 {
    using Type = opdock::bfloat16_t;
    static constexpr int mantissa_bits = 7;
    static constexpr int bias = 127;
    static void widen(const Type *from, float *to, size_t n) { HWY_DYNAMIC_DISPATCH(widen_bf16)(from, to, n); }
    static void narrow(const float *from, Type *to, size_t n) { HWY_DYNAMIC_DISPATCH(narrow_bf16)(from, to, n); }
};

constexpr unsigned sign_bit = 0x8000u;

template<class Format>
constexpr unsigned infinity_bits = 0x7fffu & ~((1u << Format::mantissa_bits) - 1);

template<class Format>
double value_of(unsigned bits) {
    const unsigned magnitude = bits & 0x7fffu;
    const double sign = (bits & sign_bit) != 0 ? -1 : 1;
    if (magnitude > infinity_bits<Format>)
        return std::numeric_limits<double>::quiet_NaN();
    if (magnitude == infinity_bits<Format>)
        return sign * std::numeric_limits<double>::infinity();
    const int exponent = static_cast<int>(magnitude >> Format::mantissa_bits);
    const int mantissa = static_cast<int>(magnitude & ((1u << Format::mantissa_bits) - 1));
    const int implicit = exponent == 0 ? 0 : 1 << Format::mantissa_bits;
    return sign *
           std::ldexp(implicit + mantissa, (exponent == 0 ? 1 : exponent) - Format::bias - Format::mantissa_bits);
}

template<class Format>
std::vector<unsigned> narrowed(const std::vector<float> &values) {
    std::vector<typename Format::Type> out(values.size());
    Format::narrow(values.data(), out.data(), values.size());
    std::vector<unsigned> bits;
    for (const auto &element : out)
        bits.push_back(element.bits);
    return bits;
}

template<class Format>
std::vector<float> widened_all() {
    std::vector<typename Format::Type> all(65536);
    for (unsigned i = 0; i < 65536; ++i)
        all[i].bits = static_cast<uint16_t>(i);
    std::vector<float> wide(all.size());
    Format::widen(all.data(), wide.data(), all.size());
    return wide;
}

// Counts mismatches, so that a broken conversion does not print 65,536 failures.
struct Mismatches {
    unsigned count = 0;
    unsigned first_bits = 0;

    void check(bool right, unsigned bits) {
        if (!right && count++ == 0)
            first_bits = bits;
    }
    void report() const { CHECK_MESSAGE(count == 0, count, " wrong, the first at bits ", first_bits); }
};

} // namespace

TEST_CASE_TEMPLATE("every 16-bit value widens exactly, and NaN to NaN", Format, F16, BF16) {
    for_each_target([] {
        const std::vector<float> wide = widened_all<Format>();
        Mismatches wrong;
        for (unsigned bits = 0; bits < wide.size(); ++bits) {
            const double expected = value_of<Format>(bits);
            const auto found = static_cast<double>(wide[bits]);
            const bool same_sign = std::signbit(wide[bits]) == ((bits & sign_bit) != 0);
            wrong.check(same_sign && (std::isnan(expected) ? std::isnan(found) : expected == found), bits);
        }
        wrong.report();
    });
}

TEST_CASE_TEMPLATE("every 16-bit value survives the way to f32 and back", Format, F16, BF16) {
    for_each_target([] {
        const std::vector<unsigned> back = narrowed<Format>(widened_all<Format>());
        Mismatches wrong;
        for (unsigned bits = 0; bits < back.size(); ++bits) {
            // A signalling NaN comes back quiet, with its sign and the rest of its payload.
            const unsigned quiet = std::isnan(value_of<Format>(bits)) ? 1u << (Format::mantissa_bits - 1) : 0u;
            wrong.check(back[bits] == (bits | quiet), bits);
        }
        wrong.report();
    });
}

TEST_CASE_TEMPLATE("the nearer of two neighbours is taken, and of two equally near ones the even one", Format, F16,
                   BF16) {
    // Just below the middle, the middle and just above it, between each finite value and the next one; above the
    // largest, the middle is where infinity begins.
    std::vector<float> values;
    std::vector<unsigned> expected;
    for (const unsigned sign : {0u, sign_bit}) {
        for (unsigned bits = 0; bits < infinity_bits<Format>; ++bits) {
            const double low = value_of<Format>(bits);
            const bool last = bits + 1 == infinity_bits<Format>;
            const double high = last ? low + (low - value_of<Format>(bits - 1)) : value_of<Format>(bits + 1);
            const auto magnitude = static_cast<float>((low + high) / 2);
            const float middle = sign == 0 ? magnitude : -magnitude;
            const float outward =
                sign == 0 ? std::numeric_limits<float>::infinity() : -std::numeric_limits<float>::infinity();
            for (const auto &[value, result] :
                 {std::pair(std::nextafter(middle, 0.0f), bits), std::pair(middle, bits + bits % 2),
                  std::pair(std::nextafter(middle, outward), bits + 1)}) {
                values.push_back(value);
                expected.push_back(result | sign);
            }
        }
    }
    for_each_target([&] {
        const std::vector<unsigned> found = narrowed<Format>(values);
        Mismatches wrong;
        for (size_t i = 0; i < found.size(); ++i)
            wrong.check(found[i] == expected[i], expected[i]);
        wrong.report();
    });
}

TEST_CASE_TEMPLATE("infinities, zeros and the ends of f32 keep their sign and become what they round to", Format, F16,
                   BF16) {
    const float infinity = std::numeric_limits<float>::infinity();
    const float largest = std::numeric_limits<float>::max();
    const float smallest = std::numeric_limits<float>::denorm_min();
    constexpr unsigned inf = infinity_bits<Format>;
    for_each_target([&] {
        CHECK(narrowed<Format>({infinity, largest, smallest, 0.0f}) == std::vector<unsigned>{inf, inf, 0, 0});
        CHECK(narrowed<Format>({-infinity, -largest, -smallest, -0.0f}) ==
              std::vector<unsigned>{inf | sign_bit, inf | sign_bit, sign_bit, sign_bit});
    });
}

TEST_CASE_TEMPLATE("a NaN stays a NaN with its sign, whatever bits it carries", Format, F16, BF16) {
    std::vector<float> nans;
    for (const uint32_t bits :
         {0x7f800001u, 0x7f801fffu, 0x7f80ffffu, 0x7fbfffffu, 0x7fc00000u, 0x7fffffffu, 0xff800001u, 0xffffffffu}) {
        nans.emplace_back();
        std::memcpy(&nans.back(), &bits, sizeof bits);
    }
    for_each_target([&] {
        const std::vector<unsigned> found = narrowed<Format>(nans);
        for (size_t i = 0; i < found.size(); ++i) {
            CAPTURE(i);
            CHECK(std::isnan(value_of<Format>(found[i])));
            CHECK(((found[i] & sign_bit) != 0) == std::signbit(nans[i]));
        }
    });
}

TEST_CASE("the end of a row is read and written without touching what follows it") {
    for_each_target([] {
        for (size_t n = 0; n <= 40; ++n) {
            CAPTURE(n);
            const std::vector<float> from(n, 1.0f); // sanitizers detect reads past its end
            std::vector<opdock::bfloat16_t> to(n + 1, opdock::bfloat16_t(7.0f));
            BF16::narrow(from.data(), to.data(), n);
            for (size_t i = 0; i < n; ++i)
                CHECK(float(to[i]) == 1.0f);
            CHECK(float(to[n]) == 7.0f);
        }
    });
}

} // namespace cpu
#endif
