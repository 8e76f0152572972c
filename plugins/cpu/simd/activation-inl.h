// The activations: value(x); slope(x), its derivative; and both(x), which is cheaper than the two separately.
//
// Included once per target; see hwy/foreach_target.h.
#if defined(CPU_SIMD_ACTIVATION_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CPU_SIMD_ACTIVATION_INL_H
#undef CPU_SIMD_ACTIVATION_INL_H
#else
#define CPU_SIMD_ACTIVATION_INL_H
#endif

#include "activation.hpp"
#include "simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cpu {
namespace HWY_NAMESPACE {

struct ValueAndSlope {
    VF value, slope;
};

struct Relu {
    static HWY_INLINE VF value(VF x) {
        return hn::IfThenElse(hn::Lt(x, hn::Zero(f32)), hn::Zero(f32), x); // NaN is kept
    }
    static HWY_INLINE VF slope(VF x) { return hn::IfThenElseZero(hn::Gt(x, hn::Zero(f32)), hn::Set(f32, 1.0f)); }
    static HWY_INLINE ValueAndSlope both(VF x) { return {value(x), slope(x)}; }
};

struct Srelu {
    static HWY_INLINE VF value(VF x) { return both(x).value; }
    static HWY_INLINE VF slope(VF x) { return both(x).slope; }
    static HWY_INLINE ValueAndSlope both(VF x) {
        const VF positive = Relu::value(x);
        return {hn::Mul(positive, positive), hn::Add(positive, positive)};
    }
};

// x s for s = sigmoid(u), with derivative s + x s (1 - s) u'.
HWY_INLINE ValueAndSlope gated_by(VF x, VF s, VF slope_of_u) {
    const VF value = hn::Mul(x, s);
    return {value, hn::MulAdd(hn::Mul(value, slope_of_u), hn::Sub(hn::Set(f32, 1.0f), s), s)};
}

struct Silu {
    static HWY_INLINE VF value(VF x) { return both(x).value; }
    static HWY_INLINE VF slope(VF x) { return both(x).slope; }
    static HWY_INLINE ValueAndSlope both(VF x) { return gated_by(x, sigmoid(x), hn::Set(f32, 1.0f)); }
};

struct Qgelu {
    static constexpr float steepness = 1.702f;

    static HWY_INLINE VF value(VF x) { return both(x).value; }
    static HWY_INLINE VF slope(VF x) { return both(x).slope; }
    static HWY_INLINE ValueAndSlope both(VF x) {
        const VF s = sigmoid_of_negative(hn::Mul(x, hn::Set(f32, -steepness)));
        return gated_by(x, s, hn::Set(f32, steepness));
    }
};

// The tanh form, x (1 + tanh u) / 2 with u = sqrt(2/pi) (x + 0.044715 x^3), as x sigmoid(2u): the same function without
// the cancellation of 1 + tanh left of zero.
struct Gelu {
    static constexpr float two_root = 1.5957691216f; // 2 sqrt(2/pi)
    static constexpr float cubic = 0.044715f;

    static HWY_INLINE VF gate(VF x) {
        const VF inner = hn::MulAdd(hn::Mul(x, x), hn::Set(f32, -two_root * cubic), hn::Set(f32, -two_root));
        return sigmoid_of_negative(hn::Mul(x, inner));
    }
    static HWY_INLINE VF value(VF x) { return hn::Mul(x, gate(x)); }
    static HWY_INLINE VF slope(VF x) { return both(x).slope; }
    static HWY_INLINE ValueAndSlope both(VF x) {
        // Past 16 gate and slope are 0 or 1 in f32; the clamp prevents infinity times zero, from x^2 and a gate of
        // 0.
        const VF near = clamp(x, -16.0f, 16.0f);
        const VF s = gate(near);
        const VF du = hn::MulAdd(hn::Mul(near, near), hn::Set(f32, 3 * two_root * cubic), hn::Set(f32, two_root));
        return {hn::Mul(x, s), gated_by(near, s, du).slope};
    }
};

// Calls visit(Gelu{}) and so on.
template<class Visitor>
HWY_INLINE void visit_activation(Activation activation, Visitor visit) {
    switch (activation) {
    case Activation::gelu:
        return visit(Gelu{});
    case Activation::qgelu:
        return visit(Qgelu{});
    case Activation::relu:
        return visit(Relu{});
    case Activation::silu:
        return visit(Silu{});
    case Activation::srelu:
        return visit(Srelu{});
    }
}

} // namespace HWY_NAMESPACE
} // namespace cpu
HWY_AFTER_NAMESPACE();

#endif
