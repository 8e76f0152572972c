// The gates: output(first, second), and gradient(), its derivatives times the gradient of the output.
//
// Included once per target; see hwy/foreach_target.h.
#if defined(CPU_SIMD_GATE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CPU_SIMD_GATE_INL_H
#undef CPU_SIMD_GATE_INL_H
#else
#define CPU_SIMD_GATE_INL_H
#endif

#include "gate.hpp"
#include "simd/activation-inl.h"
#include "simd/memory-inl.h"
#include "simd/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cpu {
namespace HWY_NAMESPACE {

struct GateGradient {
    VF first, second;
};

template<class Function>
struct Gated {
    HWY_INLINE VF output(VF first, VF second) const { return hn::Mul(Function::value(first), second); }
    HWY_INLINE GateGradient gradient(VF grad, VF first, VF second) const {
        const ValueAndSlope of_first = Function::both(first);
        return {hn::Mul(hn::Mul(grad, second), of_first.slope), hn::Mul(grad, of_first.value)};
    }
};

struct ClampedSilu {
    float limit, alpha;

    // min(first, limit), times its sigmoid
    HWY_INLINE VF output(VF first, VF second) const {
        const VF a = below(first);
        return hn::Mul(hn::Mul(a, sigmoid(hn::Mul(a, hn::Set(f32, alpha)))), shifted(second));
    }
    HWY_INLINE GateGradient gradient(VF grad, VF first, VF second) const {
        const VF a = below(first);
        const VF steepness = hn::Set(f32, alpha);
        const ValueAndSlope of_first = gated_by(a, sigmoid(hn::Mul(a, steepness)), steepness);
        const auto free = hn::Le(first, hn::Set(f32, limit));
        const auto free_second = hn::And(hn::Ge(second, hn::Set(f32, -limit)), hn::Le(second, hn::Set(f32, limit)));
        return {hn::IfThenElseZero(free, hn::Mul(hn::Mul(grad, shifted(second)), of_first.slope)),
                hn::IfThenElseZero(free_second, hn::Mul(grad, of_first.value))};
    }

  private:
    HWY_INLINE VF below(VF first) const {
        const VF most = hn::Set(f32, limit);
        return hn::IfThenElse(hn::Gt(first, most), most, first); // NaN is kept
    }
    HWY_INLINE VF shifted(VF second) const { return hn::Add(clamp(second, -limit, limit), hn::Set(f32, 1.0f)); }
};

// Calls visit(Gated<Gelu>{}) and so on.
template<class Visitor>
HWY_INLINE void visit_gate(const Gate &gate, Visitor visit) {
    if (gate.clamped)
        visit(ClampedSilu{gate.limit, gate.alpha});
    else
        visit_activation(gate.activation, [&](auto function) { visit(Gated<decltype(function)>{}); });
}

template<class Function, class T>
HWY_INLINE void gate_forward(Function gate, const T *first, const T *second, const Sink<T> &output, size_t n) {
    along(n, [=](size_t i, auto extent)
                 HWY_ATTR { output.store(gate.output(load(first + i, extent), load(second + i, extent)), i, extent); });
}

template<class Function, class T>
HWY_INLINE void gate_backward(Function gate, const T *grad, const T *first, const T *second, const Sink<T> &grad_first,
                              const Sink<T> &grad_second, size_t n) {
    for (size_t begin = 0; begin < n; begin += Stage<T>::size) {
        const size_t end = HWY_MIN(begin + Stage<T>::size, n);
        Stage<T> stage;
        along(begin, end, [=, &stage](size_t i, auto extent) HWY_ATTR {
            const GateGradient gradient =
                gate.gradient(load(grad + i, extent), load(first + i, extent), load(second + i, extent));
            grad_first.store(gradient.first, i, extent);
            stage.store(gradient.second, i - begin, extent);
        });
        grad_second.copy(stage.elements(), begin, end);
    }
}

} // namespace HWY_NAMESPACE
} // namespace cpu
HWY_AFTER_NAMESPACE();

#endif
