// Reductions over the threads that share a row: a group of `threads` consecutive threads of a block, a power of two.
//
// The tests compile the same source for the CPU, with warps of 32 and 64 threads; see tests/emulated.
#pragma once

#include "runtime.hpp"

namespace gpu {

// Threads that run in lockstep: 32 on CUDA and RDNA, 64 on CDNA.
__device__ __forceinline__ int warp_size() {
#if defined(__HIP_DEVICE_COMPILE__) || defined(GPU_EMULATED)
    return __AMDGCN_WAVEFRONT_SIZE;
#else
    return 32;
#endif
}

__device__ __forceinline__ float shuffle_xor(float value, int mask) {
#ifdef __HIP__
    return __shfl_xor(value, mask, warp_size());
#else
    return __shfl_xor_sync(0xffffffffu, value, mask);
#endif
}

__device__ __forceinline__ int thread_in_block() {
    return static_cast<int>(threadIdx.x);
}
__device__ __forceinline__ int threads_of_block() {
    return static_cast<int>(blockDim.x);
}
__device__ __forceinline__ void wait_for_block() {
    __syncthreads();
}
// True if `holds` is true for any thread of the block. All threads of the block call it.
__device__ __forceinline__ bool any_of_block(bool holds) {
    return __syncthreads_or(holds ? 1 : 0) != 0;
}
// True if `holds` is true for any thread of the warp. All threads of the warp call it.
__device__ __forceinline__ bool any_of_warp(bool holds) {
#ifdef __HIP__
    return __any(holds ? 1 : 0) != 0;
#else
    return __any_sync(0xffffffffu, holds ? 1 : 0) != 0;
#endif
}

// True if `holds` is true for any group that has to reduce together with this one: those of the block, or of the warp.
// `holds` is the same in all threads of a group.
__device__ __forceinline__ bool any_that_reduces_along(bool holds, int threads) {
    if (threads <= warp_size()) {
        return any_of_warp(holds);
    }
    return threads == threads_of_block() ? holds : any_of_block(holds);
}

// For one value per warp; enough for a block of 1024 threads with the smallest warps.
inline constexpr int most_warps = 32;

struct Sum {
    static __device__ __forceinline__ float of(float a, float b) { return a + b; }
};
// NaN is kept.
struct Largest {
    static __device__ __forceinline__ float of(float a, float b) { return a > b || a != a ? a : b; }
};

// Reduces over `lanes` consecutive threads of a warp, a power of two.
template<class Operation, int count>
__device__ __forceinline__ void reduce_lanes(float (&values)[count], int lanes) {
#pragma unroll
    for (int i = 0; i < count; ++i) {
        for (int mask = lanes / 2; mask > 0; mask /= 2) {
            values[i] = Operation::of(values[i], shuffle_xor(values[i], mask));
        }
    }
}

// The step between a reduction within warps and one among a group's warps: given values that are
// the same in all threads of a warp, each thread gets those of one warp of its group, in turn.
// Returns the group's number of warps. All threads of the block take part, and synchronize once.
template<int count>
__device__ __forceinline__ int exchange_among_warps(float (&values)[count], int threads, float *shared) {
    const int warps = threads / warp_size();
    const int lane = thread_in_block() % warp_size();
    const int warp = thread_in_block() / warp_size();
    if (lane == 0) {
#pragma unroll
        for (int i = 0; i < count; ++i) {
            shared[i * most_warps + warp] = values[i];
        }
    }
    wait_for_block();
    const int from = (warp & -warps) + (lane & (warps - 1)); // powers of two, so no division is needed
#pragma unroll
    for (int i = 0; i < count; ++i) {
        values[i] = shared[i * most_warps + from];
    }
    return warps;
}

// Every thread of a group gets the result, with the same bits. All threads of the block take part, and synchronize only
// once for `count` values. `shared` holds count * most_warps floats. The next reduction must use other memory; the one
// after that may use the same memory again.
template<class Operation, int count>
__device__ __forceinline__ void reduce(float (&values)[count], int threads, float *shared) {
    if (threads < warp_size()) {
        reduce_lanes<Operation>(values, threads);
        return;
    }
    reduce_lanes<Operation>(values, warp_size()); // a constant, so that the loop is unrolled
    if (threads > warp_size()) {
        const int warps = exchange_among_warps(values, threads, shared);
        reduce_lanes<Operation>(values, warps);
    }
}

template<class Operation>
__device__ __forceinline__ float reduce(float value, int threads, float *shared) {
    float values[1] = {value};
    reduce<Operation>(values, threads, shared);
    return values[0];
}

} // namespace gpu
