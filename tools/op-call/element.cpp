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

// The small floating-point formats of OCP.
struct SmallFloat {
    int mantissa_bits;
    int bias;
    double largest;
    int sign;     // the sign bit; the bits below it are the magnitude
    int infinity; // magnitudes from here on are infinity (this one) and NaN, or all NaN
    bool has_infinity;
};
constexpr SmallFloat e4m3 = {3, 7, 448.0, 0x80, 0x7f, false};
constexpr SmallFloat e5m2 = {2, 15, 57344.0, 0x80, 0x7c, true};
constexpr SmallFloat e2m1 = {1, 1, 6.0, 0x8, 0x8, false};

double decode(const SmallFloat &format, int bits) {
    const int magnitude = bits & (format.sign - 1);
    const double sign = (bits & format.sign) != 0 ? -1.0 : 1.0;
    if (magnitude >= format.infinity) {
        return format.has_infinity && magnitude == format.infinity ? sign * std::numeric_limits<double>::infinity()
                                                                   : std::numeric_limits<double>::quiet_NaN();
    }
    const int exponent = magnitude >> format.mantissa_bits;
    const int mantissa = magnitude & ((1 << format.mantissa_bits) - 1);
    const int implicit = exponent == 0 ? 0 : 1 << format.mantissa_bits;
    return sign * std::ldexp(implicit + mantissa, std::max(exponent, 1) - format.bias - format.mantissa_bits);
}

// NaN has all bits set; in a format without NaN, that is the largest number.
int encode(const SmallFloat &format, double value) {
    const int sign = std::signbit(value) ? format.sign : 0;
    if (std::isnan(value)) {
        return sign | (format.sign - 1);
    }
    const double magnitude = std::min(std::fabs(value), format.largest);
    const int smallest = 1 - format.bias; // also the subnormals' exponent
    const int exponent = magnitude == 0 ? smallest : std::max(std::ilogb(magnitude), smallest);
    // In units of the last place; a mantissa that rounds up to the next power of two carries into the exponent.
    const int units = static_cast<int>(std::nearbyint(std::ldexp(magnitude, format.mantissa_bits - exponent)));
    return sign | (units + ((exponent + format.bias - 1) << format.mantissa_bits));
}

template<class T>
struct Codec {
    static double load(const std::byte *elements, size_t index) {
        T value;
        std::memcpy(&value, elements + index * sizeof value, sizeof value);
        if constexpr (std::is_arithmetic_v<T>) {
            return static_cast<double>(value);
        } else {
            return static_cast<float>(value);
        }
    }
    static void store(std::byte *elements, size_t index, double value) {
        T stored;
        if constexpr (std::is_arithmetic_v<T>) {
            stored = static_cast<T>(value);
        } else {
            stored = T(static_cast<float>(value));
        }
        std::memcpy(elements + index * sizeof stored, &stored, sizeof stored);
    }
};

template<const SmallFloat &format>
struct Fp8Codec {
    static double load(const std::byte *elements, size_t index) {
        return decode(format, std::to_integer<int>(elements[index]));
    }
    static void store(std::byte *elements, size_t index, double value) {
        elements[index] = static_cast<std::byte>(encode(format, value));
    }
};

// A power of two, or NaN.
struct E8m0Codec {
    static double load(const std::byte *elements, size_t index) {
        const int exponent = std::to_integer<int>(elements[index]);
        return exponent == 255 ? std::numeric_limits<double>::quiet_NaN() : std::ldexp(1.0, exponent - 127);
    }
    // Rounds the exponent to nearest; a value that is not positive becomes the smallest.
    static void store(std::byte *elements, size_t index, double value) {
        const double exponent = value > 0 ? std::nearbyint(std::log2(value)) + 127 : 0;
        elements[index] = std::isnan(value) ? std::byte{255} : static_cast<std::byte>(std::clamp(exponent, 0.0, 254.0));
    }
};

// Two values in a byte, the first one in the low bits.
template<class Value>
struct PairCodec {
    static double load(const std::byte *elements, size_t index) {
        return Value::decode(std::to_integer<int>(elements[index / 2] >> shift(index)) & 0xf);
    }
    static void store(std::byte *elements, size_t index, double value) {
        const std::byte bits = static_cast<std::byte>(Value::encode(value) & 0xf) << shift(index);
        std::byte &element = elements[index / 2];
        element = (element & ~(std::byte{0xf} << shift(index))) | bits;
    }
    static int shift(size_t index) { return index % 2 == 0 ? 0 : 4; }
};

struct E2m1Value {
    static double decode(int bits) { return op_call::decode(e2m1, bits); }
    static int encode(double value) { return op_call::encode(e2m1, value); }
};
struct I4Value {
    static double decode(int bits) { return bits < 8 ? bits : bits - 16; }
    static int encode(double value) { return static_cast<int>(value); }
};
struct U4Value {
    static double decode(int bits) { return bits; }
    static int encode(double value) { return static_cast<int>(value); }
};

template<class Visit>
auto with_codec(uint32_t dtype, Visit visit) {
    switch (dtype) {
    case OPDOCK_F32:
        return visit(Codec<float>());
    case OPDOCK_F16:
        return visit(Codec<half_t>());
    case OPDOCK_BF16:
        return visit(Codec<bfloat16_t>());
    case OPDOCK_F64:
        return visit(Codec<double>());
    case OPDOCK_E4M3:
        return visit(Fp8Codec<e4m3>());
    case OPDOCK_E5M2:
        return visit(Fp8Codec<e5m2>());
    case OPDOCK_E8M0:
        return visit(E8m0Codec());
    case OPDOCK_E2M1X2:
        return visit(PairCodec<E2m1Value>());
    case OPDOCK_I4X2:
        return visit(PairCodec<I4Value>());
    case OPDOCK_U4X2:
        return visit(PairCodec<U4Value>());
    case OPDOCK_I64:
        return visit(Codec<int64_t>());
    case OPDOCK_I32:
        return visit(Codec<int32_t>());
    case OPDOCK_I16:
        return visit(Codec<int16_t>());
    case OPDOCK_I8:
        return visit(Codec<int8_t>());
    case OPDOCK_U64:
        return visit(Codec<uint64_t>());
    case OPDOCK_U32:
        return visit(Codec<uint32_t>());
    case OPDOCK_U16:
        return visit(Codec<uint16_t>());
    case OPDOCK_U8:
    case OPDOCK_BOOL:
        return visit(Codec<uint8_t>());
    default:
        throw std::invalid_argument("a tensor has a dtype that opdock's tools do not know");
    }
}

} // namespace

bool is_integer(uint32_t dtype) {
    const uint8_t code = opdock_dtype_unpack(dtype).code;
    return code == kDLInt || code == kDLUInt || code == OPDOCK_DL_BOOL;
}

std::pair<double, double> integers_of(uint32_t dtype) {
    if (dtype == OPDOCK_BOOL) {
        return {0, 2};
    }
    const DLDataType type = opdock_dtype_unpack(dtype);
    const bool has_sign = type.code == kDLInt;
    const double past = std::ldexp(1.0, std::min(type.bits - (has_sign ? 1 : 0), 53));
    return {has_sign ? -past : 0, past};
}

double load_element(uint32_t dtype, const std::byte *elements, size_t index) {
    return with_codec(dtype, [&](auto codec) { return codec.load(elements, index); });
}

void store_element(uint32_t dtype, std::byte *elements, size_t index, double value) {
    with_codec(dtype, [&](auto codec) { codec.store(elements, index, value); });
}

std::vector<double> load_elements(uint32_t dtype, const std::byte *elements, size_t count) {
    std::vector<double> values(count);
    with_codec(dtype, [&](auto codec) {
        for (size_t i = 0; i < count; ++i) {
            values[i] = codec.load(elements, i);
        }
    });
    return values;
}

void store_elements(uint32_t dtype, std::byte *elements, std::span<const double> values) {
    with_codec(dtype, [&](auto codec) {
        for (size_t i = 0; i < values.size(); ++i) {
            codec.store(elements, i, values[i]);
        }
    });
}

} // namespace opdock::op_call
