// Sums of exponentials, for softmax and its logarithm: in one pass over a row, whatever its largest element is.
#pragma once

#include <cmath>

#include "reduce.cuh"

namespace gpu {

inline constexpr float log2_e = 1.44269504088896341f;

// 2^x within 2 units in the last place; 0 where that would be denormal.
__device__ __forceinline__ float exp2_of(float x) {
#ifdef __HIP__
    return exp2f(x);
#else
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#endif
}

// The elements x seen so far: their largest, and the sum of 2^(factor (x - largest)). The factor is not negative.
//
// Differences are taken before the factor is applied, so that they are exact near the largest element.
struct ExpSum {
    float largest = -INFINITY;
    float sum = 0.0f;

    // Takes in N elements except those whose bit is set in `hidden`.
    template<int N>
    __device__ __forceinline__ void add(const float (&x)[N], float factor, unsigned hidden = 0) {
        float best = -INFINITY;
#pragma unroll
        for (int k = 0; k < N; ++k) {
            best = fmaxf(best, (hidden >> k & 1) != 0 ? -INFINITY : x[k]);
        }
        if (best > largest) {
            sum = rescaled(largest, best, factor);
            largest = best;
        }
        // Exponentials of minus infinity are 0 from anywhere, but not a number from minus infinity itself.
        const float from = largest == -INFINITY ? 0.0f : largest;
        float added = 0.0f;
#pragma unroll
        for (int k = 0; k < N; ++k) {
            added += (hidden >> k & 1) != 0 ? 0.0f : exp2_of((x[k] - from) * factor);
        }
        sum += added;
    }

    // The sum relative to another element. 0 stays 0, also where infinities meet.
    __device__ __forceinline__ float rescaled(float from, float to, float factor) const {
        return sum == 0.0f ? 0.0f : sum * exp2_of((from - to) * factor);
    }
};

// What all threads of a group have seen together, and the sum of what each of them brings as `other`. `shared` holds
// 2 * most_warps floats.
__device__ __forceinline__ ExpSum reduce_exp_sum(ExpSum mine, float &other, float factor, int threads, float *shared) {
    const float largest = reduce<Largest>(mine.largest, threads, shared);
    float sums[2] = {mine.rescaled(mine.largest, largest, factor), other};
    reduce<Sum>(sums, threads, shared);
    other = sums[1];
    mine.largest = largest;
    mine.sum = sums[0];
    return mine;
}

} // namespace gpu
