// Shared by the cross entropies.
//
// Targets are on the device, so an invalid one (neither a class nor ignore_index) cannot be reported. Such a row gets
// NaN as its loss and as its gradient.
#pragma once

#include "exp_sum.cuh"
#include "shares.cuh"
#include "tensors.hpp"

namespace gpu {

struct CrossEntropy {
    int64_t rows, classes;
    int64_t ignore_index;
    float smoothing;
    float hit;    // 1 - smoothing
    float spread; // smoothing / classes
    float scale;  // fused: the gradient of every loss

    __device__ __forceinline__ bool is_class(int64_t target) const { return target >= 0 && target < classes; }
};

// True for the one thread that has the target's logit: it reads it before overwriting it, and writes its gradient after
// the rest of the vector. For an invalid target: true for the first thread, which always writes the loss.
template<class T, int N, bool peels>
__device__ __forceinline__ bool has_target(const CrossEntropy &shape, const Share<T, N, peels> &share, int64_t target) {
    return share.place.exists &&
           (shape.is_class(target) ? share.has(target) : share.rank == 0 && share.place.thread == 0);
}

// The same for a block that has a whole row.
template<int N>
__device__ __forceinline__ bool has_target(const CrossEntropy &shape, const Vectors<N, false> &vectors,
                                           const Place &place, int64_t target) {
    return shape.is_class(target) ? vectors.thread_of(target, place) == place.thread : place.thread == 0;
}

inline constexpr int statistics_arrays = 3;

// Statistics of a row.
struct Statistics {
    ExpSum exponentials;
    float sum = 0.0f; // over the logits, if the loss is smoothed

    template<bool is_in_range, int N>
    __device__ __forceinline__ void add(const CrossEntropy &shape, const float (&x)[N]) {
        exponentials.add<is_in_range>(x, log2_e);
        if (shape.smoothing != 0.0f) {
            float added = 0.0f;
#pragma unroll
            for (int k = 0; k < N; ++k) {
                added += x[k];
            }
            sum += added;
        }
    }

    // Reduces what was added as in range. `shared` holds statistics_arrays * most_warps floats; see reduce().
    __device__ __forceinline__ void reduce_over(int threads, float *shared) {
        float values[statistics_arrays] = {exponentials.largest, exponentials.sum, sum};
        reduce_exp_sum<Relative::to_offset>(values, log2_e, threads, shared);
        exponentials = {values[0], values[1]};
        sum = values[2];
    }

    // Statistics of everything that each(body) passes to body(class, logits), in all threads of a group. `shared` holds
    // 2 * statistics_arrays * most_warps floats.
    template<class Each>
    static __device__ __forceinline__ Statistics of(const CrossEntropy &shape, int threads, float *shared, Each each) {
        float values[statistics_arrays];
        gather_exp_sum(values, log2_e, threads, shared, [&](auto is_in_range, float(&mine)[statistics_arrays]) {
            Statistics statistics;
            each([&](int64_t, const auto &x) { statistics.add<decltype(is_in_range)::value != 0>(shape, x); });
            mine[0] = statistics.exponentials.largest;
            mine[1] = statistics.exponentials.sum;
            mine[2] = statistics.sum;
        });
        Statistics all;
        all.exponentials = {values[0], values[1]};
        all.sum = values[2];
        return all;
    }

    // Combines the statistics of a cluster's blocks. `shared` holds most_warps floats; see exchange_in_cluster().
    __device__ __forceinline__ void reduce_over_cluster(int rank, int ranks, float *shared) {
        static_assert(statistics_arrays * most_ranks <= most_warps);
        float values[statistics_arrays] = {exponentials.largest, exponentials.sum, sum};
        exchange_in_cluster(values, rank, ranks, shared);
        reduce_exp_sum_lanes<Relative::by_range>(values, log2_e, ranks);
        exponentials = {values[0], values[1]};
        sum = values[2];
    }

    __device__ __forceinline__ float lse() const {
        return exponentials.largest + exponentials.log_above_largest();
    }

    // lse - (1 - e) logits[target] - e mean(logits). Subtracts large numbers from each other first.
    __device__ __forceinline__ float loss(const CrossEntropy &shape, float wanted) const {
        const float above_largest = exponentials.log_above_largest();
        const float loss = exponentials.largest - wanted + above_largest;
        if (shape.smoothing == 0.0f) { // 0 * -inf would be NaN
            return loss;
        }
        const float mean = sum / static_cast<float>(shape.classes);
        return shape.hit * loss + shape.smoothing * (exponentials.largest - mean + above_largest);
    }
};

// Gradients of logits: of_loss * (softmax(x) - (1 - e) * onehot(target) - e / v), where the softmax is the exponential
// divided by `sum`. The thread that has the target overwrites the result of of() there with at_target.
struct Gradient {
    Exponential exponential;
    float share, spread; // of_loss / sum, of_loss * e / v
    float at_target;

    // `wanted` is the target's logit. The gradient is NaN for an invalid target.
    __device__ __forceinline__ Gradient(const CrossEntropy &shape, int64_t target, float wanted, float of_loss,
                                        const Exponential &row_exponential, float sum)
        : exponential(row_exponential) {
        const float factor = shape.is_class(target) ? of_loss : NAN;
        share = factor / sum;
        spread = factor * shape.spread;
        const float logits[1] = {wanted};
        float power[1];
        visit_range(exponential,
                    [&](auto is_in_range) { exponential.of<decltype(is_in_range)::value != 0>(logits, power); });
        // Uses a division, so that with a single class the difference is exactly 1 - 1 = 0.
        at_target = (power[0] / sum - 1.0f + (shape.smoothing - shape.spread)) * factor;
    }

    // Gradients of N logits, none of which is the target's.
    template<bool is_in_range, int N>
    __device__ __forceinline__ void of(const float (&x)[N], float (&to)[N]) const {
        exponential.of<is_in_range>(x, to);
#pragma unroll
        for (int k = 0; k < N; ++k) {
            to[k] = fmaf(to[k], share, -spread);
        }
    }
};

// `logits` is the index of the logits' input.
inline CrossEntropy shape_of(const opdock::Problem &problem, uint32_t logits) {
    const DLTensor &tensor = *problem.input(logits);
    const double smoothing = problem.get_float(1);
    CrossEntropy shape = {};
    shape.rows = row_count(tensor);
    shape.classes = row_size(tensor);
    shape.ignore_index = problem.get_int(0);
    shape.smoothing = static_cast<float>(smoothing);
    shape.hit = static_cast<float>(1 - smoothing);
    shape.spread = static_cast<float>(smoothing / static_cast<double>(std::max<int64_t>(shape.classes, 1)));
    shape.scale = 1.0f;
    return shape;
}

} // namespace gpu
