// gelu, silu, relu and their derivatives.
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

template<class Activation>
void activate(const Run &run) {
    map_unary(run, [](VF x) HWY_ATTR { return Activation::value(x); });
}

template<class Activation>
void differentiate(const Run &run) {
    map_binary(run, [](VF grad, VF x) HWY_ATTR { return hn::Mul(grad, Activation::slope(x)); });
}

void gelu_run(const Run &run) {
    activate<Gelu>(run);
}
void silu_run(const Run &run) {
    activate<Silu>(run);
}
void relu_run(const Run &run) {
    activate<Relu>(run);
}
void dgelu_run(const Run &run) {
    differentiate<Gelu>(run);
}
void dsilu_run(const Run &run) {
    differentiate<Silu>(run);
}
void drelu_run(const Run &run) {
    differentiate<Relu>(run);
}

} // namespace HWY_NAMESPACE
} // namespace cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cpu {

HWY_EXPORT(gelu_run);
HWY_EXPORT(silu_run);
HWY_EXPORT(relu_run);
HWY_EXPORT(dgelu_run);
HWY_EXPORT(dsilu_run);
HWY_EXPORT(drelu_run);

namespace {

constexpr Operand forward_operands[] = {{"input"}, {"output"}};
constexpr Operand backward_operands[] = {{"grad"}, {"input"}, {"grad_input"}};

opdock::Status check_forward(const opdock::Problem &problem) {
    return check_rows(problem, forward_operands);
}
opdock::Status check_backward(const opdock::Problem &problem) {
    return check_rows(problem, backward_operands);
}

template<void (*loop)(const Run &)>
opdock::Status forward(const opdock::Call &call) {
    opdock::Status status = check_forward(call);
    return status.ok() ? elementwise(call, 1, loop) : std::move(status);
}

template<void (*loop)(const Run &)>
opdock::Status backward(const opdock::Call &call) {
    opdock::Status status = check_backward(call);
    return status.ok() ? elementwise(call, 1, loop) : std::move(status);
}

void gelu_best(const Run &run) {
    HWY_DYNAMIC_DISPATCH(gelu_run)(run);
}
void silu_best(const Run &run) {
    HWY_DYNAMIC_DISPATCH(silu_run)(run);
}
void relu_best(const Run &run) {
    HWY_DYNAMIC_DISPATCH(relu_run)(run);
}
void dgelu_best(const Run &run) {
    HWY_DYNAMIC_DISPATCH(dgelu_run)(run);
}
void dsilu_best(const Run &run) {
    HWY_DYNAMIC_DISPATCH(dsilu_run)(run);
}
void drelu_best(const Run &run) {
    HWY_DYNAMIC_DISPATCH(drelu_run)(run);
}

template<void (*loop)(const Run &)>
constexpr Implementation activation = {opdock::kernel<&forward<loop>>, opdock::supports<&check_forward>};
template<void (*loop)(const Run &)>
constexpr Implementation derivative = {opdock::kernel<&backward<loop>>, opdock::supports<&check_backward>};

} // namespace

const Implementation gelu = activation<gelu_best>;
const Implementation silu = activation<silu_best>;
const Implementation relu = activation<relu_best>;
const Implementation dgelu = derivative<dgelu_best>;
const Implementation dsilu = derivative<dsilu_best>;
const Implementation drelu = derivative<drelu_best>;

} // namespace cpu
#endif
