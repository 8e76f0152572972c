#include "float64.hpp"
#include "ops/activation_functions.hpp"
#include "ops/ops.hpp"

namespace reference {

namespace {

// The gradients of the two inputs of a gate.
struct Gradients {
    double first, second;
};

template<double (*value)(double), double (*slope)(double)>
struct Gated {
    explicit Gated(const Call & /*call*/) {}

    double output(double first, double second) const { return value(first) * second; }
    Gradients gradients(double grad, double first, double second) const {
        return {grad * second * slope(first), grad * value(first)};
    }
};

using Geglu = Gated<gelu_of, gelu_slope>;
using Qgeglu = Gated<qgelu_of, qgelu_slope>;
using Reglu = Gated<relu_of, relu_slope>;
using Sreglu = Gated<srelu_of, srelu_slope>;
using Swiglu = Gated<silu_of, silu_slope>;

struct ClampedSwiglu {
    double limit, alpha;

    explicit ClampedSwiglu(const Call &call) : limit(call.get_float(0)), alpha(call.get_float(1)) {}

    double below(double first) const { return first > limit ? limit : first; } // NaN is kept
    double within(double second) const { return second < -limit ? -limit : below(second); }

    double output(double first, double second) const {
        const double a = below(first);
        return a * sigmoid(alpha * a) * (within(second) + 1);
    }
    Gradients gradients(double grad, double first, double second) const {
        const double a = below(first);
        const double s = sigmoid(alpha * a);
        const bool second_counts = -limit <= second && second <= limit;
        return {first <= limit ? grad * (within(second) + 1) * s * (1 + alpha * a * (1 - s)) : 0,
                second_counts ? grad * a * s : 0};
    }
};

template<class Gate>
Status halves(const Call &call) {
    const Gate gate(call);
    return visit_floating(call.input(0)->dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        const auto input = call.input<const T>(0);
        const auto output = call.output<T>(0);
        const std::int64_t n = output.size(-1);
        for (std::int64_t r = 0; r < output.rows(); ++r) {
            const auto from = input.row(r);
            const auto to = output.row(r);
            for (std::int64_t i = 0; i < n; ++i)
                to[i] = rounded<T>(gate.output(wide(from[i]), wide(from[n + i])));
        }
        return Status();
    });
}

template<class Gate>
Status halves_backward(const Call &call) {
    const Gate gate(call);
    return visit_floating(call.input(0)->dtype, [&](auto tag) {
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
                const Gradients found = gate.gradients(wide(g[i]), wide(from[i]), wide(from[n + i]));
                to[i] = rounded<T>(found.first);
                to[n + i] = rounded<T>(found.second);
            }
        }
        return Status();
    });
}

template<class Gate>
Status two_tensors(const Call &call) {
    const Gate gate(call);
    return visit_floating(call.input(0)->dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        const auto gated = [&](double first, double second) { return gate.output(first, second); };
        map(call.output<T>(0), gated, call.input<const T>(0), call.input<const T>(1));
        return Status();
    });
}

template<class Gate>
Status two_tensors_backward(const Call &call) {
    const Gate gate(call);
    return visit_floating(call.input(0)->dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        const auto grad = call.input<const T>(0);
        const auto first = call.input<const T>(1);
        const auto second = call.input<const T>(2);
        const auto of_first = [&](double g, double x, double y) { return gate.gradients(g, x, y).first; };
        const auto of_second = [&](double g, double x, double y) { return gate.gradients(g, x, y).second; };
        map(call.output<T>(0), of_first, grad, first, second);
        map(call.output<T>(1), of_second, grad, first, second);
        return Status();
    });
}

} // namespace

void add_gated(Plugin &plugin) {
    namespace ops = opdock::ops;
    plugin.add(ops::geglu, any_float, opdock::kernel<&halves<Geglu>>);
    plugin.add(ops::geglu_bwd, any_float, opdock::kernel<&halves_backward<Geglu>>);
    plugin.add(ops::qgeglu, any_float, opdock::kernel<&halves<Qgeglu>>);
    plugin.add(ops::qgeglu_bwd, any_float, opdock::kernel<&halves_backward<Qgeglu>>);
    plugin.add(ops::reglu, any_float, opdock::kernel<&halves<Reglu>>);
    plugin.add(ops::reglu_bwd, any_float, opdock::kernel<&halves_backward<Reglu>>);
    plugin.add(ops::sreglu, any_float, opdock::kernel<&halves<Sreglu>>);
    plugin.add(ops::sreglu_bwd, any_float, opdock::kernel<&halves_backward<Sreglu>>);
    plugin.add(ops::swiglu, any_float, opdock::kernel<&halves<Swiglu>>);
    plugin.add(ops::swiglu_bwd, any_float, opdock::kernel<&halves_backward<Swiglu>>);
    plugin.add(ops::clamped_swiglu, any_float, opdock::kernel<&halves<ClampedSwiglu>>);
    plugin.add(ops::clamped_swiglu_bwd, any_float, opdock::kernel<&halves_backward<ClampedSwiglu>>);
    plugin.add(ops::silu_and_mul, any_float, opdock::kernel<&two_tensors<Swiglu>>);
    plugin.add(ops::silu_and_mul_bwd, any_float, opdock::kernel<&two_tensors_backward<Swiglu>>);
    plugin.add(ops::gelu_and_mul, any_float, opdock::kernel<&two_tensors<Geglu>>);
    plugin.add(ops::gelu_and_mul_bwd, any_float, opdock::kernel<&two_tensors_backward<Geglu>>);
}

} // namespace reference
