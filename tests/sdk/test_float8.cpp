#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>

#include "opdock/cpp/float8.hpp"

using opdock::e4m3_t;
using opdock::e5m2_t;

namespace {

template<class T>
T from_bits(std::uint32_t bits) {
    T value;
    value.bits = static_cast<std::uint8_t>(bits);
    return value;
}

// The formats as OCP defines them, by arithmetic instead of bits, up to the largest value.
template<int mantissa_bits, int bias>
double exact(std::uint32_t magnitude) {
    const int exponent = static_cast<int>(magnitude >> mantissa_bits);
    const int mantissa = static_cast<int>(magnitude & ((1u << mantissa_bits) - 1));
    return exponent == 0 ? std::ldexp(mantissa, 1 - bias - mantissa_bits)
                         : std::ldexp((1 << mantissa_bits) + mantissa, exponent - bias - mantissa_bits);
}

template<class T, int mantissa_bits, int bias>
void check_format(std::uint32_t largest) {
    int wrong = 0;
    for (std::uint32_t bits = 0; bits <= largest; ++bits) {
        const auto value = static_cast<float>(exact<mantissa_bits, bias>(bits));
        wrong += float(from_bits<T>(bits)) != value;
        wrong += float(from_bits<T>(bits | 0x80)) != -value;
        wrong += T(value).bits != bits;
        wrong += T(-value).bits != (bits | 0x80);
        if (bits == largest)
            break;
        const float middle = value + (static_cast<float>(exact<mantissa_bits, bias>(bits + 1)) - value) / 2;
        wrong += T(middle).bits != (bits % 2 == 0 ? bits : bits + 1);
        wrong += T(std::nextafter(middle, 0.0f)).bits != bits;
        wrong += T(std::nextafter(middle, INFINITY)).bits != bits + 1;
        wrong += T(-std::nextafter(middle, INFINITY)).bits != ((bits + 1) | 0x80);
    }
    CHECK(wrong == 0);
}

} // namespace

TEST_CASE("every fp8 value survives the way to float and back, and what lies between two goes to the nearest") {
    check_format<e4m3_t, 3, 7>(0x7e);
    check_format<e5m2_t, 2, 15>(0x7b);
}

TEST_CASE("fp8 saturates") {
    for (const float past : {448.1f, 464.0f, 465.0f, 1e30f, INFINITY}) {
        CHECK(float(e4m3_t(past)) == 448);
        CHECK(float(e4m3_t(-past)) == -448);
    }
    for (const float past : {57345.0f, 61440.0f, 65536.0f, INFINITY}) {
        CHECK(float(e5m2_t(past)) == 57344);
        CHECK(float(e5m2_t(-past)) == -57344);
    }
    CHECK(float(from_bits<e5m2_t>(0xfc)) == -INFINITY);
}

TEST_CASE("a NaN of fp8 stays one") {
    CHECK(std::isnan(float(e4m3_t(NAN))));
    CHECK(std::isnan(float(e5m2_t(-NAN))));
    for (const std::uint32_t bits : {0x7f, 0xff})
        CHECK(std::isnan(float(from_bits<e4m3_t>(bits))));
    for (const std::uint32_t bits : {0x7d, 0x7e, 0x7f, 0xfd})
        CHECK(std::isnan(float(from_bits<e5m2_t>(bits))));
}

TEST_CASE("a dtype of fp8 becomes its type") {
    const auto size = [](auto tag) { return sizeof(typename decltype(tag)::type); };
    CHECK(opdock::visit_float8(opdock_dtype_unpack(OPDOCK_E4M3), size) == 1);
    CHECK(opdock::holds<e5m2_t>(opdock_dtype_unpack(OPDOCK_E5M2)));
    CHECK_FALSE(opdock::holds<e5m2_t>(opdock_dtype_unpack(OPDOCK_E4M3)));
    CHECK_THROWS_AS(opdock::visit_float8(opdock_dtype_unpack(OPDOCK_F16), size), opdock::Failure);
}
