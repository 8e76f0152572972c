// Sums of exponentials, for softmax and its logarithm: in one pass over a row, whatever its largest element is.
//
// The same source runs on the CPU in the tests; see tests/emulated.
#pragma once

#include <cfloat>
#include <cmath>

#include "implementation.hpp"
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

// What exponentials are relative to.
enum class Relative {
    to_offset, // of the element, as it is rounded
    to_element,
    by_range, // to the offset where that is in range, else to the element
};

// 2^(factor * x - offset), where the offset is that of an element `from`: factor * from, as it is rounded. What is
// relative to the same offset has the same error, which cancels in quotients. It is never minus infinity, from which
// another one would be no number.
struct Exponential {
    float factor, from, offset;

    __device__ __forceinline__ Exponential(float by, float relative_to)
        : factor(by), from(relative_to == -INFINITY ? 0.0f : relative_to), offset(fmaxf(factor * from, -FLT_MAX)) {}

    // Else the offset is rounded by too much, or no number, and elements have to be compared before they are
    // multiplied.
    __device__ __forceinline__ bool in_range() const { return fabsf(offset) <= 0x1p20f; }

    template<bool is_in_range, int N>
    __device__ __forceinline__ void of(const float (&x)[N], float (&to)[N]) const {
#pragma unroll
        for (int k = 0; k < N; ++k) {
            to[k] = exp2_of(is_in_range ? fmaf(x[k], factor, -offset) : (x[k] - from) * factor);
        }
    }

    // What a sum of these is to be multiplied with to be relative to another element in the same way. Next to the end
    // of the range offsets are rounded by 1/32: taken for factor * from, each puts 2 % on the sum.
    template<Relative relative>
    __device__ __forceinline__ float to(const Exponential &other) const {
        const bool offset_here = relative == Relative::by_range ? in_range() : relative == Relative::to_offset;
        const bool offset_there = relative == Relative::by_range ? other.in_range() : relative == Relative::to_offset;
        if (offset_here) {
            return exp2_of(offset_there ? offset - other.offset : -fmaf(other.from, factor, -offset));
        }
        return exp2_of(offset_there ? fmaf(from, factor, -other.offset) : (from - other.from) * factor);
    }

    // Of `from` itself, as of() has it: 1 but for the rounding of the offset. Quotients by it are what they should be.
    __device__ __forceinline__ float of_from() const {
        return in_range() ? exp2_of(fmaf(from, factor, -offset)) : 1.0f;
    }
};

// visit(Number<whether it is in range>): so that loops are compiled for either.
template<class Visitor>
__device__ __forceinline__ void visit_range(const Exponential &exponential, Visitor visit) {
    if (exponential.in_range()) {
        visit(Number<1>{});
    } else {
        visit(Number<0>{});
    }
}

// The elements x seen so far: their largest, and the sum of 2^(factor * x) relative to it. The factor is not negative.
struct ExpSum {
    float largest = -INFINITY;
    float sum = 0.0f;

    // Takes in N elements except those whose bit is set in `hidden`. Which way is for gather_exp_sum() to say.
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

    // The sum relative to another element, that is not less, in the same way. 0 stays 0, also where infinities meet,
    // and so does what is out of range far below the element.
    template<Relative relative>
    __device__ __forceinline__ float relative_to(float element, float factor) const {
        const float by = Exponential(factor, largest).to<relative>(Exponential(factor, element));
        return sum == 0.0f || (by == 0.0f && sum == INFINITY) ? 0.0f : sum * by;
    }

    // The natural logarithm of the sum, relative to the largest element, for a factor of log2_e. 0 where that is all.
    __device__ __forceinline__ float log_above_largest() const {
        return logf(sum / Exponential(log2_e, largest).of_from());
    }
};

// Of `lanes` consecutive threads of a warp.
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

// What all threads of a group have seen together. `values` are the largest element, the sum relative to it and perhaps
// a plain sum. `shared` holds count * most_warps floats; see reduce().
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

// What a group gathers of elements that it goes through: gather(Number<is_in_range>) returns a thread's `values`, as
// reduce_exp_sum() takes them. It is called once more where their range asks for the other way. `shared` holds twice
// count * most_warps floats.
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
        for (int i = 0; i < count; ++i) { // what a group gets does not depend on its neighbours
            values[i] = again ? exact[i] : values[i];
        }
    }
}

} // namespace gpu
