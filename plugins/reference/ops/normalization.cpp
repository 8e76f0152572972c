#include <numeric>

#include "float64.hpp"
#include "ops/ops.hpp"

namespace reference {

namespace {

using opdock::TensorView;
using Doubles = std::vector<double>;

// Calls function(tag of T, tag of U) for the dtypes of the rows and of the weight.
template<class Function>
Status for_dtypes(const DLTensor *rows, const DLTensor *weight, Function function) {
    return visit_floating(rows->dtype, [&](auto t) {
        return visit_floating(weight->dtype, [&](auto u) {
            function(t, u);
            return Status();
        });
    });
}

// The mean of an empty row is 0, so that its rsigma is the finite 1 / sqrt(eps).
double mean(const Doubles &x) {
    return x.empty() ? 0 : std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
}

double mean_product(const Doubles &x, const Doubles &y) {
    return x.empty() ? 0 : std::inner_product(x.begin(), x.end(), y.begin(), 0.0) / static_cast<double>(x.size());
}

template<class U>
Doubles gamma(TensorView<const U> weight, bool zero_centered) {
    Doubles g;
    widen(weight.row(0), g);
    for (double &element : g)
        element += zero_centered ? 1 : 0;
    return g;
}

double reciprocal_deviation(const Doubles &centered, double eps) {
    return 1 / std::sqrt(mean_product(centered, centered) + eps);
}

// load(r, x) reads row r into x.
template<class T, class Load>
void rmsnorm_rows(TensorView<T> output, TensorView<float> rsigma, const Doubles &g, double eps, Load load) {
    Doubles x;
    for (std::int64_t r = 0; r < output.rows(); ++r) {
        load(r, x);
        const double reciprocal = reciprocal_deviation(x, eps);
        const auto to = output.row(r);
        for (std::size_t i = 0; i < x.size(); ++i)
            to[static_cast<std::int64_t>(i)] = rounded<T>(x[i] * reciprocal * g[i]);
        if (rsigma)
            rsigma[r] = rounded<float>(reciprocal);
    }
}

// Backward pass of both norms: if mu is absent, rows are not centered.
template<class T, class U>
struct Backward {
    TensorView<const T> grad, input, add; // add may be absent
    TensorView<const float> mu, rsigma;
    Doubles gamma;
    TensorView<T> grad_input;
    TensorView<U> grad_weight, grad_bias;

    void run() const {
        const auto n = gamma.size();
        Doubles g, x, d(n), weight_sum(n), bias_sum(n);
        for (std::int64_t r = 0; r < input.rows(); ++r) {
            widen(grad.row(r), g);
            widen(input.row(r), x);
            const double reciprocal = wide(rsigma[r]);
            const double center = mu ? wide(mu[r]) : 0;
            for (std::size_t i = 0; i < n; ++i) {
                x[i] = (x[i] - center) * reciprocal;
                d[i] = g[i] * gamma[i];
                weight_sum[i] += g[i] * x[i];
                bias_sum[i] += g[i];
            }
            const double along_ones = mu ? mean(d) : 0;
            const double along_x = mean_product(d, x);
            for (std::size_t i = 0; i < n; ++i)
                d[i] = reciprocal * (d[i] - along_ones - x[i] * along_x);
            if (add) {
                widen(add.row(r), x);
                for (std::size_t i = 0; i < n; ++i)
                    d[i] += x[i];
            }
            narrow(d, grad_input.row(r));
        }
        store(grad_weight, weight_sum);
        store(grad_bias, bias_sum);
    }

    static void store(TensorView<U> to, const Doubles &sum) {
        if (to)
            narrow(sum, to.row(0));
    }
};

// Both ops without mu: with `add`, the parameters after the rows move by one.
Status rmsnorm_backward(const Call &call, bool with_add) {
    const std::uint32_t rsigma = with_add ? 3 : 2, weight = rsigma + 1;
    return for_dtypes(call.input(0), call.input(weight), [&](auto t, auto u) {
        using T = typename decltype(t)::type;
        using U = typename decltype(u)::type;
        Backward<T, U> backward;
        backward.grad = call.input<const T>(0);
        backward.input = call.input<const T>(1);
        if (with_add)
            backward.add = call.input<const T>(2);
        backward.rsigma = call.input<const float>(rsigma);
        backward.gamma = gamma(call.input<const U>(weight), call.get_bool(0));
        backward.grad_input = call.output<T>(0);
        backward.grad_weight = call.output<U>(1);
        backward.run();
    });
}

Status rmsnorm_fwd(const Call &call) {
    return for_dtypes(call.input(0), call.input(1), [&](auto t, auto u) {
        using T = typename decltype(t)::type;
        using U = typename decltype(u)::type;
        const auto input = call.input<const T>(0);
        const Doubles g = gamma(call.input<const U>(1), call.get_bool(1));
        rmsnorm_rows(call.output<T>(0), call.output<float>(1), g, call.get_float(0),
                     [&](std::int64_t r, Doubles &x) { widen(input.row(r), x); });
    });
}

Status fused_add_rmsnorm_fwd(const Call &call) {
    return for_dtypes(call.input(0), call.input(2), [&](auto t, auto u) {
        using T = typename decltype(t)::type;
        using U = typename decltype(u)::type;
        const auto input = call.input<const T>(0);
        const auto residual = call.input<const T>(1);
        const auto sum = call.output<T>(1);
        const Doubles g = gamma(call.input<const U>(2), call.get_bool(1));
        rmsnorm_rows(call.output<T>(0), call.output<float>(2), g, call.get_float(0), [&](std::int64_t r, Doubles &x) {
            const auto a = input.row(r);
            const auto b = residual.row(r);
            const auto to = sum.row(r);
            x.resize(g.size());
            for (std::size_t i = 0; i < x.size(); ++i) {
                const auto at = static_cast<std::int64_t>(i);
                to[at] = rounded<T>(wide(a[at]) + wide(b[at]));
                x[i] = wide(to[at]); // as the backward pass will see it, and as rmsnorm_fwd of an add would
            }
        });
    });
}

Status layernorm_fwd(const Call &call) {
    return for_dtypes(call.input(0), call.input(1), [&](auto t, auto u) {
        using T = typename decltype(t)::type;
        using U = typename decltype(u)::type;
        const auto input = call.input<const T>(0);
        const auto output = call.output<T>(0);
        const auto mu = call.output<float>(1);
        const auto rsigma = call.output<float>(2);
        const Doubles g = gamma(call.input<const U>(1), call.get_bool(1));
        Doubles bias, x;
        widen(call.input<const U>(2).row(0), bias);
        for (std::int64_t r = 0; r < output.rows(); ++r) {
            widen(input.row(r), x);
            const double center = mean(x);
            for (double &element : x)
                element -= center;
            const double reciprocal = reciprocal_deviation(x, call.get_float(0));
            const auto to = output.row(r);
            for (std::size_t i = 0; i < x.size(); ++i)
                to[static_cast<std::int64_t>(i)] = rounded<T>(x[i] * reciprocal * g[i] + bias[i]);
            if (mu)
                mu[r] = rounded<float>(center);
            if (rsigma)
                rsigma[r] = rounded<float>(reciprocal);
        }
    });
}

Status rmsnorm_bwd(const Call &call) {
    return rmsnorm_backward(call, false);
}

Status rmsnorm_bwd_add(const Call &call) {
    return rmsnorm_backward(call, true);
}

Status layernorm_bwd(const Call &call) {
    return for_dtypes(call.input(0), call.input(4), [&](auto t, auto u) {
        using T = typename decltype(t)::type;
        using U = typename decltype(u)::type;
        Backward<T, U> backward;
        backward.grad = call.input<const T>(0);
        backward.input = call.input<const T>(1);
        backward.mu = call.input<const float>(2);
        backward.rsigma = call.input<const float>(3);
        backward.gamma = gamma(call.input<const U>(4), call.get_bool(0));
        backward.grad_input = call.output<T>(0);
        backward.grad_weight = call.output<U>(1);
        backward.grad_bias = call.output<U>(2);
        backward.run();
    });
}

Status l2norm_fwd(const Call &call) {
    return visit_floating(call.input(0)->dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        const auto input = call.input<const T>(0);
        const auto output = call.output<T>(0);
        const auto rnorm = call.output<float>(1);
        Doubles x;
        for (std::int64_t r = 0; r < input.rows(); ++r) {
            widen(input.row(r), x);
            const double squares = std::inner_product(x.begin(), x.end(), x.begin(), 0.0);
            const double reciprocal = 1 / std::sqrt(squares + call.get_float(0));
            for (double &element : x)
                element *= reciprocal;
            narrow(x, output.row(r));
            if (rnorm)
                rnorm[r] = rounded<float>(reciprocal);
        }
        return Status();
    });
}

Status l2norm_bwd(const Call &call) {
    return visit_floating(call.input(0)->dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        const auto grad = call.input<const T>(0);
        const auto input = call.input<const T>(1);
        const auto rnorm = call.input<const float>(2);
        const auto grad_input = call.output<T>(0);
        Doubles g, x;
        for (std::int64_t r = 0; r < input.rows(); ++r) {
            widen(grad.row(r), g);
            widen(input.row(r), x);
            const double reciprocal = wide(rnorm[r]);
            for (double &element : x)
                element *= reciprocal;
            const double along_x = std::inner_product(g.begin(), g.end(), x.begin(), 0.0);
            for (std::size_t i = 0; i < g.size(); ++i)
                g[i] = reciprocal * (g[i] - x[i] * along_x);
            narrow(g, grad_input.row(r));
        }
        return Status();
    });
}

// The elements of a channel, by their positions in the whole tensor.
struct Channels {
    std::int64_t batch, channels, groups, n;

    static Channels of(const DLTensor &input, std::int64_t groups) {
        std::int64_t n = 1;
        for (int d = 2; d < input.ndim; ++d)
            n *= input.shape[d];
        return {input.shape[0], input.shape[1], groups, n};
    }
    std::int64_t size_of_group() const { return channels / groups * n; }
    // Channel of element i of group `group`, where groups are counted over the whole batch.
    std::int64_t channel(std::int64_t group, std::int64_t i) const {
        return (group % groups * size_of_group() + i) / n;
    }
};

Status group_norm_fwd(const Call &call) {
    const Channels shape = Channels::of(*call.input(0), call.get_int(0));
    return for_dtypes(call.input(0), call.input(1), [&](auto t, auto u) {
        using T = typename decltype(t)::type;
        using U = typename decltype(u)::type;
        const auto input = call.input<const T>(0);
        const auto weight = call.input<const U>(1), bias = call.input<const U>(2);
        const auto output = call.output<T>(0);
        const auto mu = call.output<float>(1), rsigma = call.output<float>(2);
        const std::int64_t size = shape.size_of_group();
        Doubles x(static_cast<std::size_t>(size));
        for (std::int64_t group = 0; group < shape.batch * shape.groups; ++group) {
            std::int64_t i = group * size;
            for (double &element : x)
                element = wide(input[i++]);
            const double center = mean(x);
            for (double &element : x)
                element -= center;
            const double reciprocal = reciprocal_deviation(x, call.get_float(1));
            for (i = 0; i < size; ++i) {
                const std::int64_t channel = shape.channel(group, i);
                output[group * size + i] = rounded<T>(
                    x[static_cast<std::size_t>(i)] * reciprocal * wide(weight[channel]) + wide(bias[channel]));
            }
            if (mu)
                mu[group] = rounded<float>(center);
            if (rsigma)
                rsigma[group] = rounded<float>(reciprocal);
        }
    });
}

Status group_norm_bwd(const Call &call) {
    const Channels shape = Channels::of(*call.input(1), call.input(2)->shape[1]);
    return for_dtypes(call.input(1), call.input(4), [&](auto t, auto u) {
        using T = typename decltype(t)::type;
        using U = typename decltype(u)::type;
        const auto grad = call.input<const T>(0), input = call.input<const T>(1);
        const auto mu = call.input<const float>(2), rsigma = call.input<const float>(3);
        const auto weight = call.input<const U>(4);
        const auto grad_input = call.output<T>(0);
        const std::int64_t size = shape.size_of_group();
        Doubles x(static_cast<std::size_t>(size)), d(x.size());
        Doubles weight_sum(static_cast<std::size_t>(shape.channels)), bias_sum(weight_sum.size());
        for (std::int64_t group = 0; group < shape.batch * shape.groups; ++group) {
            const double reciprocal = wide(rsigma[group]);
            for (std::size_t i = 0; i < x.size(); ++i) {
                const std::int64_t at = group * size + static_cast<std::int64_t>(i);
                const std::int64_t channel = shape.channel(group, static_cast<std::int64_t>(i));
                const double g = wide(grad[at]);
                x[i] = (wide(input[at]) - wide(mu[group])) * reciprocal;
                d[i] = g * wide(weight[channel]);
                weight_sum[static_cast<std::size_t>(channel)] += g * x[i];
                bias_sum[static_cast<std::size_t>(channel)] += g;
            }
            const double along_ones = mean(d), along_x = mean_product(d, x);
            for (std::size_t i = 0; i < x.size(); ++i)
                grad_input[group * size + static_cast<std::int64_t>(i)] =
                    rounded<T>(reciprocal * (d[i] - along_ones - x[i] * along_x));
        }
        Backward<T, U>::store(call.output<U>(1), weight_sum);
        Backward<T, U>::store(call.output<U>(2), bias_sum);
    });
}

} // namespace

void add_normalization(Plugin &plugin) {
    namespace ops = opdock::ops;
    plugin.add(ops::rmsnorm_fwd, weighted, opdock::kernel<&rmsnorm_fwd>);
    plugin.add(ops::fused_add_rmsnorm_fwd, weighted, opdock::kernel<&fused_add_rmsnorm_fwd>);
    plugin.add(ops::layernorm_fwd, weighted, opdock::kernel<&layernorm_fwd>);
    plugin.add(ops::rmsnorm_bwd, weighted, opdock::kernel<&rmsnorm_bwd>);
    plugin.add(ops::rmsnorm_bwd_add, weighted, opdock::kernel<&rmsnorm_bwd_add>);
    plugin.add(ops::layernorm_bwd, weighted, opdock::kernel<&layernorm_bwd>);
    plugin.add(ops::l2norm_fwd, any_float, opdock::kernel<&l2norm_fwd>);
    plugin.add(ops::l2norm_bwd, any_float, opdock::kernel<&l2norm_bwd>);
    plugin.add(ops::group_norm_fwd, weighted, opdock::kernel<&group_norm_fwd>);
    plugin.add(ops::group_norm_bwd, weighted, opdock::kernel<&group_norm_bwd>);
}

} // namespace reference
