// Loops along a row and reductions over it.
//
// A body gets an index and the extent of the vector there (convert-inl.h), so the end of a row needs no second copy of
// the body. Sums run in four chains of f32 within a block and in f64 from block to block: the error of a sum of any
// length stays near that of one block, and the order of additions depends on the length alone.
//
// Included once per target; see hwy/foreach_target.h.
#if defined(CPU_SIMD_ROWS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CPU_SIMD_ROWS_INL_H
#undef CPU_SIMD_ROWS_INL_H
#else
#define CPU_SIMD_ROWS_INL_H
#endif

#include <cmath>

#include "simd/convert-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cpu {
namespace HWY_NAMESPACE {

// Elements between two additions in f64; 16 KiB of f32, so that a block read twice comes from L1 the second time.
inline constexpr size_t block_size = 4096;

// Calls body(i, extent) for each vector of elements begin <= i < end.
template<class Body>
HWY_INLINE void along(size_t begin, size_t end, Body body) {
    const size_t lanes = hn::Lanes(f32);
    size_t i = begin;
    for (; i + 4 * lanes <= end; i += 4 * lanes) {
        body(i, Whole{});
        body(i + lanes, Whole{});
        body(i + 2 * lanes, Whole{});
        body(i + 3 * lanes, Whole{});
    }
    for (; i + lanes <= end; i += lanes)
        body(i, Whole{});
    if (i < end)
        body(i, Part{end - i});
}

template<class Body>
HWY_INLINE void along(size_t n, Body body) {
    along(0, n, body);
}

// The sum over begin <= i < end, at most a block; term(i, extent, accumulator) adds to its accumulator.
template<class Term>
HWY_INLINE float block_sum(size_t begin, size_t end, Term term) {
    const size_t lanes = hn::Lanes(f32);
    VF a = hn::Zero(f32), b = a, c = a, d = a;
    size_t i = begin;
    for (; i + 4 * lanes <= end; i += 4 * lanes) {
        a = term(i, Whole{}, a);
        b = term(i + lanes, Whole{}, b);
        c = term(i + 2 * lanes, Whole{}, c);
        d = term(i + 3 * lanes, Whole{}, d);
    }
    for (; i + lanes <= end; i += lanes)
        a = term(i, Whole{}, a);
    if (i < end) {
        const Part part{end - i};
        b = keep(term(i, part, b), b, part);
    }
    return hn::GetLane(hn::SumOfLanes(f32, hn::Add(hn::Add(a, b), hn::Add(c, d))));
}

template<class Term>
HWY_INLINE double sum(size_t n, Term term) {
    double total = 0;
    for (size_t begin = 0; begin < n; begin += block_size)
        total += static_cast<double>(block_sum(begin, HWY_MIN(begin + block_size, n), term));
    return total;
}

struct TwoSums {
    double first, second;
};

// Two sums in one pass: terms(i, extent, first, second) adds to both accumulators.
template<class Terms>
HWY_INLINE TwoSums two_sums(size_t n, Terms terms) {
    const size_t lanes = hn::Lanes(f32);
    TwoSums total{0, 0};
    for (size_t begin = 0; begin < n; begin += block_size) {
        const size_t end = HWY_MIN(begin + block_size, n);
        VF a0 = hn::Zero(f32), a1 = a0, a2 = a0, a3 = a0;
        VF b0 = a0, b1 = a0, b2 = a0, b3 = a0;
        size_t i = begin;
        for (; i + 4 * lanes <= end; i += 4 * lanes) {
            terms(i, Whole{}, a0, b0);
            terms(i + lanes, Whole{}, a1, b1);
            terms(i + 2 * lanes, Whole{}, a2, b2);
            terms(i + 3 * lanes, Whole{}, a3, b3);
        }
        for (; i + lanes <= end; i += lanes)
            terms(i, Whole{}, a0, b0);
        if (i < end) {
            const Part part{end - i};
            VF a = a1, b = b1;
            terms(i, part, a, b);
            a1 = keep(a, a1, part);
            b1 = keep(b, b1, part);
        }
        total.first += static_cast<double>(hn::GetLane(hn::SumOfLanes(f32, hn::Add(hn::Add(a0, a1), hn::Add(a2, a3)))));
        total.second +=
            static_cast<double>(hn::GetLane(hn::SumOfLanes(f32, hn::Add(hn::Add(b0, b1), hn::Add(b2, b3)))));
    }
    return total;
}

// The largest value(i, extent) over begin <= i < end; -infinity for an empty range. NaN may or may not be kept.
template<class Value>
HWY_INLINE float block_max(size_t begin, size_t end, Value value) {
    const size_t lanes = hn::Lanes(f32);
    const VF nothing = hn::Set(f32, -HUGE_VALF);
    VF a = nothing, b = nothing, c = nothing, d = nothing;
    size_t i = begin;
    for (; i + 4 * lanes <= end; i += 4 * lanes) {
        a = hn::Max(a, value(i, Whole{}));
        b = hn::Max(b, value(i + lanes, Whole{}));
        c = hn::Max(c, value(i + 2 * lanes, Whole{}));
        d = hn::Max(d, value(i + 3 * lanes, Whole{}));
    }
    for (; i + lanes <= end; i += lanes)
        a = hn::Max(a, value(i, Whole{}));
    if (i < end) {
        const Part part{end - i};
        b = hn::Max(b, keep(value(i, part), nothing, part));
    }
    return hn::GetLane(hn::MaxOfLanes(f32, hn::Max(hn::Max(a, b), hn::Max(c, d))));
}

} // namespace HWY_NAMESPACE
} // namespace cpu
HWY_AFTER_NAMESPACE();

#endif
