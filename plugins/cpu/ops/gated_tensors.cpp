// Gated activations of two tensors, and their derivatives: silu_and_mul, gelu_and_mul.
#include "elementwise.hpp"
#include "gate.hpp"
#include "ops/ops.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/gated_tensors.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h, which includes this file again for each target.
#include "hwy/highway.h"
#include "simd/gate-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cpu {
namespace HWY_NAMESPACE {

// Calls visit(gate, TypeTag<T>) for the two activations that have such ops.
template<class Visitor>
void visit_gated_run(const Run &run, Activation activation, Visitor visit) {
    opdock::visit_floating(run.to, [&](auto t) {
        if (activation == Activation::gelu)
            visit(Gated<Gelu>{}, t);
        else
            visit(Gated<Silu>{}, t);
    });
    if (run.stream)
        hwy::FlushStream();
}

void act_and_mul(const Run &run, Activation activation) {
    visit_gated_run(run, activation, [&](auto gate, auto t) HWY_ATTR {
        using T = typename decltype(t)::type;
        gate_forward(gate, static_cast<const T *>(run.inputs[0]), static_cast<const T *>(run.inputs[1]),
                     Sink<T>(static_cast<T *>(run.outputs[0]), run.stream), run.count);
    });
}

void act_and_mul_backward(const Run &run, Activation activation) {
    visit_gated_run(run, activation, [&](auto gate, auto t) HWY_ATTR {
        using T = typename decltype(t)::type;
        gate_backward(gate, static_cast<const T *>(run.inputs[0]), static_cast<const T *>(run.inputs[1]),
                      static_cast<const T *>(run.inputs[2]), Sink<T>(static_cast<T *>(run.outputs[0]), run.stream),
                      Sink<T>(static_cast<T *>(run.outputs[1]), run.stream), run.count);
    });
}

} // namespace HWY_NAMESPACE
} // namespace cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cpu {

HWY_EXPORT(act_and_mul);
HWY_EXPORT(act_and_mul_backward);

namespace {

constexpr Operand forward_operands[] = {{"gate"}, {"up"}, {"output"}};
constexpr Operand backward_operands[] = {{"grad"}, {"gate"}, {"up"}, {"grad_gate"}, {"grad_up"}};

opdock::Status check_forward(const opdock::Problem &problem) {
    return check_rows(problem, forward_operands);
}
opdock::Status check_backward(const opdock::Problem &problem) {
    return check_rows(problem, backward_operands);
}

template<Activation which>
opdock::Status forward(const opdock::Call &call) {
    return elementwise(call, 2, [](const Run &run) { HWY_DYNAMIC_DISPATCH(act_and_mul)(run, which); });
}

template<Activation which>
opdock::Status backward(const opdock::Call &call) {
    return elementwise(call, 3, [](const Run &run) { HWY_DYNAMIC_DISPATCH(act_and_mul_backward)(run, which); });
}

template<Activation which>
constexpr Implementation output = {opdock::kernel<&forward<which>>, opdock::supports<&check_forward>};
template<Activation which>
constexpr Implementation gradient = {opdock::kernel<&backward<which>>, opdock::supports<&check_backward>};

} // namespace

void add_gated_tensors(Plugin &plugin) {
    namespace ops = opdock::ops;
    plugin.add(ops::gelu_and_mul, any_float, output<Activation::gelu>);
    plugin.add(ops::silu_and_mul, any_float, output<Activation::silu>);
    plugin.add(ops::gelu_and_mul_bwd, any_float, gradient<Activation::gelu>);
    plugin.add(ops::silu_and_mul_bwd, any_float, gradient<Activation::silu>);
}

} // namespace cpu
#endif
