// exp, sigmoid, sine and cosine on vectors.
//
// Included once per target; see hwy/foreach_target.h.
#if defined(CPU_SIMD_MATH_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CPU_SIMD_MATH_INL_H
#undef CPU_SIMD_MATH_INL_H
#else
#define CPU_SIMD_MATH_INL_H
#endif

#include "simd/convert-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cpu {
namespace HWY_NAMESPACE {

// Returns `v` limited to [low, high]; NaN stays NaN. Min and Max do not guarantee that, but with the limit as the first
// operand x86 returns the second one and Arm returns the NaN; targets without vectors return the other operand.
HWY_INLINE VF clamp(VF v, float low, float high) {
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
    v = hn::IfThenElse(hn::Lt(v, hn::Set(f32, low)), hn::Set(f32, low), v);
    return hn::IfThenElse(hn::Gt(v, hn::Set(f32, high)), hn::Set(f32, high), v);
#else
    return hn::Min(hn::Set(f32, high), hn::Max(hn::Set(f32, low), v));
#endif
}

// e^x within 3 units in the last place if the result is a normal f32 below 2^127.5 (x < 88.37); 0 below that range,
// infinity above it, NaN for NaN. x = k ln 2 + r with |r| <= ln 2 / 2; e^r is a polynomial whose coefficients minimize
// the largest relative error (1.1e-7). The latency of its chain of operations limits loops, not their number, so the
// polynomial is short and evaluated in pairs.
HWY_INLINE VF exp(VF x) {
    // At the bounds the exponent field of 2^k becomes 0 and 255: the scale itself is 0 and infinity.
    x = clamp(x, -88.0f, 88.6f);
    // Adding 1.5 * 2^23 rounds to an integer, which then stands in the low bits, together with the exponent bias.
    const VF rounder = hn::Set(f32, 0x1.8p23f + 127.0f);
    const VF shifted = hn::MulAdd(x, hn::Set(f32, 1.44269504f), rounder);
    const VF power = hn::BitCast(f32, hn::ShiftLeft<23>(hn::BitCast(u32, shifted)));
    const VF k = hn::Sub(shifted, rounder);
    // ln 2 in two parts; the first has few enough bits that its products are exact.
    VF r = hn::NegMulAdd(k, hn::Set(f32, 0.693359375f), x);
    r = hn::NegMulAdd(k, hn::Set(f32, -2.12194440e-4f), r);
    const VF square = hn::Mul(r, r);
    const VF one = hn::Add(hn::Set(f32, 1.0f), r);
    const VF low = hn::MulAdd(hn::Set(f32, 0x1.5557b3543d83bp-3f), r, hn::Set(f32, 0x1.fffdf87a222e8p-2f));
    const VF high = hn::MulAdd(hn::Set(f32, 0x1.1061b849c28b1p-7f), r, hn::Set(f32, 0x1.572bc48d65dccp-5f));
    const VF p = hn::MulAdd(hn::MulAdd(high, square, low), square, one);
    return hn::Mul(p, power);
}

// sigmoid(-x) = 1 / (1 + e^x)
HWY_INLINE VF sigmoid_of_negative(VF x) {
    const VF one = hn::Set(f32, 1.0f);
    return hn::Div(one, hn::Add(one, exp(x)));
}

HWY_INLINE VF sigmoid(VF x) {
    return sigmoid_of_negative(hn::Neg(x));
}

// Sine and cosine of |angle| <= 2^30, in f64 so that large angles keep their accuracy. Taylor polynomials on [-pi/4,
// pi/4] with an error below the rounding of f32.
template<class D, class V = hn::Vec<D>>
HWY_INLINE void sine_cosine(D f64, V angle, V &sine, V &cosine) {
    const V turns = hn::Round(hn::Mul(angle, hn::Set(f64, 0.63661977236758138)));
    // pi/2 in three parts, the first two short enough (22 bits) that their products with an integer below 2^31 are
    // exact.
    V r = hn::NegMulAdd(turns, hn::Set(f64, 0x1.921fb0p+0), angle);
    r = hn::NegMulAdd(turns, hn::Set(f64, 0x1.5110b0p-22), r);
    r = hn::NegMulAdd(turns, hn::Set(f64, 0x1.18469898cc517p-44), r);
    const V square = hn::Mul(r, r);
    V s = hn::Set(f64, 1.0 / 362880);
    s = hn::MulAdd(s, square, hn::Set(f64, -1.0 / 5040));
    s = hn::MulAdd(s, square, hn::Set(f64, 1.0 / 120));
    s = hn::MulAdd(s, square, hn::Set(f64, -1.0 / 6));
    s = hn::MulAdd(hn::Mul(s, square), r, r);
    V c = hn::Set(f64, -1.0 / 3628800);
    c = hn::MulAdd(c, square, hn::Set(f64, 1.0 / 40320));
    c = hn::MulAdd(c, square, hn::Set(f64, -1.0 / 720));
    c = hn::MulAdd(c, square, hn::Set(f64, 1.0 / 24));
    c = hn::MulAdd(c, square, hn::Set(f64, -1.0 / 2));
    c = hn::MulAdd(c, square, hn::Set(f64, 1.0));
    // The quarter turn within a full turn: 0, 1, 2 or 3.
    const V four = hn::Set(f64, 4.0);
    const V quarter = hn::NegMulAdd(four, hn::Floor(hn::Mul(turns, hn::Set(f64, 0.25))), turns);
    const auto first = hn::Eq(quarter, hn::Set(f64, 1.0));
    const auto second = hn::Eq(quarter, hn::Set(f64, 2.0));
    const auto third = hn::Eq(quarter, hn::Set(f64, 3.0));
    const auto swapped = hn::Or(first, third);
    sine = hn::IfThenElse(swapped, c, s);
    cosine = hn::IfThenElse(swapped, s, c);
    sine = hn::IfThenElse(hn::Or(second, third), hn::Neg(sine), sine);
    cosine = hn::IfThenElse(hn::Or(first, second), hn::Neg(cosine), cosine);
}

} // namespace HWY_NAMESPACE
} // namespace cpu
HWY_AFTER_NAMESPACE();

#endif
