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

// grad_bias sums what grad_input is before it is rounded.
template<double (*slope)(double)>
Status gradient_with_bias(const Call &call) {
    return opdock::visit_floating(call.input(0)->dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        const auto grad = call.input<const T>(0);
        const auto input = call.input<const T>(1);
        const auto grad_bias = call.output<T>(0);
        const auto grad_input = call.output<T>(1);
        std::vector<double> sums(static_cast<std::size_t>(grad.size(-1)));
        for (std::int64_t r = 0; r < grad.rows(); ++r) {
            const auto g = grad.row(r);
            const auto x = input.row(r);
            const auto to = grad_input.row(r);
            for (std::int64_t i = 0; i < g.size(); ++i) {
                const double gradient = wide(g[i]) * slope(wide(x[i]));
                to[i] = rounded<T>(gradient);
                sums[static_cast<std::size_t>(i)] += gradient;
            }
        }
        narrow(sums, grad_bias.row(0));
        return Status();
    });
}

} // namespace

Status gelu(const Call &call) {
    return activation<gelu_of>(call);
}
Status gelu_bwd(const Call &call) {
    return gradient<gelu_slope>(call);
}
Status gelu_bwd_bias(const Call &call) {
    return gradient_with_bias<gelu_slope>(call);
}

Status qgelu(const Call &call) {
    return activation<qgelu_of>(call);
}
Status qgelu_bwd(const Call &call) {
    return gradient<qgelu_slope>(call);
}
Status qgelu_bwd_bias(const Call &call) {
    return gradient_with_bias<qgelu_slope>(call);
}

Status relu(const Call &call) {
    return activation<relu_of>(call);
}
Status relu_bwd(const Call &call) {
    return gradient<relu_slope>(call);
}
Status relu_bwd_bias(const Call &call) {
    return gradient_with_bias<relu_slope>(call);
}

Status silu(const Call &call) {
    return activation<silu_of>(call);
}
Status silu_bwd(const Call &call) {
    return gradient<silu_slope>(call);
}
Status silu_bwd_bias(const Call &call) {
    return gradient_with_bias<silu_slope>(call);
}

Status srelu(const Call &call) {
    return activation<srelu_of>(call);
}
Status srelu_bwd(const Call &call) {
    return gradient<srelu_slope>(call);
}
Status srelu_bwd_bias(const Call &call) {
    return gradient_with_bias<srelu_slope>(call);
}

} // namespace reference
