// Shared by the kernels of attention_bwd: their arguments, preparatory kernels, and the slopes of scores.
#pragma once

#include <cstdint>
#include <type_traits>

#include "attention.cuh"
#include "launch.hpp"

namespace gpu {

template<class T>
struct BackwardArguments {
    Attention attention;
    float scale;
    HeadRows<const T> grad, query, key, value, output;
    HeadNumbers<const float> lse;
    HeadNumbers<const T> bias;
    HeadRows<T> grad_query, grad_key, grad_value;
    HeadNumbers<T> grad_bias;
    HeadNumbers<float> projections; // dot products of output gradients and outputs

    // The log sum that a query's scores are relative to; infinite for a query that contributes nothing.
    __device__ __forceinline__ float log_sum_of(const Sequence &one, int head, int i) const {
        if (i >= one.queries) {
            return INFINITY;
        }
        const float natural = lse.at(one.batch, head, one.query + i);
        return natural == -INFINITY ? INFINITY : natural * log2_e;
    }
    __device__ __forceinline__ float projection_of(const Sequence &one, int head, int i) const {
        return i < one.queries ? projections.at(one.batch, head, one.query + i) : 0.0f;
    }
};

// Each row has `lanes` threads, at least one for every eight elements.
template<class T>
__global__ void __launch_bounds__(256) projections_kernel(GPU_READ_ONLY const BackwardArguments<T> all, int lanes) {
    wait_for_earlier_kernels();
    const Attention &a = all.attention;
    const int64_t rows = static_cast<int64_t>(a.batches) * a.queries * a.heads;
    const int64_t row = (static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x) / lanes;
    const int at = static_cast<int>(threadIdx.x) % lanes * 8;
    const int64_t known = min(row, rows - 1); // all threads take part in the sums
    const auto head = static_cast<int>(known % a.heads);
    const int64_t token = known / a.heads % a.queries, batch = known / a.heads / a.queries;
    const T *grad = all.grad.row(batch, token, head), *output = all.output.row(batch, token, head);
    float one[8] = {}, other[8] = {}, sum[1] = {0.0f};
    if (at < a.e) {
        if (at + 8 <= a.e && all.grad.vectors && all.output.vectors) {
            load<8>(grad + at, one);
            load<8>(output + at, other);
        } else {
#pragma unroll
            for (int k = 0; k < 8; ++k) {
                one[k] = at + k < a.e ? to_f32(grad[at + k]) : 0.0f;
                other[k] = at + k < a.e ? to_f32(output[at + k]) : 0.0f;
            }
        }
    }
#pragma unroll
    for (int k = 0; k < 8; ++k) {
        sum[0] = fmaf(one[k], other[k], sum[0]);
    }
    reduce_lanes<Sum>(sum, lanes);
    if (at == 0 && row < rows) {
        all.projections.at(batch, head, token) = sum[0];
    }
}

// Sets the bias gradient to 0, since it also has elements for keys that a query does not see.
template<class T>
__global__ void __launch_bounds__(256) clear_bias_kernel(GPU_READ_ONLY const BackwardArguments<T> all) {
    wait_for_earlier_kernels();
    const Attention &a = all.attention;
    const auto row = static_cast<int64_t>(blockIdx.x); // one query of one head
    const int64_t query = row % a.queries, batch = row / a.queries / a.heads;
    const auto head = static_cast<int>(row / a.queries % a.heads);
    for (int key = static_cast<int>(threadIdx.x); key < a.keys; key += 256) {
        all.grad_bias.at(batch, head, query, key) = from_f32<T>(0.0f);
    }
}

// The weight of a key for a query, and the derivatives of the loss by its bias and by its dot product.
struct Slope {
    float weight, of_bias, of_dot; // of_dot lacks the scale
};

// `above` is the score relative to the log sum, `slope` its derivative by the dot product, divided by the scale.
__device__ __forceinline__ Slope slope_of(float above, float slope, float product, float projection) {
    const float weight = exp2_of(above > 0.0f ? 0.0f : above); // keeps NaN
    // A key that is hidden by a bias of minus infinity contributes nothing, whatever the gradient is.
    const float of_bias = weight == 0.0f ? 0.0f : weight * (product - projection);
    return {weight, of_bias, of_bias * slope};
}

} // namespace gpu
