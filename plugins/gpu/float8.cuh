// The 8-bit formats of quantize and dequantize: round to nearest even, saturate, keep NaN.
#pragma once

#include <cstdint>

#include "numbers.cuh"

#ifndef __HIP__
#include <cuda_fp8.h>
#endif

namespace gpu {

#ifdef __HIP__

// `largest`: the format's largest value, as the bits of an f32. Integer arithmetic as in opdock/cpp/float8.hpp.
template<int mantissa_bits, uint32_t bias, uint32_t largest>
__device__ __forceinline__ uint8_t float8_from_f32(float value) {
    constexpr int shift = 23 - mantissa_bits;
    constexpr uint32_t smallest = (128 - bias) << 23;
    constexpr uint32_t step = (128 - bias + static_cast<uint32_t>(shift)) << 23;
    const uint32_t bits = __float_as_uint(value);
    const uint32_t magnitude = bits & 0x7fffffffu;
    const uint32_t within = magnitude > largest ? largest : magnitude;
    const uint32_t odd = (within >> shift) & 1u;
    const uint32_t normal = (within - ((127 - bias) << 23) + (1u << (shift - 1)) - 1u + odd) >> shift;
    const uint32_t subnormal = __float_as_uint(__uint_as_float(within) + __uint_as_float(step)) - step;
    const uint32_t finite = within < smallest ? subnormal : normal;
    return static_cast<uint8_t>(((bits >> 24) & 0x80u) | (magnitude > 0x7f800000u ? 0x7fu : finite));
}

struct e4m3 {
    uint8_t bits;

    static __device__ __forceinline__ e4m3 of(float v) { return {float8_from_f32<3, 7, 0x43e00000u>(v)}; }
    __device__ __forceinline__ float value() const {
        const uint32_t sign = (bits & 0x80u) << 24, magnitude = bits & 0x7fu;
        const uint32_t normal = (magnitude << 20) + (120u << 23);
        const uint32_t subnormal = __float_as_uint(static_cast<float>(magnitude) * 0.001953125f); // 2^-9
        const uint32_t finite = magnitude < 8u ? subnormal : normal;
        return __uint_as_float(sign | (magnitude == 0x7fu ? 0x7fc00000u : finite));
    }
};

// e5m2 is the upper half of an f16.
struct e5m2 {
    uint8_t bits;

    static __device__ __forceinline__ e5m2 of(float v) { return {float8_from_f32<2, 15, 0x47600000u>(v)}; }
    __device__ __forceinline__ float value() const {
        return __half2float(__ushort_as_half(static_cast<unsigned short>(bits << 8)));
    }
};

#else

template<__nv_fp8_interpretation_t format>
struct Float8 {
    uint8_t bits;

    static __device__ __forceinline__ Float8 of(float v) {
        return {static_cast<uint8_t>(__nv_cvt_float_to_fp8(v, __NV_SATFINITE, format))};
    }
    __device__ __forceinline__ float value() const {
        return __half2float(__half(__nv_cvt_fp8_to_halfraw(bits, format)));
    }
};
using e4m3 = Float8<__NV_E4M3>;
using e5m2 = Float8<__NV_E5M2>;

#endif

template<class F, int N>
__device__ __forceinline__ Vector<F, N> narrow8(const float (&from)[N]) {
    Vector<F, N> to;
#ifdef __HIP__
    constexpr int pairs = 0;
#else
    constexpr int pairs = N / 2; // one instruction for two
    constexpr auto format = std::is_same_v<F, e4m3> ? __NV_E4M3 : __NV_E5M2;
#pragma unroll
    for (int i = 0; i < pairs; ++i) {
        reinterpret_cast<__nv_fp8x2_storage_t *>(to.elements)[i] =
            __nv_cvt_float2_to_fp8x2(make_float2(from[2 * i], from[2 * i + 1]), __NV_SATFINITE, format);
    }
#endif
#pragma unroll
    for (int i = 2 * pairs; i < N; ++i) {
        to.elements[i] = F::of(from[i]);
    }
    return to;
}

// Calls visit(Type<F>) for the format that `dtype` names: e4m3 or e5m2.
template<class Visitor>
opdock::Status visit_float8(DLDataType dtype, Visitor &&visit) {
    switch (opdock_dtype_pack(dtype)) {
    case OPDOCK_E4M3:
        return visit(Type<e4m3>{});
    case OPDOCK_E5M2:
        return visit(Type<e5m2>{});
    default:
        return opdock::unsupported("expected e4m3 or e5m2, found " + opdock::dtype_name(dtype));
    }
}

} // namespace gpu
