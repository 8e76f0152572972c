// The activations of opdock/ops/activation.h: value(x), its derivative slope(x), and both at once.
#pragma once

#include "runtime.hpp"

namespace gpu {

struct ValueAndSlope {
    float value, slope;
};

// 1 / (1 + e^-x), with the exponential of a number that is not positive: the
// denominator is in [1, 2], where the fast division is exact enough, and far below 0
// the result is e^x. The fast exponential is within 2 units in the last place there.
__device__ __forceinline__ float sigmoid(float x) {
    const float e = __expf(-fabsf(x));
    return __fdividef(x >= 0.0f ? 1.0f : e, 1.0f + e);
}

struct Relu {
    static __device__ __forceinline__ float value(float x) { return x < 0.0f ? 0.0f : x; } // keeps NaN
    static __device__ __forceinline__ ValueAndSlope both(float x) { return {value(x), x > 0.0f ? 1.0f : 0.0f}; }
};

struct Srelu {
    static __device__ __forceinline__ float value(float x) { return both(x).value; }
    static __device__ __forceinline__ ValueAndSlope both(float x) {
        const float positive = Relu::value(x);
        return {positive * positive, 2.0f * positive};
    }
};

struct Silu {
    static __device__ __forceinline__ float value(float x) { return x * sigmoid(x); }
    static __device__ __forceinline__ ValueAndSlope both(float x) {
        const float s = sigmoid(x);
        return {x * s, s + x * s * (1.0f - s)};
    }
};

struct Qgelu {
    static __device__ __forceinline__ float value(float x) { return x * sigmoid(1.702f * x); }
    static __device__ __forceinline__ ValueAndSlope both(float x) {
        const float s = sigmoid(1.702f * x);
        return {x * s, s + x * s * (1.0f - s) * 1.702f};
    }
};

// The tanh form as x sigmoid(2u) with u = sqrt(2/pi) (x + 0.044715 x^3):
// the same function, without the cancellation in 1 + tanh for negative x.
struct Gelu {
    static constexpr float two_root = 1.5957691216f; // 2 sqrt(2/pi)
    static constexpr float cubic = 0.044715f;

    static __device__ __forceinline__ float gate(float x) {
        return sigmoid(x * fmaf(x * x, two_root * cubic, two_root));
    }
    static __device__ __forceinline__ float value(float x) { return x * gate(x); }
    static __device__ __forceinline__ ValueAndSlope both(float x) {
        // Past 16 the gate and the slope are 0 or 1 in f32. Without the limit, an infinite x^2
        // could be multiplied by a gate of 0.
        const float near = x != x ? x : fminf(fmaxf(x, -16.0f), 16.0f);
        const float s = gate(near);
        const float slope_of_2u = fmaf(near * near, 3.0f * two_root * cubic, two_root);
        return {x * s, s + near * s * (1.0f - s) * slope_of_2u};
    }
};

} // namespace gpu
