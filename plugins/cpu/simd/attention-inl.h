// Rows and tiles of attention: widening, products and weighted sums.
//
// Included once per target; see hwy/foreach_target.h.
#if defined(CPU_SIMD_ATTENTION_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CPU_SIMD_ATTENTION_INL_H
#undef CPU_SIMD_ATTENTION_INL_H
#else
#define CPU_SIMD_ATTENTION_INL_H
#endif

#include <algorithm>
#include <cstdint>

#include "blas.hpp"
#include "simd/math-inl.h"
#include "simd/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cpu {
namespace HWY_NAMESPACE {

template<class T>
HWY_INLINE void widen(const T *from, int64_t count, float *to) {
    along(static_cast<size_t>(count),
          [=](size_t p, auto extent) HWY_ATTR { store(load(from + p, extent), to + p, extent); });
}

template<class T>
HWY_INLINE void narrow(const float *from, int64_t count, float factor, T *to) {
    const VF by = hn::Set(f32, factor);
    along(static_cast<size_t>(count),
          [=](size_t p, auto extent) HWY_ATTR { store(hn::Mul(load(from + p, extent), by), to + p, extent); });
}

HWY_INLINE void fill(float *to, int64_t count, float value) {
    std::fill(to, to + count, value);
}

// Returns `count` rows of `length` elements, the first at `from`, at a distance of `step` elements: in place, or
// widened into `scratch`.
template<class T>
HWY_INLINE Matrix matrix_of(const T *from, int64_t step, int64_t count, int64_t length, bool down, float *scratch) {
    if constexpr (sizeof(T) == sizeof(float)) {
        if (step >= std::max<int64_t>(length, 1) && step <= INT32_MAX)
            return {from, static_cast<int>(step), down};
    }
    for (int64_t i = 0; i < count; ++i)
        widen(from + i * step, length, scratch + i * length);
    return {scratch, static_cast<int>(std::max<int64_t>(length, 1)), down};
}

// sums(i, :) += the sum over p < depth of weights(i, p) * rows(p, :). A weight of 0 contributes nothing even if its row
// is infinite, unlike in a matrix product.
HWY_INLINE void add_weighted(const Matrix &weights, int64_t count, const Matrix &rows, int64_t columns, int64_t depth,
                             float *sums) {
    if (columns == 0)
        return;
    float nothing = 0; // NaN if an element is not finite
    for (int64_t p = 0; p < depth; ++p) {
        const float *row = rows.data + p * rows.step;
        for (int64_t begin = 0; begin < columns; begin += block_size) {
            const int64_t end = std::min(columns, begin + static_cast<int64_t>(block_size));
            nothing += block_sum(static_cast<size_t>(begin), static_cast<size_t>(end),
                                 [=](size_t q, auto extent, VF s)
                                     HWY_ATTR { return hn::MulAdd(load(row + q, extent), hn::Zero(f32), s); });
        }
    }
    if (nothing == 0) {
        multiply(weights, count, {rows.data, rows.step, true}, columns, depth, false, sums, static_cast<int>(columns));
        return;
    }
    for (int64_t i = 0; i < count; ++i) {
        for (int64_t p = 0; p < depth; ++p) {
            const float weight = weights.down ? weights.data[p * weights.step + i] : weights.data[i * weights.step + p];
            for (int64_t q = 0; weight != 0 && q < columns; ++q)
                sums[i * columns + q] += weight * rows.data[p * rows.step + q];
        }
    }
}

// Computes tanh from the exponential of a negative number, which cannot overflow.
HWY_INLINE VF tanh(VF x) {
    const VF magnitude = hn::Abs(x);
    const VF e = exp(hn::Mul(magnitude, hn::Set(f32, -2.0f)));
    const VF one = hn::Set(f32, 1.0f);
    // Near 0 that form would cancel: x - x^3/3 + 2 x^5/15 - 17 x^7/315.
    const VF square = hn::Mul(x, x);
    VF series = hn::MulAdd(square, hn::Set(f32, -17.0f / 315), hn::Set(f32, 2.0f / 15));
    series = hn::MulAdd(series, square, hn::Set(f32, -1.0f / 3));
    series = hn::MulAdd(hn::Mul(series, square), x, x);
    const VF far = hn::CopySign(hn::Div(hn::Sub(one, e), hn::Add(one, e)), x);
    return hn::IfThenElse(hn::Lt(magnitude, hn::Set(f32, 0.25f)), series, far);
}

} // namespace HWY_NAMESPACE
} // namespace cpu
HWY_AFTER_NAMESPACE();

#endif
