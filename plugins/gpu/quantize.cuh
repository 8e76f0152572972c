// 8-bit elements with a scale: shared by quantize_per_token and the blockwise and fused quantizations.
#pragma once

#include "float8.cuh"
#include "reduce.cuh"

namespace gpu {

enum class Code { to_i8, to_e4m3, to_e5m2 };

__device__ __forceinline__ float largest_of(Code code) {
    return code == Code::to_i8 ? 127.0f : code == Code::to_e4m3 ? 448.0f : 57344.0f;
}

__device__ __forceinline__ uint8_t coded(Code code, float v) {
    switch (code) {
    case Code::to_i8: // NaN becomes 0
        return static_cast<uint8_t>(v != v ? 0 : __float2int_rn(fminf(fmaxf(v, -127.0f), 127.0f)));
    case Code::to_e4m3:
        return e4m3::of(v).bits;
    case Code::to_e5m2:
        break;
    }
    return e5m2::of(v).bits;
}

template<int N>
__device__ __forceinline__ void raise(float &largest, const float (&values)[N]) {
#pragma unroll
    for (int k = 0; k < N; ++k) {
        largest = Largest::of(largest, fabsf(values[k]));
    }
}

template<int N>
__device__ __forceinline__ void store_coded(uint8_t *output, Code code, float scale, const float (&values)[N]) {
    Vector<uint8_t, N> to;
#pragma unroll
    for (int k = 0; k < N; ++k) {
        to.elements[k] = coded(code, scale == 0.0f ? 0.0f : __fdiv_rn(values[k], scale));
    }
    *reinterpret_cast<Vector<uint8_t, N> *>(output) = to;
}

inline Code code_of(DLDataType dtype) {
    switch (opdock_dtype_pack(dtype)) {
    case OPDOCK_I8:
        return Code::to_i8;
    case OPDOCK_E4M3:
        return Code::to_e4m3;
    default: // the host requests no other
        return Code::to_e5m2;
    }
}

} // namespace gpu
