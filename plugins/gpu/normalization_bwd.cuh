// Shared by the kernels of the backward normalizations: the sums over a row, and the gradient computed from them.
#pragma once

#include "normalization.cuh"

namespace gpu {

enum class Norm { rms, rms_add, layer };

template<class T, class U>
struct BwdArguments {
    int64_t rows, n;
    bool zero_centered;
    const T *grad, *input, *add; // add: only for rms_add
    const float *mu, *rsigma;    // mu: only for layer
    const U *weight;
    T *grad_input;
};

// Adds a row's terms to its two sums: gamma * grad times the (centered) input, and gamma * grad; and to the sums of its
// columns. The normalized input is never computed: `factor` is applied to the sums.
template<Norm norm, int N>
__device__ __forceinline__ void add_to_sums(const float (&grad)[N], const float (&x)[N], const float (&gamma)[N],
                                            float mean, float (&sums)[2]) {
#pragma unroll
    for (int k = 0; k < N; ++k) {
        const float centered = norm == Norm::layer ? x[k] - mean : x[k];
        sums[0] = fmaf(grad[k] * centered, gamma[k], sums[0]);
        if constexpr (norm == Norm::layer) {
            sums[1] = fmaf(grad[k], gamma[k], sums[1]);
        }
    }
}
template<Norm norm, int N>
__device__ __forceinline__ void add_to_columns(const float (&grad)[N], const float (&x)[N], float mean, float factor,
                                               float (&of_weight)[N], float (&of_bias)[N]) {
#pragma unroll
    for (int k = 0; k < N; ++k) {
        const float centered = norm == Norm::layer ? x[k] - mean : x[k];
        of_weight[k] = fmaf(grad[k] * centered, factor, of_weight[k]);
        if constexpr (norm == Norm::layer) {
            of_bias[k] += grad[k];
        }
    }
}

// Values that a row's gradient needs, from the sums over the whole row.
struct RowCoefficients {
    float mean, factor, mean_of_d, of_input;
};
__device__ __forceinline__ RowCoefficients coefficients_of(const float (&sums)[2], float mean, float factor,
                                                           float inverse) {
    return {mean, factor, sums[1] * inverse, sums[0] * inverse * factor * factor};
}
// gamma * grad minus its mean is computed first, so that it is exactly 0 where it should be. For the same reason, the
// product is rounded separately, as it is in the mean of a row of one element.
template<Norm norm, int N>
__device__ __forceinline__ void input_gradient(const float (&grad)[N], const float (&x)[N], const float (&gamma)[N],
                                               const RowCoefficients &row, float (&result)[N]) {
#pragma unroll
    for (int k = 0; k < N; ++k) {
        const float d = grad[k] * gamma[k];
        const float off = norm == Norm::layer ? d - row.mean_of_d : d;
        const float centered = norm == Norm::layer ? x[k] - row.mean : x[k];
        result[k] = row.factor * fmaf(-centered, row.of_input, off);
    }
}

} // namespace gpu
