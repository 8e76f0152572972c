// The part of HIP's f16 that the kernels use.
#pragma once

#include <hip/hip_runtime.h>

#include "opdock/cpp/floats.hpp"

using __half = opdock::half_t;

inline float __half2float(__half value) {
    return static_cast<float>(value);
}
inline __half __float2half_rn(float value) {
    return __half(value);
}
inline __half __ushort_as_half(unsigned short bits) {
    __half value;
    value.bits = bits;
    return value;
}
