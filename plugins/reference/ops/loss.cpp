#include <algorithm>
#include <cmath>
#include <numeric>

#include "float64.hpp"
#include "ops/ops.hpp"

namespace reference {

namespace {

using opdock::TensorView;

struct Options {
    std::int64_t ignore_index;
    double smoothing;
};

Options options_of(const Call &call) {
    return {call.get_int(0), call.get_float(1)};
}

// Checks that every target is a class or ignore_index. Called before anything is written.
Status check_targets(TensorView<const std::int64_t> target, std::int64_t classes, const Options &options) {
    for (std::int64_t r = 0; r < target.numel(); ++r)
        if (target[r] != options.ignore_index && (target[r] < 0 || target[r] >= classes))
            return opdock::invalid_argument("target: row " + std::to_string(r) + " names class " +
                                            std::to_string(target[r]) + "; expected 0 <= class < " +
                                            std::to_string(classes) + ", or ignore_index (" +
                                            std::to_string(options.ignore_index) + ")");
    return {};
}

double log_sum_exp(const std::vector<double> &logits) {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    double largest = -infinity;
    for (double logit : logits)
        largest = logit > largest || std::isnan(logit) ? logit : largest; // once NaN, it stays NaN
    if (largest == -infinity)                                             // no class is possible, or there is none
        return -infinity;
    double sum = 0;
    for (double logit : logits)
        sum += std::exp(logit - largest);
    return largest + std::log(sum);
}

double loss_of(const std::vector<double> &logits, double lse, std::int64_t target, double smoothing) {
    const double loss = lse - logits[static_cast<std::size_t>(target)];
    if (smoothing == 0) // 0 times a logit of minus infinity would be NaN
        return loss;
    double sum = 0;
    for (double logit : logits)
        sum += logit;
    // Subtract first, so that the loss of a single class is 0.
    return (1 - smoothing) * loss + smoothing * (lse - sum / static_cast<double>(logits.size()));
}

// Replaces logits by the gradient of their loss, times a factor.
void make_gradient(std::vector<double> &logits, double lse, std::int64_t target, const Options &options,
                   double factor) {
    const double others = options.smoothing / static_cast<double>(logits.size());
    std::int64_t i = 0;
    for (double &element : logits) {
        const double expected = (i++ == target ? 1 - options.smoothing : 0) + others;
        element = target == options.ignore_index ? 0 : factor * (std::exp(element - lse) - expected);
    }
}

Status cross_entropy_fwd(const Call &call) {
    const auto target = call.input<const std::int64_t>(1);
    const Options options = options_of(call);
    Status targets = check_targets(target, call.input(0)->shape[1], options);
    if (!targets.ok())
        return targets;
    return visit_floating(call.input(0)->dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        const auto logits = call.input<const T>(0);
        const auto loss = call.output<float>(0);
        const auto lse = call.output<float>(1);
        std::vector<double> row;
        for (std::int64_t r = 0; r < logits.rows(); ++r) {
            widen(logits.row(r), row);
            const double sum = log_sum_exp(row);
            const bool ignored = target[r] == options.ignore_index;
            loss[r] = rounded<float>(ignored ? 0 : loss_of(row, sum, target[r], options.smoothing));
            if (lse)
                lse[r] = rounded<float>(sum);
        }
        return Status();
    });
}

Status cross_entropy_bwd(const Call &call) {
    const auto target = call.input<const std::int64_t>(2);
    const Options options = options_of(call);
    Status targets = check_targets(target, call.input(1)->shape[1], options);
    if (!targets.ok())
        return targets;
    return visit_floating(call.input(1)->dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        const auto grad_loss = call.input<const float>(0);
        const auto logits = call.input<const T>(1);
        const auto lse = call.input<const float>(3);
        const auto grad_logits = call.output<T>(0);
        std::vector<double> row;
        for (std::int64_t r = 0; r < logits.rows(); ++r) {
            widen(logits.row(r), row);
            make_gradient(row, wide(lse[r]), target[r], options, wide(grad_loss[r]));
            narrow(row, grad_logits.row(r));
        }
        return Status();
    });
}

Status fused_cross_entropy(const Call &call) {
    const auto target = call.input<const std::int64_t>(1);
    const Options options = options_of(call);
    Status targets = check_targets(target, call.input(0)->shape[1], options);
    if (!targets.ok())
        return targets;
    return visit_floating(call.input(0)->dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        const auto logits = call.input<T>(0);
        const auto loss = call.output<float>(0);
        std::vector<double> row;
        for (std::int64_t r = 0; r < logits.rows(); ++r) {
            widen(logits.row(r), row);
            const double lse = log_sum_exp(row);
            const bool ignored = target[r] == options.ignore_index;
            loss[r] = rounded<float>(ignored ? 0 : loss_of(row, lse, target[r], options.smoothing));
            make_gradient(row, lse, target[r], options, call.get_float(2));
            narrow(row, logits.row(r));
        }
        return Status();
    });
}

// out[i] += factor * x[i].
void add_scaled(double factor, const std::vector<double> &x, double *out) {
    for (std::size_t i = 0; i < x.size(); ++i)
        out[i] += factor * x[i];
}

template<class T>
void store_sums(const std::vector<double> &sums, TensorView<T> to) {
    for (std::int64_t i = 0; to && i < to.numel(); ++i)
        to[i] = rounded<T>(sums[static_cast<std::size_t>(i)]);
}

template<class T>
void linear_cross_entropy_rows(const Call &call, const Options &options) {
    const auto input = call.input<const T>(0);
    const auto target = call.input<const std::int64_t>(2);
    const auto bias = call.input<const T>(3);
    const auto scale = call.input<const float>(4);
    const auto loss = call.output<float>(0);
    const auto grad_input = call.output<T>(1);
    const auto n = static_cast<std::size_t>(input.size(1));
    std::vector<std::vector<double>> weight(static_cast<std::size_t>(call.input(1)->shape[0]));
    for (std::size_t j = 0; j < weight.size(); ++j)
        widen(call.input<const T>(1).row(static_cast<std::int64_t>(j)), weight[j]);
    std::vector<double> row, logits(weight.size()), of_input(n), of_weight(weight.size() * n), of_bias(weight.size());
    for (std::int64_t r = 0; r < input.rows(); ++r) {
        widen(input.row(r), row);
        for (std::size_t j = 0; j < weight.size(); ++j) {
            const double added = bias ? wide(bias[static_cast<std::int64_t>(j)]) : 0;
            logits[j] = std::inner_product(row.begin(), row.end(), weight[j].begin(), added);
        }
        const double lse = log_sum_exp(logits);
        const bool ignored = target[r] == options.ignore_index;
        loss[r] = rounded<float>(ignored ? 0 : loss_of(logits, lse, target[r], options.smoothing));
        make_gradient(logits, lse, target[r], options, scale ? wide(scale[0]) : 1);
        std::fill(of_input.begin(), of_input.end(), 0.0);
        for (std::size_t j = 0; j < weight.size(); ++j) {
            add_scaled(logits[j], weight[j], of_input.data());
            add_scaled(logits[j], row, of_weight.data() + j * n);
            of_bias[j] += logits[j];
        }
        if (grad_input)
            narrow(of_input, grad_input.row(r));
    }
    store_sums(of_weight, call.output<T>(2));
    store_sums(of_bias, call.output<T>(3));
}

Status fused_linear_cross_entropy(const Call &call) {
    const Options options = options_of(call);
    Status targets = check_targets(call.input<const std::int64_t>(2), call.input(1)->shape[0], options);
    if (!targets.ok())
        return targets;
    return visit_floating(call.input(0)->dtype, [&](auto tag) {
        linear_cross_entropy_rows<typename decltype(tag)::type>(call, options);
        return Status();
    });
}

} // namespace

void add_loss(Plugin &plugin) {
    namespace ops = opdock::ops;
    plugin.add(ops::cross_entropy_fwd, any_float, opdock::kernel<&cross_entropy_fwd>);
    plugin.add(ops::cross_entropy_bwd, any_float, opdock::kernel<&cross_entropy_bwd>);
    plugin.add(ops::fused_cross_entropy, any_float, opdock::kernel<&fused_cross_entropy>);
    plugin.add(ops::fused_linear_cross_entropy, any_float, opdock::kernel<&fused_linear_cross_entropy>);
}

} // namespace reference
