// Products of few rows of one matrix with another matrix; the sums run along the rows of the latter, or down them. It
// is read in place, each vector once, and reading it takes most of the time.
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

// sums[i][j] += the sum over begin <= p < end of x[i][p] * w[j][p], for 4 rows w. Rows x are f32.
template<size_t count, class T>
HWY_INLINE void add_dot_tile(const float *const *x, const T *const *w, size_t begin, size_t end, float (*sums)[4]) {
    static_assert(count <= 2);
    const float *x0 = x[0] + begin, *x1 = x[count - 1] + begin;
    const T *w0 = w[0] + begin, *w1 = w[1] + begin, *w2 = w[2] + begin, *w3 = w[3] + begin;
    VF a0 = hn::Zero(f32), a1 = a0, a2 = a0, a3 = a0;
    VF b0 = a0, b1 = a0, b2 = a0, b3 = a0;
    along(end - begin, [&](size_t p, auto extent) HWY_ATTR {
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
    sums[0][0] += total(a0), sums[0][1] += total(a1), sums[0][2] += total(a2), sums[0][3] += total(a3);
    if constexpr (count == 2)
        sums[1][0] += total(b0), sums[1][1] += total(b1), sums[1][2] += total(b2), sums[1][3] += total(b3);
}

// sums[i * n + j] += the sum over q < height of x[i][p + q] * w[q][j], for `count` rows x of f32 and j < n.
template<size_t count, size_t height, class T>
HWY_INLINE void add_rows(const float *const *x, size_t p, const T *const *w, size_t n, float *sums) {
    static_assert(count <= 2 && (height == 1 || height == 4));
    const T *w0 = w[0], *w1 = w[height > 1 ? 1 : 0], *w2 = w[height > 1 ? 2 : 0], *w3 = w[height - 1];
    const float *first = x[0] + p, *second = x[count - 1] + p;
    const auto factor = [](const float *of, size_t q) HWY_ATTR { return hn::Set(f32, of[height > q ? q : 0]); };
    const VF a0 = factor(first, 0), a1 = factor(first, 1), a2 = factor(first, 2), a3 = factor(first, 3);
    const VF b0 = factor(second, 0), b1 = factor(second, 1), b2 = factor(second, 2), b3 = factor(second, 3);
    along(n, [=](size_t j, auto extent) HWY_ATTR {
        const VF w_0 = load(w0 + j, extent);
        VF a = hn::MulAdd(w_0, a0, load(sums + j, extent));
        VF b = count == 2 ? hn::MulAdd(w_0, b0, load(sums + n + j, extent)) : a;
        if constexpr (height == 4) {
            const VF w_1 = load(w1 + j, extent), w_2 = load(w2 + j, extent), w_3 = load(w3 + j, extent);
            a = hn::MulAdd(w_3, a3, hn::MulAdd(w_2, a2, hn::MulAdd(w_1, a1, a)));
            if constexpr (count == 2)
                b = hn::MulAdd(w_3, b3, hn::MulAdd(w_2, b2, hn::MulAdd(w_1, b1, b)));
        }
        store(a, sums + j, extent);
        if constexpr (count == 2)
            store(b, sums + n + j, extent);
    });
}

} // namespace HWY_NAMESPACE
} // namespace cpu
HWY_AFTER_NAMESPACE();

#endif
