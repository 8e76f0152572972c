// Elements as kernels see them: f32 in registers; f32, f16 or bf16 in memory, accessed 16 bytes at a time.
#pragma once

#include <cstdint>
#include <type_traits>

#include "runtime.hpp"

#ifdef __HIP__
#include <hip/hip_fp16.h>
#else
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

namespace gpu {

using f16 = __half;
#ifdef __HIP__
struct bf16 {
    uint16_t bits;
};
#else
using bf16 = __nv_bfloat16;
#endif

__device__ __forceinline__ float to_f32(float v) {
    return v;
}
__device__ __forceinline__ float to_f32(f16 v) {
    return __half2float(v);
}

template<class T>
__device__ __forceinline__ T from_f32(float v);
template<>
__device__ __forceinline__ float from_f32<float>(float v) {
    return v;
}
template<>
__device__ __forceinline__ f16 from_f32<f16>(float v) {
    return __float2half_rn(v);
}

#ifdef __HIP__
__device__ __forceinline__ float to_f32(bf16 v) {
    return __uint_as_float(static_cast<uint32_t>(v.bits) << 16);
}
template<>
__device__ __forceinline__ bf16 from_f32<bf16>(float v) {
    const uint32_t bits = __float_as_uint(v);
    const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
    const uint32_t rounded = nan ? bits | 0x00400000u : bits + 0x7fffu + ((bits >> 16) & 1u);
    return {static_cast<uint16_t>(rounded >> 16)};
}
#else
__device__ __forceinline__ float to_f32(bf16 v) {
    return __bfloat162float(v);
}
template<>
__device__ __forceinline__ bf16 from_f32<bf16>(float v) {
    return __float2bfloat16_rn(v);
}
#endif

// The type that one access of `bytes` bytes reads or writes.
template<int bytes>
struct Access;
template<>
struct Access<1> {
    using type = uint8_t;
};
template<>
struct Access<2> {
    using type = uint16_t;
};
template<>
struct Access<4> {
    using type = uint32_t;
};
template<>
struct Access<8> {
    using type = uint2;
};
template<>
struct Access<16> {
    using type = uint4;
};

// N elements, of at most 16 bytes, that are read and written at once. Copying is explicit: for the
// class types of 16-bit numbers, the compiler would copy element by element, with eight accesses.
template<class T, int N>
struct alignas(sizeof(T) * N) Vector {
    using Bytes = typename Access<static_cast<int>(sizeof(T)) * N>::type;

    T elements[N];

    Vector() = default;
    __device__ __forceinline__ Vector(const Vector &other) { *this = other; }
    __device__ __forceinline__ Vector &operator=(const Vector &other) {
        *reinterpret_cast<Bytes *>(elements) = *reinterpret_cast<const Bytes *>(other.elements);
        return *this;
    }
};

// Number of T elements in 16 bytes.
template<class T>
inline constexpr int wide = 16 / static_cast<int>(sizeof(T));

template<class T, int N>
__device__ __forceinline__ void widen(Vector<T, N> from, float (&to)[N]) {
    if constexpr (std::is_same_v<T, bf16> &&
                  N % 2 == 0) { // one instruction each; element by element it takes one and a half
        const auto *words = reinterpret_cast<const uint32_t *>(from.elements);
#pragma unroll
        for (int i = 0; i < N; i += 2) {
            to[i] = __uint_as_float(words[i / 2] << 16);
            to[i + 1] = __uint_as_float(words[i / 2] & 0xffff0000u);
        }
    } else {
#pragma unroll
        for (int i = 0; i < N; ++i) {
            to[i] = to_f32(from.elements[i]);
        }
    }
}

template<class T, int N>
__device__ __forceinline__ Vector<T, N> narrow(const float (&from)[N]) {
    Vector<T, N> to;
#pragma unroll
    for (int i = 0; i < N; ++i) {
        to.elements[i] = from_f32<T>(from[i]);
    }
    return to;
}

#ifndef __HIP__
// Converts two elements at a time, with one instruction.
template<>
__device__ __forceinline__ Vector<bf16, 8> narrow<bf16, 8>(const float (&from)[8]) {
    Vector<bf16, 8> to;
    auto *pairs = reinterpret_cast<__nv_bfloat162 *>(to.elements);
#pragma unroll
    for (int i = 0; i < 8; i += 2) {
        pairs[i / 2] = __floats2bfloat162_rn(from[i], from[i + 1]);
    }
    return to;
}
#endif

// Read and write N elements at p, which is aligned to N elements. More than 16 bytes take several accesses.
template<int N, class T>
__device__ __forceinline__ void load(const T *p, float (&to)[N]) {
    if constexpr (sizeof(T) * N <= 16) {
        widen(*reinterpret_cast<const Vector<T, N> *>(p), to);
    } else {
        constexpr int step = wide<T>;
        float(&parts)[N / step][step] = reinterpret_cast<float(&)[N / step][step]>(to);
#pragma unroll
        for (int i = 0; i < N / step; ++i) {
            widen(reinterpret_cast<const Vector<T, step> *>(p)[i], parts[i]);
        }
    }
}
template<int N, class T>
__device__ __forceinline__ void store(T *p, const float (&from)[N]) {
    if constexpr (sizeof(T) * N <= 16) {
        *reinterpret_cast<Vector<T, N> *>(p) = narrow<T, N>(from);
    } else {
        constexpr int step = wide<T>;
        const float(&parts)[N / step][step] = reinterpret_cast<const float(&)[N / step][step]>(from);
#pragma unroll
        for (int i = 0; i < N / step; ++i) {
            reinterpret_cast<Vector<T, step> *>(p)[i] = narrow<T, step>(parts[i]);
        }
    }
}

// Rounds `value` to a T.
template<class T>
__device__ __forceinline__ float rounded(float value) {
    return to_f32(from_f32<T>(value));
}

// Calls visit(Type<T>) for the T that `dtype` names. The host requests no other.
template<class T>
struct Type {
    using type = T;
};
template<class Visitor>
opdock::Status visit_floating(DLDataType dtype, Visitor &&visit) {
    switch (opdock_dtype_pack(dtype)) {
    case OPDOCK_F32:
        return visit(Type<float>{});
    case OPDOCK_F16:
        return visit(Type<f16>{});
    case OPDOCK_BF16:
        return visit(Type<bf16>{});
    default:
        return opdock::unsupported("expected f32, f16 or bf16, found " + opdock::dtype_name(dtype));
    }
}
// Calls visit(Type<T>, Type<U>), where U is T or float.
template<class Visitor>
opdock::Status visit_weighted(DLDataType t, DLDataType u, Visitor &&visit) {
    return visit_floating(t, [&](auto tag) {
        return opdock_dtype_pack(u) == opdock_dtype_pack(t) ? visit(tag, tag) : visit(tag, Type<float>{});
    });
}

} // namespace gpu
