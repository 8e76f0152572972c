#include "float64.hpp"
#include "ops/activation_functions.hpp"
#include "ops/ops.hpp"

namespace reference {

Status swiglu(const Call &call) {
    return opdock::visit_floating(call.input(0)->dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        const auto input = call.input<const T>(0);
        const auto output = call.output<T>(0);
        const std::int64_t n = output.size(-1);
        for (std::int64_t r = 0; r < output.rows(); ++r) {
            const auto from = input.row(r);
            const auto to = output.row(r);
            for (std::int64_t i = 0; i < n; ++i)
                to[i] = rounded<T>(silu_of(wide(from[i])) * wide(from[n + i]));
        }
        return Status();
    });
}

Status dswiglu(const Call &call) {
    return opdock::visit_floating(call.input(0)->dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        const auto grad = call.input<const T>(0);
        const auto input = call.input<const T>(1);
        const auto grad_input = call.output<T>(0);
        const std::int64_t n = grad.size(-1);
        for (std::int64_t r = 0; r < grad.rows(); ++r) {
            const auto g = grad.row(r);
            const auto from = input.row(r);
            const auto to = grad_input.row(r);
            for (std::int64_t i = 0; i < n; ++i) {
                const double gate = wide(from[i]);
                const double up = wide(from[n + i]);
                to[i] = rounded<T>(wide(g[i]) * up * silu_slope(gate));
                to[n + i] = rounded<T>(wide(g[i]) * silu_of(gate));
            }
        }
        return Status();
    });
}

Status silu_and_mul(const Call &call) {
    return opdock::visit_floating(call.input(0)->dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        const auto gated = [](double gate, double up) { return silu_of(gate) * up; };
        map(call.output<T>(0), gated, call.input<const T>(0), call.input<const T>(1));
        return Status();
    });
}

} // namespace reference
