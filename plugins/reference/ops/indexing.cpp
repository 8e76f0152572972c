#include <cmath>

#include "choice.hpp"
#include "float64.hpp"
#include "ops/ops.hpp"

namespace reference {

namespace {

using opdock::TensorView;

Status embedding(const Call &call) {
    const auto indices = call.input<const std::int64_t>(1);
    Status valid = check_indices(indices, call.input(0)->shape[0]);
    if (!valid.ok())
        return valid;
    return visit_floating(call.input(0)->dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        const auto weight = call.input<const T>(0);
        const auto output = call.output<T>(0);
        for (std::int64_t r = 0; r < output.rows(); ++r) {
            const auto from = weight.row(indices[r]);
            const auto to = output.row(r);
            for (std::int64_t i = 0; i < to.size(); ++i)
                to[i] = from[i];
        }
        return Status();
    });
}

Status embedding_bwd(const Call &call) {
    const auto indices = call.input<const std::int64_t>(2);
    const DLTensor &weight = *call.input(1);
    Status valid = check_indices(indices, weight.shape[0]);
    if (!valid.ok())
        return valid;
    return visit_floating(weight.dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        const auto grad = call.input<const T>(0);
        const auto grad_weight = call.output<T>(0);
        const auto n = static_cast<std::size_t>(weight.shape[1]);
        std::vector<double> sums(static_cast<std::size_t>(weight.shape[0]) * n);
        for (std::int64_t r = 0; r < grad.rows(); ++r) {
            const auto from = grad.row(r);
            double *sum = sums.data() + static_cast<std::size_t>(indices[r]) * n;
            for (std::int64_t i = 0; i < from.size(); ++i)
                sum[i] += wide(from[i]);
        }
        for (std::size_t i = 0; i < sums.size(); ++i)
            grad_weight[static_cast<std::int64_t>(i)] = rounded<T>(sums[i]);
        return Status();
    });
}

Status permute_021(const Call &call) {
    return visit_floating(call.input(0)->dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        const auto input = call.input<const T>(0);
        const auto output = call.output<T>(0);
        for (std::int64_t i = 0; i < output.size(0); ++i)
            for (std::int64_t j = 0; j < output.size(1); ++j)
                for (std::int64_t k = 0; k < output.size(2); ++k)
                    output(i, j, k) = input(i, k, j);
        return Status();
    });
}

Status topk(const Call &call) {
    return visit_floating(call.input(0)->dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        const auto input = call.input<const T>(0);
        const auto values = call.output<T>(0);
        const auto indices = call.output<std::int64_t>(1);
        std::vector<double> row;
        for (std::int64_t r = 0; r < input.rows(); ++r) {
            widen(input.row(r), row);
            const std::vector<std::int32_t> order = order_of(row);
            for (std::int64_t j = 0; j < call.get_int(0); ++j) {
                values.row(r)[j] = input.row(r)[order[static_cast<std::size_t>(j)]];
                indices.row(r)[j] = order[static_cast<std::size_t>(j)];
            }
        }
        return Status();
    });
}

// Softmax in place over the first logits of `order`.
void softmax_over(std::vector<double> &logits, const std::vector<std::int32_t> &order) {
    const double largest = order.empty() ? 0 : logits[static_cast<std::size_t>(order.front())];
    double sum = 0;
    for (const std::int32_t i : order)
        sum += std::exp(logits[static_cast<std::size_t>(i)] - largest);
    for (double &logit : logits)
        logit = std::exp(logit - largest) / sum;
}

Status topk_softmax_fwd(const Call &call) {
    return visit_floating(call.input(0)->dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        const auto logits = call.input<const T>(0);
        const auto weights = call.output<float>(0);
        const auto indices = call.output<std::int32_t>(1);
        std::vector<double> p;
        for (std::int64_t r = 0; r < logits.rows(); ++r) {
            widen(logits.row(r), p);
            std::vector<std::int32_t> order = order_of(p);
            if (call.get_bool(1))
                order.resize(static_cast<std::size_t>(call.get_int(0)));
            softmax_over(p, order);
            for (std::int64_t j = 0; j < call.get_int(0); ++j) {
                const std::int32_t expert = order[static_cast<std::size_t>(j)];
                weights(r, j) = rounded<float>(p[static_cast<std::size_t>(expert)]);
                indices(r, j) = expert;
            }
        }
        return Status();
    });
}

Status topk_softmax_bwd(const Call &call) {
    const auto indices = call.input<const std::int32_t>(3);
    Status valid = check_indices(indices, call.input(1)->shape[1]);
    if (!valid.ok())
        return valid;
    return visit_floating(call.input(1)->dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        const auto grads = call.input<const float>(0), weights = call.input<const float>(2);
        const auto logits = call.input<const T>(1);
        const auto grad_logits = call.output<T>(0);
        std::vector<double> p;
        for (std::int64_t r = 0; r < logits.rows(); ++r) {
            double sum = 0;
            for (std::int64_t j = 0; j < weights.size(1); ++j)
                sum += wide(weights(r, j)) * wide(grads(r, j));
            widen(logits.row(r), p);
            softmax_over(p, order_of(p));
            for (double &element : p)
                element = call.get_bool(0) ? 0 : element * -sum;
            for (std::int64_t j = 0; j < weights.size(1); ++j) {
                const double weight = wide(weights(r, j));
                p[static_cast<std::size_t>(indices(r, j))] +=
                    weight * wide(grads(r, j)) - (call.get_bool(0) ? weight * sum : 0);
            }
            narrow(p, grad_logits.row(r));
        }
        return Status();
    });
}

} // namespace

void add_indexing(Plugin &plugin) {
    namespace ops = opdock::ops;
    plugin.add(ops::embedding, any_float, opdock::kernel<&embedding>);
    plugin.add(ops::embedding_bwd, any_float, opdock::kernel<&embedding_bwd>);
    plugin.add(ops::permute_021, any_float, opdock::kernel<&permute_021>);
    plugin.add(ops::topk, any_float, opdock::kernel<&topk>);
    plugin.add(ops::topk_softmax_fwd, any_float, opdock::kernel<&topk_softmax_fwd>);
    plugin.add(ops::topk_softmax_bwd, any_float, opdock::kernel<&topk_softmax_bwd>);
}

} // namespace reference
