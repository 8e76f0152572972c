#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>

#ifdef __SSE__
#include <xmmintrin.h>
#endif

#include "opdock/cpp/floats.hpp"

using opdock::bfloat16_t;
using opdock::half_t;

namespace {

template<class T>
T from_bits(std::uint32_t bits) {
    T value;
    value.bits = static_cast<std::uint16_t>(bits);
    return value;
}

// The formats as IEEE 754 defines them, by arithmetic instead of bits.
double exact(half_t value) {
    const int exponent = (value.bits >> 10) & 0x1f;
    const int mantissa = value.bits & 0x3ff;
    const double magnitude =
        exponent == 31 ? (mantissa == 0 ? std::numeric_limits<double>::infinity() : std::nan(""))
                       : std::ldexp(exponent == 0 ? mantissa : mantissa + 1024, (exponent == 0 ? 1 : exponent) - 25);
    return (value.bits & 0x8000) != 0 ? -magnitude : magnitude;
}

double exact(bfloat16_t value) {
    const int exponent = (value.bits >> 7) & 0xff;
    const int mantissa = value.bits & 0x7f;
    const double magnitude =
        exponent == 255 ? (mantissa == 0 ? std::numeric_limits<double>::infinity() : std::nan(""))
                        : std::ldexp(exponent == 0 ? mantissa : mantissa + 128, (exponent == 0 ? 1 : exponent) - 134);
    return (value.bits & 0x8000) != 0 ? -magnitude : magnitude;
}

template<class T>
bool is_nan(T value) {
    return std::isnan(exact(value));
}

template<class T>
constexpr std::uint32_t infinity_bits = 0;
template<>
constexpr std::uint32_t infinity_bits<half_t> = 0x7c00;
template<>
constexpr std::uint32_t infinity_bits<bfloat16_t> = 0x7f80;

} // namespace

TEST_CASE_TEMPLATE("every 16-bit value becomes the float of the same value", T, half_t, bfloat16_t) {
    int wrong = 0;
    for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
        const T value = from_bits<T>(bits);
        const auto converted = static_cast<float>(value);
        const bool same = is_nan(value) ? std::isnan(converted) : static_cast<double>(converted) == exact(value);
        wrong += !same || std::signbit(converted) != ((bits & 0x8000) != 0);
    }
    CHECK(wrong == 0);
}

TEST_CASE_TEMPLATE("every 16-bit value comes back from float unchanged, NaNs quiet", T, half_t, bfloat16_t) {
    const std::uint32_t quiet = sizeof(T) == 2 && infinity_bits<T> == 0x7c00 ? 0x200 : 0x40;
    int wrong = 0;
    for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
        const T value = from_bits<T>(bits);
        const std::uint32_t expected = is_nan(value) ? bits | quiet : bits;
        wrong += T(static_cast<float>(value)).bits != expected;
    }
    CHECK(wrong == 0);
}

TEST_CASE_TEMPLATE("a float between two neighbours goes to the nearer one, and to the even one from the middle", T,
                   half_t, bfloat16_t) {
    int wrong = 0;
    for (std::uint32_t low = 0; low < infinity_bits<T>; ++low) {
        // Infinity starts where the value after the largest finite one would be, so that counts as its neighbour.
        const double below = exact(from_bits<T>(low));
        const double above =
            low + 1 == infinity_bits<T> ? 2 * below - exact(from_bits<T>(low - 1)) : exact(from_bits<T>(low + 1));
        const auto middle = static_cast<float>((below + above) / 2);
        REQUIRE(static_cast<double>(middle) == (below + above) / 2);
        const std::uint32_t even = low % 2 == 0 ? low : low + 1;
        for (const std::uint32_t sign : {0x0000u, 0x8000u}) {
            const float signed_middle = sign != 0 ? -middle : middle;
            wrong += T(signed_middle).bits != (even | sign);
            wrong += T(std::nextafter(signed_middle, 0.0f)).bits != (low | sign);
            wrong += T(std::nextafter(signed_middle, 2 * signed_middle)).bits != ((low + 1) | sign);
        }
    }
    CHECK(wrong == 0);
}

TEST_CASE_TEMPLATE("what is out of range becomes infinity and what is too small becomes zero, signs kept", T, half_t,
                   bfloat16_t) {
    const float largest = std::numeric_limits<float>::max();
    const float smallest = std::numeric_limits<float>::denorm_min();
    CHECK(T(largest).bits == infinity_bits<T>);
    CHECK(T(-largest).bits == (infinity_bits<T> | 0x8000u));
    CHECK(T(std::numeric_limits<float>::infinity()).bits == infinity_bits<T>);
    CHECK(T(smallest).bits == 0);
    CHECK(T(-smallest).bits == 0x8000);
    CHECK(T(-0.0f).bits == 0x8000);
}

TEST_CASE("65504 is the largest f16, and 65520 is the first float past it") {
    CHECK(half_t(65504.0f).bits == 0x7bff);
    CHECK(half_t(65519.996f).bits == 0x7bff);
    CHECK(half_t(65520.0f).bits == 0x7c00);
}

TEST_CASE_TEMPLATE("a NaN whose payload is in the low bits only stays a NaN", T, half_t, bfloat16_t) {
    CHECK(is_nan(T(opdock::detail::float_of(0x7f800001u))));
    CHECK(is_nan(T(opdock::detail::float_of(0xff800001u))));
}

#ifdef __SSE__
TEST_CASE("f16 subnormals convert on a thread that flushes subnormals to zero") {
    const unsigned before = _mm_getcsr();
    int wrong = 0;
    for (std::uint32_t bits = 0; bits < 0x400; ++bits) {
        const auto expected = static_cast<float>(exact(from_bits<half_t>(bits)));
        _mm_setcsr(before | 0x8040u); // flush results and inputs
        const float there = static_cast<float>(from_bits<half_t>(bits));
        const std::uint32_t back = half_t(there).bits;
        _mm_setcsr(before);
        wrong += there != expected || back != bits;
    }
    CHECK(wrong == 0);
}
#endif
