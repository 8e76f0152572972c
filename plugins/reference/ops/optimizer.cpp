#include <cmath>

#include "float64.hpp"
#include "ops/ops.hpp"

namespace reference {

namespace {

bool is_noop(const Call &call, std::uint32_t parameter) {
    const auto noop = call.input<const std::int32_t>(parameter);
    return noop && noop[0] != 0;
}

// Calls work(tag of T, tag of U, item) for each tensor of the lists grads and params, the first two parameters.
template<class Work>
void for_each_param(const Call &call, Work work) {
    std::uint32_t item = 0;
    for (const DLTensor *grad : call.inputs_of(0)) {
        const DLTensor *param = call.inputs_of(1)[item];
        opdock::visit_floating(
            grad->dtype, [&](auto t) { opdock::visit_floating(param->dtype, [&](auto u) { work(t, u, item); }); });
        ++item;
    }
}

Status multi_tensor_adam(const Call &call) {
    if (is_noop(call, 6))
        return {};
    const double lr = wide(call.input<const float>(4)[0]);
    const auto step = call.input<float>(5);
    const double beta1 = call.get_float(0), beta2 = call.get_float(1), eps = call.get_float(2);
    const double weight_decay = call.get_float(3);
    const bool decoupled = call.get_bool(4);
    step[0] += 1;
    const double correction1 = 1 - std::pow(beta1, wide(step[0]));
    const double correction2 = 1 - std::pow(beta2, wide(step[0]));
    for_each_param(call, [&](auto t, auto u, std::uint32_t item) {
        using T = typename decltype(t)::type;
        using U = typename decltype(u)::type;
        const auto grads = call.input<const T>(0, item);
        const auto params = call.input<U>(1, item);
        const auto exp_avg = call.input<float>(2, item);
        const auto exp_avg_sq = call.input<float>(3, item);
        for (std::int64_t i = 0; i < params.numel(); ++i) {
            const double p = wide(params[i]);
            const double g = wide(grads[i]) + (decoupled ? 0 : weight_decay * p);
            const double m = beta1 * wide(exp_avg[i]) + (1 - beta1) * g;
            const double v = beta2 * wide(exp_avg_sq[i]) + (1 - beta2) * g * g;
            const double update = (m / correction1) / (std::sqrt(v / correction2) + eps);
            params[i] = rounded<U>(p - lr * update - (decoupled ? lr * weight_decay * p : 0));
            exp_avg[i] = rounded<float>(m);
            exp_avg_sq[i] = rounded<float>(v);
        }
    });
    return {};
}

Status multi_tensor_sgd(const Call &call) {
    if (is_noop(call, 4))
        return {};
    const double lr = wide(call.input<const float>(3)[0]);
    const double momentum = call.get_float(0), dampening = call.get_float(1), weight_decay = call.get_float(2);
    const bool nesterov = call.get_bool(3), first_run = call.get_bool(4);
    for_each_param(call, [&](auto t, auto u, std::uint32_t item) {
        using T = typename decltype(t)::type;
        using U = typename decltype(u)::type;
        const auto grads = call.input<const T>(0, item);
        const auto params = call.input<U>(1, item);
        const auto buffers = call.input<float>(2, item);
        for (std::int64_t i = 0; i < params.numel(); ++i) {
            const double p = wide(params[i]);
            double step = wide(grads[i]) + weight_decay * p;
            if (momentum != 0) {
                const double buffer = first_run ? step : momentum * wide(buffers[i]) + (1 - dampening) * step;
                buffers[i] = rounded<float>(buffer);
                step = nesterov ? step + momentum * buffer : buffer;
            }
            params[i] = rounded<U>(p - lr * step);
        }
    });
    return {};
}

Status multi_tensor_l2norm(const Call &call) {
    double sum = 0;
    std::uint32_t item = 0;
    for (const DLTensor *tensor : call.inputs_of(0)) {
        visit_floating(tensor->dtype, [&](auto tag) {
            const auto values = call.input<const typename decltype(tag)::type>(0, item);
            for (std::int64_t i = 0; i < values.numel(); ++i)
                sum += wide(values[i]) * wide(values[i]);
        });
        ++item;
    }
    call.output<float>(0)[0] = rounded<float>(std::sqrt(sum));
    return {};
}

Status multi_tensor_scale(const Call &call) {
    const double scale = wide(call.input<const float>(1)[0]);
    bool finite = true;
    std::uint32_t item = 0;
    for (const DLTensor *tensor : call.inputs_of(0)) {
        visit_floating(tensor->dtype, [&](auto tag) {
            using T = typename decltype(tag)::type;
            const auto values = call.input<T>(0, item);
            for (std::int64_t i = 0; i < values.numel(); ++i) {
                values[i] = rounded<T>(wide(values[i]) * scale);
                finite = finite && std::isfinite(wide(values[i]));
            }
        });
        ++item;
    }
    if (const auto found_inf = call.input<std::int32_t>(2); found_inf && !finite)
        found_inf[0] = 1;
    return {};
}

} // namespace

void add_optimizer(Plugin &plugin) {
    namespace ops = opdock::ops;
    plugin.add(ops::multi_tensor_adam, optimized, opdock::kernel<&multi_tensor_adam>);
    plugin.add(ops::multi_tensor_sgd, optimized, opdock::kernel<&multi_tensor_sgd>);
    plugin.add(ops::multi_tensor_l2norm, any_float, opdock::kernel<&multi_tensor_l2norm>);
    plugin.add(ops::multi_tensor_scale, any_float, opdock::kernel<&multi_tensor_scale>);
}

} // namespace reference
