// The part of HIP that kernels and their launches use, on the CPU: kernels are functions that block.hpp runs, and a
// call's tensors stay where the tests placed them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "../block.hpp"

#define GPU_EMULATED

// --- the language ----------------------------------------------------------------------------------------------------

#define __host__
#define __device__
#define __global__
#define __forceinline__ inline
#define __noinline__ // the standard library uses it as an attribute, which is then empty
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
// Static memory of a function, with or without `extern`. Thread-local
// in the program, since the threads of a block share it.
#define __shared__ thread_local

#define threadIdx emulated::thread_index
#define blockIdx emulated::block_index
#define blockDim emulated::block_size
#define gridDim emulated::grid_size
#define __AMDGCN_WAVEFRONT_SIZE emulated::warp_size

struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(16) int4 {
    int x, y, z, w;
};
struct alignas(8) uint2 {
    unsigned x, y;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};

inline void __syncthreads() {
    emulated::wait_for_block();
}
inline int __syncthreads_or(int holds) {
    return emulated::any_of_block(holds != 0) ? 1 : 0;
}
inline int __any(int holds) {
    return emulated::any_of_warp(holds != 0) ? 1 : 0;
}
inline unsigned long long __ballot(int holds) {
    return emulated::ballot(holds != 0);
}

namespace emulated {

inline int lane() {
    return static_cast<int>(thread_index.x) % warp_size;
}

template<class T>
T shuffled(T value, int from) {
    static_assert(sizeof(T) <= sizeof(std::uint64_t));
    std::uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof value);
    bits = value_of_lane(bits, from);
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

} // namespace emulated

// Shuffles within parts of a warp, of `width` threads; a thread whose source is outside its part gets its own value.
template<class T>
T __shfl(T value, int from, int width) {
    return emulated::shuffled(value, (from & (width - 1)) + (emulated::lane() & -width));
}
template<class T>
T __shfl_up(T value, unsigned by, int width) {
    const int from = emulated::lane() - static_cast<int>(by);
    return emulated::shuffled(value, from < (emulated::lane() & -width) ? emulated::lane() : from);
}
template<class T>
T __shfl_xor(T value, int mask, int width) {
    const int from = emulated::lane() ^ mask;
    return emulated::shuffled(value, from >= ((emulated::lane() + width) & -width) ? emulated::lane() : from);
}

// Needs no synchronization, since threads only switch where they wait.
template<class T>
T atomicAdd(T *to, T value) {
    const T before = *to;
    *to = before + value;
    return before;
}
template<class T>
T atomicMin(T *to, T value) {
    const T before = *to;
    *to = std::min(before, value);
    return before;
}
template<class T>
T atomicMax(T *to, T value) {
    const T before = *to;
    *to = std::max(before, value);
    return before;
}

// --- numbers ---------------------------------------------------------------------------------------------------------

using std::isinf;
using std::isnan;
using std::max;
using std::min;

inline unsigned __float_as_uint(float value) {
    unsigned bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}
inline int __float_as_int(float value) {
    return static_cast<int>(__float_as_uint(value));
}
inline float __uint_as_float(unsigned bits) {
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}
inline float __expf(float x) {
    return expf(x);
}
inline float rsqrtf(float x) {
    return 1.0f / sqrtf(x);
}
inline float __fdiv_rn(float a, float b) {
    return a / b;
}
inline float __fdividef(float a, float b) {
    return a / b;
}
inline int __float2int_rn(float value) { // to nearest even, saturating; NaN gives 0
    const float rounded = rintf(value);
    return rounded != rounded          ? 0
           : rounded >= 2147483648.0f  ? INT32_MAX
           : rounded <= -2147483648.0f ? INT32_MIN
                                       : static_cast<int>(rounded);
}
inline unsigned __umulhi(unsigned a, unsigned b) {
    return static_cast<unsigned>(static_cast<std::uint64_t>(a) * b >> 32);
}
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    __extension__ using Wide = unsigned __int128;
    return static_cast<unsigned long long>(static_cast<Wide>(a) * b >> 64);
}
inline int __popcll(unsigned long long bits) {
    return __builtin_popcountll(bits);
}
inline int __clz(int bits) {
    return bits == 0 ? 32 : __builtin_clz(static_cast<unsigned>(bits));
}

// --- the runtime -----------------------------------------------------------------------------------------------------

enum hipError_t {
    hipSuccess = 0,
    hipErrorInvalidValue = 1,
    hipErrorMemoryAllocation = 2,
    hipErrorIllegalAddress = 700,
    hipErrorAssert = 710,
    hipErrorLaunchFailure = 719,
};

struct dim3 {
    unsigned x, y, z;
    explicit dim3(unsigned x_, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};

using hipStream_t = struct EmulatedStream *;
enum hipFuncAttribute { hipFuncAttributeMaxDynamicSharedMemorySize };

hipError_t hipGetLastError();
const char *hipGetErrorName(hipError_t error);
const char *hipGetErrorString(hipError_t error);
hipError_t hipSetDevice(int device);

// Both are done on return.
hipError_t hipMemsetAsync(void *memory, int byte, std::size_t bytes, hipStream_t stream);
hipError_t hipFuncSetAttribute(const void *kernel, hipFuncAttribute attribute, int value);
// `kernel` is a std::function<void()> that holds its arguments; launch.hpp makes it.
hipError_t hipLaunchKernel(const void *kernel, dim3 blocks, dim3 threads, void **arguments, std::size_t shared_bytes,
                           hipStream_t stream);
