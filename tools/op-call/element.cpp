#include "op-call/element.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <type_traits>

#include "opdock/abi/dtype.h"
#include "opdock/cpp/floats.hpp"

namespace opdock::op_call {
namespace {

// The two fp8 formats of OCP.
struct Fp8 {
    int mantissa_bits;
    int bias;
    double largest;
    uint8_t infinity; // magnitudes from here on are infinity (this one) and NaN, or only NaN
    bool has_infinity;
};
constexpr Fp8 e4m3 = {3, 7, 448.0, 0x7f, false};
constexpr Fp8 e5m2 = {2, 15, 57344.0, 0x7c, true};

double decode(const Fp8 &format, uint8_t bits) {
    const int magnitude = bits & 0x7f;
    const double sign = (bits & 0x80) != 0 ? -1.0 : 1.0;
    if (magnitude >= format.infinity) {
        return format.has_infinity && magnitude == format.infinity ? sign * std::numeric_limits<double>::infinity()
                                                                   : std::numeric_limits<double>::quiet_NaN();
    }
    const int exponent = magnitude >> format.mantissa_bits;
    const int mantissa = magnitude & ((1 << format.mantissa_bits) - 1);
    const int implicit = exponent == 0 ? 0 : 1 << format.mantissa_bits;
    return sign * std::ldexp(implicit + mantissa, std::max(exponent, 1) - format.bias - format.mantissa_bits);
}

uint8_t encode(const Fp8 &format, double value) {
    const int sign = std::signbit(value) ? 0x80 : 0;
    if (std::isnan(value)) {
        return static_cast<uint8_t>(sign | 0x7f);
    }
    const double magnitude = std::min(std::fabs(value), format.largest);
    const int smallest = 1 - format.bias; // the subnormals' exponent too
    const int exponent = magnitude == 0 ? smallest : std::max(std::ilogb(magnitude), smallest);
    // In units of the last place; a mantissa that rounds up to the next power of two carries into the exponent.
    const int units = static_cast<int>(std::nearbyint(std::ldexp(magnitude, format.mantissa_bits - exponent)));
    return static_cast<uint8_t>(sign | (units + ((exponent + format.bias - 1) << format.mantissa_bits)));
}

template<class T>
struct Codec {
    static double load(const std::byte *element) {
        T value;
        std::memcpy(&value, element, sizeof value);
        if constexpr (std::is_arithmetic_v<T>) {
            return static_cast<double>(value);
        } else {
            return static_cast<float>(value);
        }
    }
    static void store(std::byte *element, double value) {
        T stored;
        if constexpr (std::is_arithmetic_v<T>) {
            stored = static_cast<T>(value);
        } else {
            stored = T(static_cast<float>(value));
        }
        std::memcpy(element, &stored, sizeof stored);
    }
    static constexpr size_t size = sizeof(T);
};

template<const Fp8 &format>
struct Fp8Codec {
    static double load(const std::byte *element) { return decode(format, std::to_integer<uint8_t>(*element)); }
    static void store(std::byte *element, double value) { *element = std::byte{encode(format, value)}; }
    static constexpr size_t size = 1;
};

constexpr uint32_t f64 = OPDOCK_DTYPE(kDLFloat, 64); // in files only

template<class Visit>
auto with_codec(uint32_t dtype, Visit visit) {
    switch (dtype) {
    case OPDOCK_F32:
        return visit(Codec<float>());
    case OPDOCK_F16:
        return visit(Codec<half_t>());
    case OPDOCK_BF16:
        return visit(Codec<bfloat16_t>());
    case f64:
        return visit(Codec<double>());
    case OPDOCK_E4M3:
        return visit(Fp8Codec<e4m3>());
    case OPDOCK_E5M2:
        return visit(Fp8Codec<e5m2>());
    case OPDOCK_I64:
        return visit(Codec<int64_t>());
    case OPDOCK_I32:
        return visit(Codec<int32_t>());
    case OPDOCK_U8:
    case OPDOCK_BOOL:
        return visit(Codec<uint8_t>());
    default:
        throw std::invalid_argument("a tensor has a dtype that opdock's tools do not know");
    }
}

} // namespace

double load_element(uint32_t dtype, const std::byte *elements, size_t index) {
    return with_codec(dtype, [&](auto codec) { return codec.load(elements + index * codec.size); });
}

void store_element(uint32_t dtype, std::byte *elements, size_t index, double value) {
    with_codec(dtype, [&](auto codec) { codec.store(elements + index * codec.size, value); });
}

std::vector<double> load_elements(uint32_t dtype, const std::byte *elements, size_t count) {
    std::vector<double> values(count);
    with_codec(dtype, [&](auto codec) {
        for (size_t i = 0; i < count; ++i) {
            values[i] = codec.load(elements + i * codec.size);
        }
    });
    return values;
}

void store_elements(uint32_t dtype, std::byte *elements, std::span<const double> values) {
    with_codec(dtype, [&](auto codec) {
        for (size_t i = 0; i < values.size(); ++i) {
            codec.store(elements + i * codec.size, values[i]);
        }
    });
}

} // namespace opdock::op_call
