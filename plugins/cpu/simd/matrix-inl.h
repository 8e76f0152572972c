// Products of rows with rows: sums[m][n] = the dot product of row m of one matrix and row n of another.
//
// Two ways, by how often a row of the second matrix is used. Few rows m: dot_tile reads both matrices as they lie, each
// vector of the second once; the time is that of reading it. Many: outer_tile, whose accumulators are vectors of n, on
// panels of the second matrix that pack_panel turned on their side; the time is that of the multiplications.
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

// 6 rows by 2 vectors are 12 accumulators: enough to keep two multipliers busy, and with 2 + 1 operands they fit into
// the 16 registers that all but the newest targets have.
inline constexpr size_t tile_rows = 6;
inline constexpr size_t tile_columns = 2 * hn::MaxLanes(f32);

// sums[i * stride + j] = (or, unless `first`, +=) the sum over p < depth of x[i][p] * panel[p * tile_columns + j].
HWY_INLINE void outer_tile(const float *const *x, const float *panel, size_t depth, float *sums, size_t stride,
                           bool first) {
    const size_t lanes = hn::Lanes(f32);
    const float *x0 = x[0], *x1 = x[1], *x2 = x[2], *x3 = x[3], *x4 = x[4], *x5 = x[5];
    VF a0 = hn::Zero(f32), a1 = a0, a2 = a0, a3 = a0, a4 = a0, a5 = a0;
    VF b0 = a0, b1 = a0, b2 = a0, b3 = a0, b4 = a0, b5 = a0;
    for (size_t p = 0; p < depth; ++p) {
        const VF a = hn::Load(f32, panel + p * tile_columns);
        const VF b = hn::Load(f32, panel + p * tile_columns + lanes);
        const auto multiply = [=](const float *row, VF &left, VF &right) HWY_ATTR {
            const VF factor = hn::Set(f32, row[p]);
            left = hn::MulAdd(factor, a, left);
            right = hn::MulAdd(factor, b, right);
        };
        multiply(x0, a0, b0);
        multiply(x1, a1, b1);
        multiply(x2, a2, b2);
        multiply(x3, a3, b3);
        multiply(x4, a4, b4);
        multiply(x5, a5, b5);
    }
    const auto keep_sums = [=](float *to, VF left, VF right) HWY_ATTR {
        if (!first) {
            left = hn::Add(left, hn::Load(f32, to));
            right = hn::Add(right, hn::Load(f32, to + lanes));
        }
        hn::Store(left, f32, to);
        hn::Store(right, f32, to + lanes);
    };
    keep_sums(sums, a0, b0);
    keep_sums(sums + stride, a1, b1);
    keep_sums(sums + 2 * stride, a2, b2);
    keep_sums(sums + 3 * stride, a3, b3);
    keep_sums(sums + 4 * stride, a4, b4);
    keep_sums(sums + 5 * stride, a5, b5);
}

#if HWY_TARGET != HWY_SCALAR
// A vector of elements p .. p + 3 of rows[0], then of rows[4], and so on.
template<class D>
HWY_INLINE hn::Vec<D> load_blocks(D d, const float *const *rows, size_t p) {
    constexpr size_t lanes = hn::MaxLanes(D());
    if constexpr (lanes == 4) {
        return hn::LoadU(d, rows[0] + p);
    } else {
        const hn::Half<D> half;
        return hn::Combine(d, load_blocks(half, rows + lanes / 2, p), load_blocks(half, rows, p));
    }
}

#endif

// panel[p * tile_columns + j] = rows[j][p] for j < count, and 0 for the columns after those.
HWY_INLINE void turn_rows(const float *const *rows, size_t count, size_t depth, float *panel) {
    size_t p = 0;
#if HWY_TARGET != HWY_SCALAR
    const size_t lanes = hn::Lanes(f32);
    for (; count == tile_columns && p + 4 <= depth; p += 4) {
        for (size_t column = 0; column < tile_columns; column += lanes) {
            // In each block of 4 lanes, 4 rows of 4 elements become 4 elements of 4 rows.
            const float *const *from = rows + column;
            const VF r0 = load_blocks(f32, from, p), r1 = load_blocks(f32, from + 1, p);
            const VF r2 = load_blocks(f32, from + 2, p), r3 = load_blocks(f32, from + 3, p);
            const VF low02 = hn::InterleaveLower(f32, r0, r2), low13 = hn::InterleaveLower(f32, r1, r3);
            const VF high02 = hn::InterleaveUpper(f32, r0, r2), high13 = hn::InterleaveUpper(f32, r1, r3);
            float *to = panel + p * tile_columns + column;
            hn::Store(hn::InterleaveLower(f32, low02, low13), f32, to);
            hn::Store(hn::InterleaveUpper(f32, low02, low13), f32, to + tile_columns);
            hn::Store(hn::InterleaveLower(f32, high02, high13), f32, to + 2 * tile_columns);
            hn::Store(hn::InterleaveUpper(f32, high02, high13), f32, to + 3 * tile_columns);
        }
    }
#endif
    for (; p < depth; ++p) {
        for (size_t j = 0; j < tile_columns; ++j)
            panel[p * tile_columns + j] = j < count ? rows[j][p] : 0.0f;
    }
}

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
