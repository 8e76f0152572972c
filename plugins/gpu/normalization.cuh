// What the forward and the backward normalizations share.
#pragma once

#include "numbers.cuh"

namespace gpu {

// N elements of g: the weight, or 1 + weight.
template<int N, class U>
__device__ __forceinline__ void load_gamma(const U *weight, int64_t i, bool zero_centered, float (&gamma)[N]) {
    load<N>(weight + i, gamma);
    if (zero_centered) {
#pragma unroll
        for (int k = 0; k < N; ++k) {
            gamma[k] += 1.0f;
        }
    }
}

} // namespace gpu
