// The sum of exponentials of a row, in one pass over memory.
//
// Included once per target; see hwy/foreach_target.h.
#if defined(CPU_SIMD_LOGSUMEXP_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CPU_SIMD_LOGSUMEXP_INL_H
#undef CPU_SIMD_LOGSUMEXP_INL_H
#else
#define CPU_SIMD_LOGSUMEXP_INL_H
#endif

#include <cmath>

#include "hwy/cache_control.h"
#include "simd/flags-inl.h"
#include "simd/math-inl.h"
#include "simd/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cpu {
namespace HWY_NAMESPACE {

// The visible keys of a row: all of them.
struct AllKeys {
    template<class Extent>
    HWY_INLINE VF keep(VF v, VF, size_t, Extent) const {
        return v;
    }
};

// The keys that no flag hides; hidden ones become `otherwise`.
struct UnhiddenKeys {
    const uint8_t *hidden;

    template<class Extent>
    HWY_INLINE VF keep(VF v, VF otherwise, size_t i, Extent extent) const {
        return hn::IfThenElse(load_flags(hidden + i, extent), otherwise, v);
    }
};

// The element of [begin, end), at most a block, with the largest scale * x: the smallest element for a negative scale.
template<class T, class Keys>
HWY_INLINE float pivot_of(const T *row, size_t begin, size_t end, float scale, Keys keys) {
    const VF flip = hn::Set(f32, scale < 0 ? -0.0f : 0.0f);
    const VF lowest = hn::Set(f32, -HUGE_VALF);
    const float largest = block_max(begin, end, [=](size_t i, auto extent) HWY_ATTR {
        return keys.keep(hn::Xor(load(row + i, extent), flip), lowest, i, extent);
    });
    return scale < 0 ? -largest : largest;
}

// sum(exp(scale * x)) = sum * exp(scale * pivot), for the pivot of the row.
struct ExpSum {
    float pivot;
    double sum;
};

// `next` is the row to prefetch after this one.
//
// Block by block: the block's pivot, then, from L1, its exponentials. Earlier sums are rescaled when the pivot moves.
// Differences are taken before the scale is applied, so that they are exact near the pivot.
template<class T, class Keys = AllKeys>
HWY_INLINE ExpSum exp_sum(const T *row, size_t n, float scale, const T *next, Keys keys = {}) {
    const VF by = hn::Set(f32, scale);
    const float sign = scale < 0 ? -1.0f : 1.0f;
    ExpSum total{sign * -HUGE_VALF, 0};
    for (size_t begin = 0; begin < n; begin += block_size) {
        const size_t end = HWY_MIN(begin + block_size, n);
        const float best = pivot_of(row, begin, end, scale, keys);
        if (sign * best > sign * total.pivot) {
            if (total.sum != 0)
                total.sum *= std::exp(static_cast<double>(scale) *
                                      (static_cast<double>(total.pivot) - static_cast<double>(best)));
            total.pivot = best;
        }
        // Without a finite pivot so far: any pivot gives exponentials of 0 for minus infinity.
        const VF pivot = hn::Set(f32, std::isinf(total.pivot) ? 0.0f : total.pivot);
        const T *ahead = end < n ? row + end : next;
        total.sum += static_cast<double>(block_sum(begin, end, [=](size_t i, auto extent, VF s) HWY_ATTR {
            hwy::Prefetch(ahead + (i - begin));
            const VF e = exp(hn::Mul(hn::Sub(load(row + i, extent), pivot), by));
            return hn::Add(s, keys.keep(e, hn::Zero(f32), i, extent));
        }));
    }
    return total;
}

} // namespace HWY_NAMESPACE
} // namespace cpu
HWY_AFTER_NAMESPACE();

#endif
