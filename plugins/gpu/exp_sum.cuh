// Sums of exponentials for softmax and its logarithm, in one pass over a row for any largest element.
//
// The tests compile the same source for the CPU; see tests/emulated.
#pragma once

#include <cfloat>
#include <cmath>

#include "implementation.hpp"
#include "reduce.cuh"

namespace gpu {

inline constexpr float log2_e = 1.44269504088896341f;

// 2^x within 2 units in the last place; 0 if the result would be denormal.
__device__ __forceinline__ float exp2_of(float x) {
#ifdef __HIP__
    return exp2f(x);
#else
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#endif
}

// The base that exponentials are relative to.
enum class Relative {
    to_offset, // the element's, as rounded
    to_element,
    by_range, // to the offset if it is in range, else to the element
};

// 2^(factor * x - offset), where the offset is the rounded value of factor * from, for an element `from`. Exponentials
// with the same offset have the same error, which cancels in quotients. The offset is never minus infinity, since
// subtracting it from another one would give NaN.
struct Exponential {
    float factor, from, offset;

    __device__ __forceinline__ Exponential(float by, float relative_to)
        : factor(by), from(relative_to == -INFINITY ? 0.0f : relative_to), offset(fmaxf(factor * from, -FLT_MAX)) {}

    // If false, the rounding error of the offset is too large, or the offset
    // is NaN: elements have to be subtracted before they are multiplied.
    __device__ __forceinline__ bool in_range() const { return fabsf(offset) <= 0x1p20f; }

    template<bool is_in_range, int N>
    __device__ __forceinline__ void of(const float (&x)[N], float (&to)[N]) const {
#pragma unroll
        for (int k = 0; k < N; ++k) {
            to[k] = exp2_of(is_in_range ? fmaf(x[k], factor, -offset) : (x[k] - from) * factor);
        }
    }

    // Factor by which a sum of these is multiplied to make it relative to another element. At the end of the range, the
    // rounding error of an offset is 1/32: using factor * from in its place would change the sum by 2 %.
    template<Relative relative>
    __device__ __forceinline__ float to(const Exponential &other) const {
        const bool offset_here = relative == Relative::by_range ? in_range() : relative == Relative::to_offset;
        const bool offset_there = relative == Relative::by_range ? other.in_range() : relative == Relative::to_offset;
        if (offset_here) {
            return exp2_of(offset_there ? offset - other.offset : -fmaf(other.from, factor, -offset));
        }
        return exp2_of(offset_there ? fmaf(from, factor, -other.offset) : (from - other.from) * factor);
    }

    // What of() gives for `from` itself: 1, except for the rounding of the offset. Correct divisor for quotients.
    __device__ __forceinline__ float of_from() const {
        return in_range() ? exp2_of(fmaf(from, factor, -offset)) : 1.0f;
    }
};

// Calls visit(Number<is_in_range>), so that loops are compiled for both cases.
template<class Visitor>
__device__ __forceinline__ void visit_range(const Exponential &exponential, Visitor visit) {
    if (exponential.in_range()) {
        visit(Number<1>{});
    } else {
        visit(Number<0>{});
    }
}

// Of the elements x so far: the largest, and the sum of 2^(factor * x) relative to it. The factor is not negative.
struct ExpSum {
    float largest = -INFINITY;
    float sum = 0.0f;

    // Adds N elements except those whose bit in `hidden` is set. gather_exp_sum() chooses is_in_range.
    template<bool is_in_range, int N>
    __device__ __forceinline__ void add(const float (&x)[N], float factor, unsigned hidden = 0) {
        float best = -INFINITY;
#pragma unroll
        for (int k = 0; k < N; ++k) {
            best = fmaxf(best, (hidden >> k & 1) != 0 ? -INFINITY : x[k]);
        }
        if (best > largest) {
            sum = relative_to < is_in_range ? Relative::to_offset : Relative::to_element > (best, factor);
            largest = best;
        }
        float powers[N];
        Exponential(factor, largest).of<is_in_range>(x, powers);
        float added = 0.0f;
#pragma unroll
        for (int k = 0; k < N; ++k) {
            added += (hidden >> k & 1) != 0 ? 0.0f : powers[k];
        }
        sum += added;
    }

    // The sum relative to another element, which is not smaller. 0 stays 0, even where infinities meet, and so does
    // a sum out of range far below the element.
    template<Relative relative>
    __device__ __forceinline__ float relative_to(float element, float factor) const {
        const float by = Exponential(factor, largest).to<relative>(Exponential(factor, element));
        return sum == 0.0f || (by == 0.0f && sum == INFINITY) ? 0.0f : sum * by;
    }

    // The natural logarithm of the sum relative to the largest element, for a factor of log2_e; 0 for a single element.
    __device__ __forceinline__ float log_above_largest() const {
        return logf(sum / Exponential(log2_e, largest).of_from());
    }
};

// Reduces over `lanes` consecutive threads of a warp.
template<Relative relative, int count>
__device__ __forceinline__ void reduce_exp_sum_lanes(float (&values)[count], float factor, int lanes) {
    float largest[1] = {values[0]};
    reduce_lanes<Largest>(largest, lanes);
    float sums[count - 1];
    sums[0] = ExpSum{values[0], values[1]}.relative_to<relative>(largest[0], factor);
    if constexpr (count == 3) {
        sums[1] = values[2];
    }
    reduce_lanes<Sum>(sums, lanes);
    values[0] = largest[0];
#pragma unroll
    for (int i = 1; i < count; ++i) {
        values[i] = sums[i - 1];
    }
}

// Combines the values of all threads of a group: the largest element, the sum relative to it, and optionally a plain
// sum. `shared` holds count * most_warps floats; see reduce().
template<Relative relative, int count>
__device__ __forceinline__ void reduce_exp_sum(float (&values)[count], float factor, int threads, float *shared) {
    static_assert(count == 2 || count == 3);
    reduce_exp_sum_lanes<relative>(values, factor, threads < warp_size() ? threads : warp_size());
    if (threads > warp_size()) {
        const int warps = exchange_among_warps(values, threads, shared);
        reduce_exp_sum_lanes<relative>(values, factor, warps);
    }
}
template<Relative relative>
__device__ __forceinline__ ExpSum reduce_exp_sum(const ExpSum &mine, float factor, int threads, float *shared) {
    float values[2] = {mine.largest, mine.sum};
    reduce_exp_sum<relative>(values, factor, threads, shared);
    return {values[0], values[1]};
}

// Combines what a group's threads gather from elements: gather(Number<is_in_range>, values)
// sets a thread's `values`, in the layout of reduce_exp_sum(). It is called again with 0 if
// their range turns out to require that. `shared` holds 2 * count * most_warps floats.
template<int count, class Gather>
__device__ __forceinline__ void gather_exp_sum(float (&values)[count], float factor, int threads, float *shared,
                                               Gather gather) {
    gather(Number<1>{}, values);
    reduce_exp_sum<Relative::to_offset>(values, factor, threads, shared);
    const bool again = !Exponential(factor, values[0]).in_range();
    if (any_that_reduces_along(again, threads)) {
        float exact[count];
        gather(Number<0>{}, exact);
        reduce_exp_sum<Relative::to_element>(exact, factor, threads, shared + count * most_warps);
#pragma unroll
        for (int i = 0; i < count; ++i) { // a group's result does not depend on its neighbours
            values[i] = again ? exact[i] : values[i];
        }
    }
}

} // namespace gpu
