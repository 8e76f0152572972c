#include <cmath>

#include "float64.hpp"
#include "ops/ops.hpp"

namespace reference {

namespace {

// Sums term(x, y) over each row of log-probabilities x and targets y; the sum is the loss of the row.
template<class Term>
Status divergence(const Call &call, Term term) {
    return visit_floating(call.input(0)->dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        const auto input = call.input<const T>(0), target = call.input<const T>(1);
        const auto loss = call.output<float>(0);
        for (std::int64_t r = 0; r < input.rows(); ++r) {
            const auto x = input.row(r), y = target.row(r);
            double sum = 0;
            for (std::int64_t i = 0; i < x.size(); ++i)
                sum += term(wide(x[i]), wide(y[i]));
            loss[r] = rounded<float>(sum);
        }
        return Status();
    });
}

// Returns the product, or 0 if the weight is 0, because the logarithm may be infinite there.
double weighed(double weight, double value) {
    return weight == 0 ? 0 : weight * value;
}

double target_probability(double target, bool is_log) {
    return is_log ? std::exp(target) : target;
}

Status kl_div(const Call &call) {
    const bool is_log = call.get_bool(0);
    return divergence(call, [&](double x, double y) {
        const double p = target_probability(y, is_log);
        return weighed(p, (is_log ? y : std::log(p)) - x);
    });
}

Status kl_div_bwd(const Call &call) {
    return visit_floating(call.input(1)->dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        const auto grad_loss = call.input<const float>(0);
        const auto target = call.input<const T>(1);
        const auto grad_input = call.output<T>(0);
        for (std::int64_t r = 0; r < target.rows(); ++r) {
            const auto y = target.row(r);
            const auto to = grad_input.row(r);
            for (std::int64_t i = 0; i < y.size(); ++i)
                to[i] = rounded<T>(-wide(grad_loss[r]) * target_probability(wide(y[i]), call.get_bool(0)));
        }
        return Status();
    });
}

Status check_beta(const Problem &problem) {
    const double beta = problem.get_float(0);
    return beta >= 0 && beta <= 1
               ? Status()
               : opdock::invalid_argument("beta: " + std::to_string(beta) + "; expected a number from 0 to 1");
}

struct Mixture {
    double beta;

    double loss(double x, double y) const {
        const double q = std::exp(x), p = std::exp(y);
        if (beta == 0)
            return weighed(p, y - x);
        if (beta == 1)
            return weighed(q, x - y);
        const double log_m = std::log(beta * p + (1 - beta) * q);
        return weighed(beta * p, y - log_m) + weighed((1 - beta) * q, x - log_m);
    }
    double gradient(double x, double y) const {
        const double q = std::exp(x), p = std::exp(y);
        if (beta == 0)
            return -p;
        if (beta == 1)
            return weighed(q, x - y + 1);
        return weighed((1 - beta) * q, x - std::log(beta * p + (1 - beta) * q));
    }
};

Status jsd(const Call &call) {
    const Mixture mixture = {call.get_float(0)};
    return divergence(call, [&](double x, double y) { return mixture.loss(x, y); });
}

Status jsd_bwd(const Call &call) {
    const Mixture mixture = {call.get_float(0)};
    return visit_floating(call.input(1)->dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        const auto grad_loss = call.input<const float>(0);
        const auto input = call.input<const T>(1), target = call.input<const T>(2);
        const auto grad_input = call.output<T>(0);
        for (std::int64_t r = 0; r < input.rows(); ++r) {
            const auto x = input.row(r), y = target.row(r);
            const auto to = grad_input.row(r);
            for (std::int64_t i = 0; i < x.size(); ++i)
                to[i] = rounded<T>(wide(grad_loss[r]) * mixture.gradient(wide(x[i]), wide(y[i])));
        }
        return Status();
    });
}

} // namespace

void add_divergence(Plugin &plugin) {
    namespace ops = opdock::ops;
    plugin.add(ops::kl_div, any_float, opdock::kernel<&kl_div>);
    plugin.add(ops::kl_div_bwd, any_float, opdock::kernel<&kl_div_bwd>);
    plugin.add(ops::jsd, any_float, opdock::kernel<&jsd>, opdock::supports<&check_beta>);
    plugin.add(ops::jsd_bwd, any_float, opdock::kernel<&jsd_bwd>, opdock::supports<&check_beta>);
}

} // namespace reference
