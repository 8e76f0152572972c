// Shared by the forward and the backward normalizations.
#pragma once

#include "numbers.cuh"

namespace gpu {

// Turns N elements of the weight into gamma: the weight itself, or 1 + weight.
template<int N>
__device__ __forceinline__ void to_gamma(bool zero_centered, float (&weight)[N]) {
    if (zero_centered) {
#pragma unroll
        for (int k = 0; k < N; ++k) {
            weight[k] += 1.0f;
        }
    }
}
template<int N, class U>
__device__ __forceinline__ void load_gamma(const U *weight, int64_t i, bool zero_centered, float (&gamma)[N]) {
    load<N>(weight + i, gamma);
    to_gamma(zero_centered, gamma);
}

} // namespace gpu
