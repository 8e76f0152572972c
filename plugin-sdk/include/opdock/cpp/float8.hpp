// SPDX-License-Identifier: Apache-2.0
// The 8-bit floating-point types as storage: conversions only. Templates can use them like the types of floats.hpp:
// float(x) and T(value).
//
// Conversions round to nearest, ties to even, and saturate, as the standard ops do: values past the largest one,
// infinity included, become the largest one. NaNs stay NaNs, with their sign.
#ifndef OPDOCK_CPP_FLOAT8_HPP
#define OPDOCK_CPP_FLOAT8_HPP

#include <cstdint>

#include "opdock/cpp/dtype.hpp"
#include "opdock/cpp/floats.hpp"

namespace opdock {

namespace detail {

// `largest` is the format's largest value as the bits of a float.
template<int mantissa_bits, std::uint32_t bias, std::uint32_t largest>
std::uint8_t float_to_float8(float value) noexcept {
    constexpr int shift = 23 - mantissa_bits;
    // The smallest normal value, and a float whose last place equals the step of the subnormals.
    constexpr std::uint32_t smallest = (128 - bias) << 23;
    constexpr std::uint32_t step = (128 - bias + static_cast<std::uint32_t>(shift)) << 23;
    const std::uint32_t bits = bits_of(value);
    const std::uint32_t magnitude = bits & 0x7fffffffu;
    const std::uint32_t within = magnitude > largest ? largest : magnitude;
    const std::uint32_t odd = (within >> shift) & 1u;
    const std::uint32_t normal = (within - ((127 - bias) << 23) + (1u << (shift - 1)) - 1u + odd) >> shift;
    const std::uint32_t subnormal = bits_of(float_of(within) + float_of(step)) - step;
    const std::uint32_t finite = select(within < smallest, subnormal, normal);
    return static_cast<std::uint8_t>(((bits >> 24) & 0x80u) | select(magnitude > 0x7f800000u, 0x7fu, finite));
}

inline float e4m3_to_float(std::uint8_t bits) noexcept {
    const std::uint32_t sign = (bits & 0x80u) << 24;
    const std::uint32_t magnitude = bits & 0x7fu;
    const std::uint32_t normal = (magnitude << 20) + (120u << 23);
    const std::uint32_t subnormal = bits_of(static_cast<float>(magnitude) * 0.001953125f); // 2^-9
    return float_of(sign | select(magnitude == 0x7fu, 0x7fc00000u, select(magnitude < 8u, subnormal, normal)));
}

} // namespace detail

// OCP's FN form, e4m3 in signatures: no infinities, 448 is the largest value.
// NOLINTNEXTLINE(readability-identifier-naming): named like the types of floats.hpp
struct e4m3_t {
    std::uint8_t bits;

    e4m3_t() = default;
    explicit e4m3_t(float value) noexcept : bits(detail::float_to_float8<3, 7, 0x43e00000u>(value)) {}
    explicit operator float() const noexcept { return detail::e4m3_to_float(bits); }
};

// The upper half of a binary16, e5m2 in signatures: 57344 is the largest value before infinity.
// NOLINTNEXTLINE(readability-identifier-naming)
struct e5m2_t {
    std::uint8_t bits;

    e5m2_t() = default;
    explicit e5m2_t(float value) noexcept : bits(detail::float_to_float8<2, 15, 0x47600000u>(value)) {}
    explicit operator float() const noexcept { return detail::half_to_float(static_cast<std::uint16_t>(bits << 8)); }
};

static_assert(sizeof(e4m3_t) == 1 && sizeof(e5m2_t) == 1, "they alias tensor elements");

namespace detail {

template<>
inline constexpr std::uint32_t packed_dtype<e4m3_t> = OPDOCK_E4M3;
template<>
inline constexpr std::uint32_t packed_dtype<e5m2_t> = OPDOCK_E5M2;

} // namespace detail

// Returns visit(TypeTag<T>{}) for the T among e4m3_t and e5m2_t that `dtype` names; declines other dtypes.
template<class Visitor>
auto visit_float8(DLDataType dtype, Visitor &&visit) {
    switch (opdock_dtype_pack(dtype)) {
    case OPDOCK_E4M3:
        return visit(TypeTag<e4m3_t>{});
    case OPDOCK_E5M2:
        return visit(TypeTag<e5m2_t>{});
    default:
        throw Failure(OPDOCK_UNSUPPORTED, "expected e4m3 or e5m2, found " + dtype_name(dtype));
    }
}

} // namespace opdock

#endif
