#include "float64.hpp"
#include "ops/activation_functions.hpp"
#include "ops/ops.hpp"

namespace reference {

namespace {

template<double (*function)(double)>
Status activation(const Call &call) {
    return visit_floating(call.input(0)->dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        map(call.output<T>(0), function, call.input<const T>(0));
        return Status();
    });
}

template<double (*slope)(double)>
Status gradient(const Call &call) {
    return visit_floating(call.input(0)->dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        const auto chain = [](double grad, double x) { return grad * slope(x); };
        map(call.output<T>(0), chain, call.input<const T>(0), call.input<const T>(1));
        return Status();
    });
}

// grad_bias sums grad_input before it is rounded.
template<double (*slope)(double)>
Status gradient_with_bias(const Call &call) {
    return visit_floating(call.input(0)->dtype, [&](auto tag) {
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

void add_activation(Plugin &plugin) {
    namespace ops = opdock::ops;
    plugin.add(ops::gelu, any_float, opdock::kernel<&activation<gelu_of>>);
    plugin.add(ops::gelu_bwd, any_float, opdock::kernel<&gradient<gelu_slope>>);
    plugin.add(ops::gelu_bwd_bias, any_float, opdock::kernel<&gradient_with_bias<gelu_slope>>);
    plugin.add(ops::qgelu, any_float, opdock::kernel<&activation<qgelu_of>>);
    plugin.add(ops::qgelu_bwd, any_float, opdock::kernel<&gradient<qgelu_slope>>);
    plugin.add(ops::qgelu_bwd_bias, any_float, opdock::kernel<&gradient_with_bias<qgelu_slope>>);
    plugin.add(ops::relu, any_float, opdock::kernel<&activation<relu_of>>);
    plugin.add(ops::relu_bwd, any_float, opdock::kernel<&gradient<relu_slope>>);
    plugin.add(ops::relu_bwd_bias, any_float, opdock::kernel<&gradient_with_bias<relu_slope>>);
    plugin.add(ops::silu, any_float, opdock::kernel<&activation<silu_of>>);
    plugin.add(ops::silu_bwd, any_float, opdock::kernel<&gradient<silu_slope>>);
    plugin.add(ops::silu_bwd_bias, any_float, opdock::kernel<&gradient_with_bias<silu_slope>>);
    plugin.add(ops::srelu, any_float, opdock::kernel<&activation<srelu_of>>);
    plugin.add(ops::srelu_bwd, any_float, opdock::kernel<&gradient<srelu_slope>>);
    plugin.add(ops::srelu_bwd_bias, any_float, opdock::kernel<&gradient_with_bias<srelu_slope>>);
}

} // namespace reference
