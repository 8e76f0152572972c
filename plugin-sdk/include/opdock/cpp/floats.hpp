// SPDX-License-Identifier: Apache-2.0
// The 16-bit floating-point types as storage: conversions only. Kernels compute in float and round once, when they
// store.
//
// Conversions round to nearest, ties to even, as hardware does; values past the range become infinities; NaNs stay NaNs
// (quiet), with their sign. The results do not depend on the thread's flush-to-zero setting. float(x) and T(value) work
// for float, half_t and bfloat16_t alike, so one template serves all three.
#ifndef OPDOCK_CPP_FLOATS_HPP
#define OPDOCK_CPP_FLOATS_HPP

#include <cstdint>
#include <cstring>

#include "opdock/tensor.h"

namespace opdock {

namespace detail {

inline std::uint32_t bits_of(float value) noexcept {
    std::uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}

inline float float_of(std::uint32_t bits) noexcept {
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

// A branchless select: with ?: GCC would move the floating-point operation of one side into a branch, and would not
// vectorize loops over conversions.
inline std::uint32_t select(bool condition, std::uint32_t yes, std::uint32_t no) noexcept {
    const std::uint32_t mask = 0u - static_cast<std::uint32_t>(condition);
    return (yes & mask) | (no & ~mask);
}

inline float half_to_float(std::uint16_t half) noexcept {
    const std::uint32_t sign = (half & 0x8000u) << 16;
    const std::uint32_t magnitude = (half & 0x7fffu) << 13; // exponent and mantissa in place, the bias is not
    const std::uint32_t infinity = 0x7c00u << 13;
    const std::uint32_t bias = magnitude >= infinity ? 224u << 23 : 112u << 23;
    const std::uint32_t quiet = magnitude > infinity ? 0x00400000u : 0u;
    // For a subnormal: 2^-14 + value has its mantissa in place, and the subtraction is exact.
    const std::uint32_t subnormal = bits_of(float_of(0x38800000u | magnitude) - float_of(0x38800000u));
    return float_of(sign | select(magnitude < 0x00800000u, subnormal, (magnitude + bias) | quiet));
}

inline std::uint16_t float_to_half(float value) noexcept {
    const std::uint32_t bits = bits_of(value);
    const std::uint32_t sign = (bits >> 16) & 0x8000u;
    const std::uint32_t magnitude = bits & 0x7fffffffu;
    // Rounding carries into the exponent, and past the largest f16 it gives infinity.
    const std::uint32_t normal = (magnitude - (112u << 23) + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
    // Below 2^-14: the last place of 0.5f equals the step of the subnormals, so the addition rounds.
    const std::uint32_t subnormal = bits_of(float_of(magnitude) + 0.5f) - bits_of(0.5f);
    const std::uint32_t nan = 0x7e00u | ((magnitude >> 13) & 0x1ffu);
    const std::uint32_t special = select(magnitude > 0x7f800000u, nan, 0x7c00u); // from 2^16 on
    const std::uint32_t finite = select(magnitude < 0x38800000u, subnormal, normal);
    return static_cast<std::uint16_t>(sign | select(magnitude >= 0x47800000u, special, finite));
}

} // namespace detail

// IEEE 754 binary16, f16 in signatures.
// NOLINTNEXTLINE(readability-identifier-naming): named like the types of <cstdint>
struct half_t {
    std::uint16_t bits;

    half_t() = default;
    explicit half_t(float value) noexcept : bits(detail::float_to_half(value)) {}
    explicit operator float() const noexcept { return detail::half_to_float(bits); }
};

// The upper half of a binary32, bf16 in signatures.
// NOLINTNEXTLINE(readability-identifier-naming)
struct bfloat16_t {
    std::uint16_t bits;

    bfloat16_t() = default;
    explicit bfloat16_t(float value) noexcept : bits(opdock_float_to_bf16(value)) {}
    explicit operator float() const noexcept { return opdock_bf16_to_float(bits); }
};

static_assert(sizeof(half_t) == 2 && sizeof(bfloat16_t) == 2, "they alias tensor elements");

} // namespace opdock

#endif
