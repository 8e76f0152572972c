#include "choice.hpp"
#include "float64.hpp"
#include "ops/activation_functions.hpp"
#include "ops/ops.hpp"

namespace reference {

namespace {

using opdock::TensorView;

// Added to sums of scores before dividing by them.
constexpr double least_sum = 1e-20;

Status topk_sigmoid_fwd(const Call &call) {
    return visit_floating(call.input(0)->dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        const auto logits = call.input<const T>(0);
        const auto bias = call.input<const float>(1);
        const auto weights = call.output<float>(0);
        const auto indices = call.output<std::int32_t>(1);
        std::vector<double> scores, biased;
        for (std::int64_t r = 0; r < logits.rows(); ++r) {
            widen(logits.row(r), scores);
            biased.clear();
            for (double &score : scores) {
                score = sigmoid(score);
                const float of_choice = bias ? bias[static_cast<std::int64_t>(biased.size())] : 0;
                biased.push_back(wide(rounded<float>(score) + of_choice));
            }
            const std::vector<std::int32_t> order = order_of(biased);
            double sum = least_sum;
            for (std::int64_t j = 0; j < call.get_int(0); ++j)
                sum += scores[static_cast<std::size_t>(order[static_cast<std::size_t>(j)])];
            for (std::int64_t j = 0; j < call.get_int(0); ++j) {
                const std::int32_t expert = order[static_cast<std::size_t>(j)];
                const double score = scores[static_cast<std::size_t>(expert)];
                weights(r, j) = rounded<float>(call.get_float(2) * (call.get_bool(1) ? score / sum : score));
                indices(r, j) = expert;
            }
        }
        return Status();
    });
}

Status topk_sigmoid_bwd(const Call &call) {
    const auto indices = call.input<const std::int32_t>(2);
    Status valid = check_indices(indices, call.input(1)->shape[1]);
    if (!valid.ok())
        return valid;
    return visit_floating(call.input(1)->dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        const auto grads = call.input<const float>(0);
        const auto logits = call.input<const T>(1);
        const auto grad_logits = call.output<T>(0);
        const double scale = call.get_float(1);
        for (std::int64_t r = 0; r < logits.rows(); ++r) {
            double sum = least_sum, projection = 0;
            for (std::int64_t j = 0; j < grads.size(1); ++j) {
                const double score = sigmoid(wide(logits(r, indices(r, j))));
                sum += score;
                projection += scale * wide(grads(r, j)) * score;
            }
            std::vector<double> result(static_cast<std::size_t>(logits.size(1)));
            for (std::int64_t j = 0; j < grads.size(1); ++j) {
                const double logit = wide(logits(r, indices(r, j)));
                const double grad = scale * wide(grads(r, j));
                const double of_score = call.get_bool(0) ? (grad - projection / sum) / sum : grad;
                result[static_cast<std::size_t>(indices(r, j))] = of_score * sigmoid(logit) * sigmoid(-logit);
            }
            narrow(result, grad_logits.row(r));
        }
        return Status();
    });
}

Status moe_align(const Call &call) {
    const auto indices = call.input<const std::int32_t>(0);
    const auto places = call.output<std::int32_t>(0), order = call.output<std::int32_t>(1);
    const auto starts = call.output<std::int32_t>(2);
    const std::int64_t k = indices.size(1);
    for (std::int64_t i = 0; i < indices.numel(); ++i)
        if (indices[i] >= call.get_int(0))
            return opdock::invalid_argument("indices: row " + std::to_string(i / k) + " has " +
                                            std::to_string(indices[i]) +
                                            "; expected less than experts = " + std::to_string(call.get_int(0)));
    std::int32_t place = 0;
    // Each expert takes its choices in order; a last, virtual expert takes the dropped choices.
    for (std::int64_t expert = 0; expert <= call.get_int(0); ++expert) {
        starts[expert] = place;
        for (std::int64_t i = 0; i < indices.numel(); ++i) {
            const bool is_dropped = indices[i] < 0;
            if (is_dropped ? expert == call.get_int(0) : expert == indices[i]) {
                order[place] = static_cast<std::int32_t>(i);
                places[i] = is_dropped ? -1 - place : place;
                ++place;
            }
        }
    }
    return {};
}

Status check_places(TensorView<const std::int32_t> places) {
    for (std::int64_t i = 0; i < places.numel(); ++i)
        if (places[i] >= places.numel() || places[i] < -places.numel())
            return opdock::invalid_argument("places: row " + std::to_string(i / places.size(1)) + " has " +
                                            std::to_string(places[i]) + "; expected less than " +
                                            std::to_string(places.numel()) + ", or -1 - place for such a place");
    return {};
}

Status moe_permute(const Call &call) {
    const auto places = call.input<const std::int32_t>(1);
    Status valid = check_places(places);
    if (!valid.ok())
        return valid;
    return visit_floating(call.input(0)->dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        const auto input = call.input<const T>(0);
        const auto output = call.output<T>(0);
        for (std::int64_t i = 0; i < places.numel(); ++i) {
            const bool is_dropped = places[i] < 0;
            const auto from = input.row(i / places.size(1));
            const auto to = output.row(is_dropped ? -1 - places[i] : places[i]);
            for (std::int64_t c = 0; c < to.size(); ++c)
                to[c] = is_dropped ? T() : from[c];
        }
        return Status();
    });
}

// Sums the rows of each token's choices, times their weights if there are weights.
template<class T>
void sum_choices(TensorView<const T> rows, TensorView<const std::int32_t> places, TensorView<const float> weights,
                 TensorView<T> output) {
    std::vector<double> sums;
    for (std::int64_t token = 0; token < output.rows(); ++token) {
        sums.assign(static_cast<std::size_t>(output.size(1)), 0);
        for (std::int64_t j = 0; j < places.size(1); ++j) {
            if (places(token, j) < 0)
                continue;
            const auto row = rows.row(places(token, j));
            const double weight = weights ? wide(weights(token, j)) : 1;
            std::int64_t c = 0;
            for (double &sum : sums)
                sum += weight * wide(row[c++]);
        }
        narrow(sums, output.row(token));
    }
}

// The gradient of moe_permute has no weights.
Status sums_of_choices(const Call &call, TensorView<const float> weights) {
    const auto places = call.input<const std::int32_t>(1);
    Status valid = check_places(places);
    if (!valid.ok())
        return valid;
    return visit_floating(call.input(0)->dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        sum_choices<T>(call.input<const T>(0), places, weights, call.output<T>(0));
        return Status();
    });
}

Status moe_permute_bwd(const Call &call) {
    return sums_of_choices(call, {});
}

Status moe_unpermute(const Call &call) {
    return sums_of_choices(call, call.input<const float>(2));
}

Status moe_unpermute_bwd(const Call &call) {
    const auto places = call.input<const std::int32_t>(2);
    Status valid = check_places(places);
    if (!valid.ok())
        return valid;
    return visit_floating(call.input(0)->dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        const auto grad = call.input<const T>(0), input = call.input<const T>(1);
        const auto weights = call.input<const float>(3);
        const auto grad_input = call.output<T>(0);
        const auto grad_weights = call.output<float>(1);
        for (std::int64_t i = 0; i < places.numel(); ++i) {
            const bool is_dropped = places[i] < 0;
            const std::int64_t place = is_dropped ? -1 - places[i] : places[i];
            const auto from = grad.row(i / places.size(1)), row = input.row(place);
            const auto to = grad_input.row(place);
            double projection = 0;
            for (std::int64_t c = 0; c < to.size(); ++c) {
                to[c] = is_dropped ? T() : rounded<T>(wide(weights[i]) * wide(from[c]));
                projection += is_dropped ? 0 : wide(from[c]) * wide(row[c]);
            }
            if (grad_weights)
                grad_weights[i] = rounded<float>(projection);
        }
        return Status();
    });
}

} // namespace

void add_moe(Plugin &plugin) {
    namespace ops = opdock::ops;
    plugin.add(ops::topk_sigmoid_fwd, any_float, opdock::kernel<&topk_sigmoid_fwd>);
    plugin.add(ops::topk_sigmoid_bwd, any_float, opdock::kernel<&topk_sigmoid_bwd>);
    plugin.add(ops::moe_align, "", opdock::kernel<&moe_align>);
    plugin.add(ops::moe_permute, any_float, opdock::kernel<&moe_permute>);
    plugin.add(ops::moe_permute_bwd, any_float, opdock::kernel<&moe_permute_bwd>);
    plugin.add(ops::moe_unpermute, any_float, opdock::kernel<&moe_unpermute>);
    plugin.add(ops::moe_unpermute_bwd, any_float, opdock::kernel<&moe_unpermute_bwd>);
}

} // namespace reference
