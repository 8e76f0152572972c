// The 16-bit floating-point types as storage: conversions only. Kernels compute in float and round once, when they
// store.
//
// Conversions round to nearest, ties to even, as hardware does; values past the range become infinities; NaNs stay NaNs
// (quiet), with their sign. They hold whatever the thread's flush-to-zero setting is. float(x) and T(value) work for
// float, half_t and bfloat16_t alike, so that one template serves all three.
#ifndef OPDOCK_CPP_FLOATS_HPP
#define OPDOCK_CPP_FLOATS_HPP

#include <cstdint>
#include <cstring>

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

inline float half_to_float(std::uint16_t half) noexcept {
    const std::uint32_t sign = (half & 0x8000u) << 16;
    const std::uint32_t exponent = half & 0x7c00u;
    const std::uint32_t magnitude = (half & 0x7fffu) << 13;
    if (exponent == 0x7c00u) // infinity or NaN
        return float_of(sign | 0x7f800000u | magnitude | (magnitude != 0x0f800000u ? 0x00400000u : 0u));
    if (exponent == 0) // 2^-14 + value has the mantissa bits in place, and subtracting is exact
        return float_of(sign | bits_of(float_of(0x38800000u | magnitude) - float_of(0x38800000u)));
    return float_of(sign | (magnitude + (112u << 23)));
}

inline std::uint16_t float_to_half(float value) noexcept {
    const std::uint32_t bits = bits_of(value);
    const std::uint32_t sign = (bits >> 16) & 0x8000u;
    std::uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude >= 0x47800000u) { // 2^16 and up
        const bool nan = magnitude > 0x7f800000u;
        magnitude = nan ? 0x7e00u | ((magnitude >> 13) & 0x1ffu) : 0x7c00u;
    } else if (magnitude < 0x38800000u) { // below 2^-14: one unit in the last place of 0.5f is the subnormals' step
        magnitude = bits_of(float_of(magnitude) + 0.5f) - bits_of(0.5f);
    } else { // carries past the largest half end at infinity
        magnitude = (magnitude - (112u << 23) + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
    }
    return static_cast<std::uint16_t>(sign | magnitude);
}

inline std::uint16_t float_to_bfloat16(float value) noexcept {
    const std::uint32_t bits = bits_of(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
    return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

} // namespace detail

// IEEE 754 binary16, f16 in signatures.
struct half_t {
    std::uint16_t bits;

    half_t() = default;
    explicit half_t(float value) noexcept : bits(detail::float_to_half(value)) {}
    explicit operator float() const noexcept { return detail::half_to_float(bits); }
};

// The upper half of a binary32, bf16 in signatures.
struct bfloat16_t {
    std::uint16_t bits;

    bfloat16_t() = default;
    explicit bfloat16_t(float value) noexcept : bits(detail::float_to_bfloat16(value)) {}
    explicit operator float() const noexcept { return detail::float_of(static_cast<std::uint32_t>(bits) << 16); }
};

static_assert(sizeof(half_t) == 2 && sizeof(bfloat16_t) == 2, "they alias tensor elements");

} // namespace opdock

#endif
