#include "tuner/agreement.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <spdlog/fmt/fmt.h>

#include "opdock/plugin.hpp"
#include "signature/dtype.hpp"

namespace opdock::core {
namespace {

struct Tolerance {
    double norm;
    double element;
};

// e4m3 is OCP's FN form: no infinities, NaN where all bits below the sign are set.
double fp8_value(uint8_t bits, int exponent_bits, bool has_infinities) {
    const int mantissa_bits = 7 - exponent_bits;
    const int exponent = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
    const int mantissa = bits & ((1 << mantissa_bits) - 1);
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const double sign = (bits & 0x80) != 0 ? -1 : 1;
    if (has_infinities && exponent == (1 << exponent_bits) - 1) {
        return mantissa == 0 ? sign * HUGE_VAL : std::nan("");
    }
    if (!has_infinities && (bits & 0x7f) == 0x7f) {
        return std::nan("");
    }
    const double fraction = static_cast<double>(mantissa) / (1 << mantissa_bits);
    return exponent == 0 ? sign * std::ldexp(fraction, 1 - bias) : sign * std::ldexp(1 + fraction, exponent - bias);
}

template<class T>
T element(std::span<const std::byte> bytes, size_t i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof value, sizeof value);
    return value;
}

template<class Value>
std::string compare(std::span<const std::byte> expected, std::span<const std::byte> found, size_t count,
                    Tolerance tolerance, Value value) {
    double squares = 0;
    double difference = 0;
    size_t finite = 0;
    for (size_t i = 0; i < count; ++i) {
        const double a = value(expected, i);
        const double b = value(found, i);
        if (!std::isfinite(a) || !std::isfinite(b)) {
            if (!(a == b || (std::isnan(a) && std::isnan(b)))) {
                return fmt::format("element {} is {:.6g}, expected {:.6g}", i, b, a);
            }
            continue;
        }
        squares += a * a;
        difference += (a - b) * (a - b);
        ++finite;
    }
    if (finite == 0 || difference == 0) {
        return {};
    }
    const double mean = std::sqrt(squares / static_cast<double>(finite));
    for (size_t i = 0; i < count; ++i) {
        const double a = value(expected, i);
        const double b = value(found, i);
        if (std::isfinite(a) && std::abs(a - b) > tolerance.element * (std::abs(a) + mean)) {
            return fmt::format("element {} is {:.6g}, expected {:.6g}", i, b, a);
        }
    }
    if (std::sqrt(difference) > tolerance.norm * std::sqrt(squares)) {
        return fmt::format("the relative norm of the difference is {:.2g}, allowed are {:.2g}",
                           std::sqrt(difference / squares), tolerance.norm);
    }
    return {};
}

} // namespace

std::string disagreement(uint32_t dtype, std::span<const std::byte> expected, std::span<const std::byte> found) {
    // Most configs of most kernels differ in speed alone, and a GPU's tensors have hundreds of millions of elements.
    if (expected.size() == found.size() && std::memcmp(expected.data(), found.data(), expected.size()) == 0) {
        return {};
    }
    const auto units = [](double last_place, double norm, double element) {
        return Tolerance{norm * last_place, element * last_place};
    };
    switch (dtype) {
    case OPDOCK_F32:
        return compare(expected, found, expected.size() / 4, units(0x1p-23, 1024, 16384),
                       [](auto bytes, size_t i) { return static_cast<double>(element<float>(bytes, i)); });
    case OPDOCK_F16:
        return compare(expected, found, expected.size() / 2, units(0x1p-10, 2, 16), [](auto bytes, size_t i) {
            return static_cast<double>(static_cast<float>(element<half_t>(bytes, i)));
        });
    case OPDOCK_BF16:
        return compare(expected, found, expected.size() / 2, units(0x1p-7, 1, 16), [](auto bytes, size_t i) {
            return static_cast<double>(static_cast<float>(element<bfloat16_t>(bytes, i)));
        });
    case OPDOCK_E4M3:
        return compare(expected, found, expected.size(), units(0x1p-3, 0.5, 2),
                       [](auto bytes, size_t i) { return fp8_value(element<uint8_t>(bytes, i), 4, false); });
    case OPDOCK_E5M2:
        return compare(expected, found, expected.size(), units(0x1p-2, 0.5, 2),
                       [](auto bytes, size_t i) { return fp8_value(element<uint8_t>(bytes, i), 5, true); });
    default: {
        const auto different = std::mismatch(expected.begin(), expected.end(), found.begin(), found.end());
        return different.first == expected.end() ? ""
                                                 : fmt::format("byte {} differs", different.first - expected.begin());
    }
    }
}

} // namespace opdock::core
