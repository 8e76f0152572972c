#include "float64.hpp"
#include "ops/activation_functions.hpp"
#include "ops/ops.hpp"

namespace reference {

namespace {

template<double (*function)(double)>
Status activation(const Call &call) {
    return opdock::visit_floating(call.input(0)->dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        map(call.output<T>(0), function, call.input<const T>(0));
        return Status();
    });
}

template<double (*slope)(double)>
Status gradient(const Call &call) {
    return opdock::visit_floating(call.input(0)->dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        const auto chain = [](double grad, double x) { return grad * slope(x); };
        map(call.output<T>(0), chain, call.input<const T>(0), call.input<const T>(1));
        return Status();
    });
}

} // namespace

Status gelu(const Call &call) {
    return activation<gelu_of>(call);
}
Status dgelu(const Call &call) {
    return gradient<gelu_slope>(call);
}
Status silu(const Call &call) {
    return activation<silu_of>(call);
}
Status dsilu(const Call &call) {
    return gradient<silu_slope>(call);
}
Status relu(const Call &call) {
    return activation<relu_of>(call);
}
Status drelu(const Call &call) {
    return gradient<relu_slope>(call);
}

} // namespace reference
