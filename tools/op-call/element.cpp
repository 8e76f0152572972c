#include "op-call/element.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>

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
T load(const std::byte *elements, size_t index) {
    T value;
    std::memcpy(&value, elements + index * sizeof(T), sizeof(T));
    return value;
}

template<class T>
void store(std::byte *elements, size_t index, T value) {
    std::memcpy(elements + index * sizeof(T), &value, sizeof(T));
}

constexpr uint32_t f64 = OPDOCK_DTYPE(kDLFloat, 64); // in files only

} // namespace

double load_element(uint32_t dtype, const std::byte *elements, size_t index) {
    switch (dtype) {
    case OPDOCK_F32:
        return load<float>(elements, index);
    case OPDOCK_F16:
        return static_cast<float>(load<half_t>(elements, index));
    case OPDOCK_BF16:
        return static_cast<float>(load<bfloat16_t>(elements, index));
    case f64:
        return load<double>(elements, index);
    case OPDOCK_E4M3:
        return decode(e4m3, load<uint8_t>(elements, index));
    case OPDOCK_E5M2:
        return decode(e5m2, load<uint8_t>(elements, index));
    case OPDOCK_I64:
        return static_cast<double>(load<int64_t>(elements, index));
    case OPDOCK_I32:
        return load<int32_t>(elements, index);
    case OPDOCK_U8:
    case OPDOCK_BOOL:
        return load<uint8_t>(elements, index);
    default:
        throw std::invalid_argument("a tensor has a dtype that opdock's tools do not know");
    }
}

void store_element(uint32_t dtype, std::byte *elements, size_t index, double value) {
    switch (dtype) {
    case OPDOCK_F32:
        return store(elements, index, static_cast<float>(value));
    case OPDOCK_F16:
        return store(elements, index, half_t(static_cast<float>(value)));
    case OPDOCK_BF16:
        return store(elements, index, bfloat16_t(static_cast<float>(value)));
    case OPDOCK_E4M3:
        return store(elements, index, encode(e4m3, value));
    case OPDOCK_E5M2:
        return store(elements, index, encode(e5m2, value));
    case OPDOCK_I64:
        return store(elements, index, static_cast<int64_t>(value));
    case OPDOCK_I32:
        return store(elements, index, static_cast<int32_t>(value));
    case OPDOCK_U8:
    case OPDOCK_BOOL:
        return store(elements, index, static_cast<uint8_t>(value));
    default:
        throw std::invalid_argument("a tensor has a dtype that opdock's tools do not know");
    }
}

} // namespace opdock::op_call
