// Products of rows with rows: sums[m][n] = the dot product of row m of one matrix and row n of another.
//
// For few rows m: both matrices are read as they lie, each vector of the second once, and the time is that of reading
// it.
//
// Included once per target; see hwy/foreach_target.h.
#if defined(CPU_SIMD_MATRIX_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CPU_SIMD_MATRIX_INL_H
#undef CPU_SIMD_MATRIX_INL_H
#else
#define CPU_SIMD_MATRIX_INL_H
#endif

#include "simd/convert-inl.h"
#include "simd/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cpu {
namespace HWY_NAMESPACE {

// Rows as f32: the rows themselves where they are, else what they become in `scratch`.
template<class T>
HWY_INLINE void widen_rows(const T *const *rows, size_t count, size_t depth, float *scratch, const float **widened) {
    for (size_t i = 0; i < count; ++i) {
        if constexpr (sizeof(T) == sizeof(float)) {
            widened[i] = rows[i];
        } else {
            const T *row = rows[i];
            float *to = scratch + i * depth;
            along(depth, [=](size_t p, auto extent) HWY_ATTR { store(load(row + p, extent), to + p, extent); });
            widened[i] = to;
        }
    }
}

// sums[i][j] = the dot product of x[i] and w[j], for 4 rows w. Rows x are f32.
template<size_t count, class T>
HWY_INLINE void dot_tile(const float *const *x, const T *const *w, size_t depth, float (*sums)[4]) {
    static_assert(count <= 2);
    const float *x0 = x[0], *x1 = x[count - 1];
    const T *w0 = w[0], *w1 = w[1], *w2 = w[2], *w3 = w[3];
    VF a0 = hn::Zero(f32), a1 = a0, a2 = a0, a3 = a0;
    VF b0 = a0, b1 = a0, b2 = a0, b3 = a0;
    along(depth, [&](size_t p, auto extent) HWY_ATTR {
        const VF x_0 = load(x0 + p, extent), x_1 = load(x1 + p, extent);
        const auto multiply = [&](const T *row, VF &first, VF &second) HWY_ATTR {
            const VF factor = load(row + p, extent);
            first = hn::MulAdd(factor, x_0, first);
            if constexpr (count == 2)
                second = hn::MulAdd(factor, x_1, second);
        };
        multiply(w0, a0, b0);
        multiply(w1, a1, b1);
        multiply(w2, a2, b2);
        multiply(w3, a3, b3);
    });
    const auto total = [](VF v) HWY_ATTR { return hn::GetLane(hn::SumOfLanes(f32, v)); };
    sums[0][0] = total(a0), sums[0][1] = total(a1), sums[0][2] = total(a2), sums[0][3] = total(a3);
    if constexpr (count == 2)
        sums[1][0] = total(b0), sums[1][1] = total(b1), sums[1][2] = total(b2), sums[1][3] = total(b3);
}

} // namespace HWY_NAMESPACE
} // namespace cpu
HWY_AFTER_NAMESPACE();

#endif
