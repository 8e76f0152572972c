// The activations and their derivatives.
#include "activation.hpp"
#include "elementwise.hpp"
#include "ops/ops.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/activation.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h, which includes this file again for each target.
#include "hwy/highway.h"
#include "simd/activation-inl.h"
#include "simd/map-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cpu {
namespace HWY_NAMESPACE {

void activate(const Run &run, Activation activation) {
    visit_activation(activation, [&](auto function) HWY_ATTR {
        using Function = decltype(function);
        map_unary(run, [](VF x) HWY_ATTR { return Function::value(x); });
    });
}

void differentiate(const Run &run, Activation activation) {
    visit_activation(activation, [&](auto function) HWY_ATTR {
        using Function = decltype(function);
        map_binary(run, [](VF grad, VF x) HWY_ATTR { return hn::Mul(grad, Function::slope(x)); });
    });
}

} // namespace HWY_NAMESPACE
} // namespace cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cpu {

HWY_EXPORT(activate);
HWY_EXPORT(differentiate);

namespace {

constexpr Operand forward_operands[] = {{"input"}, {"output"}};
constexpr Operand backward_operands[] = {{"grad"}, {"input"}, {"grad_input"}};

opdock::Status check_forward(const opdock::Problem &problem) {
    return check_rows(problem, forward_operands);
}
opdock::Status check_backward(const opdock::Problem &problem) {
    return check_rows(problem, backward_operands);
}

template<Activation which>
opdock::Status forward(const opdock::Call &call) {
    return elementwise(call, 1, [](const Run &run) { HWY_DYNAMIC_DISPATCH(activate)(run, which); });
}

template<Activation which>
opdock::Status backward(const opdock::Call &call) {
    return elementwise(call, 2, [](const Run &run) { HWY_DYNAMIC_DISPATCH(differentiate)(run, which); });
}

template<Activation which>
constexpr Implementation value = {opdock::kernel<&forward<which>>, opdock::supports<&check_forward>};
template<Activation which>
constexpr Implementation derivative = {opdock::kernel<&backward<which>>, opdock::supports<&check_backward>};

} // namespace

void add_activation(Plugin &plugin) {
    namespace ops = opdock::ops;
    plugin.add(ops::gelu, any_float, value<Activation::gelu>);
    plugin.add(ops::qgelu, any_float, value<Activation::qgelu>);
    plugin.add(ops::relu, any_float, value<Activation::relu>);
    plugin.add(ops::silu, any_float, value<Activation::silu>);
    plugin.add(ops::srelu, any_float, value<Activation::srelu>);
    plugin.add(ops::gelu_bwd, any_float, derivative<Activation::gelu>);
    plugin.add(ops::qgelu_bwd, any_float, derivative<Activation::qgelu>);
    plugin.add(ops::relu_bwd, any_float, derivative<Activation::relu>);
    plugin.add(ops::silu_bwd, any_float, derivative<Activation::silu>);
    plugin.add(ops::srelu_bwd, any_float, derivative<Activation::srelu>);
}

} // namespace cpu
#endif
