// topk_sigmoid_fwd and topk_sigmoid_bwd.
#include <cmath>
#include <vector>

#include "choice.hpp"
#include "ops/ops.hpp"
#include "rows.hpp"
#include "schedule.hpp"

namespace cpu {
namespace {

struct TopkSigmoid {
    Rows logits, indices;
    int64_t experts, k, step_of_indices;
    bool renormalize;
    double scale;
};

double sigmoid(double x) {
    return 1 / (1 + std::exp(-x));
}

// Added to sums of scores before dividing by them.
constexpr double least_sum = 1e-20;

template<class T>
void choose(const TopkSigmoid &a, const Rows &bias, const Rows &weights, int64_t step_of_weights, int64_t begin,
            int64_t end) {
    const auto n = static_cast<size_t>(a.experts);
    std::vector<uint64_t> keys(n);
    std::vector<double> scores(n);
    for (int64_t r = begin; r < end; ++r) {
        const T *logits = a.logits.row<const T>(r);
        choose_largest(static_cast<size_t>(a.k), keys, [&](size_t i) {
            scores[i] = sigmoid(static_cast<double>(static_cast<float>(logits[i])));
            const float of_choice = bias ? *bias.row<const float>(static_cast<int64_t>(i)) : 0.0f;
            return static_cast<float>(scores[i]) + of_choice;
        });
        const auto score_of = [&](int64_t j) {
            return scores[static_cast<size_t>(expert_of(keys[static_cast<size_t>(j)]))];
        };
        double sum = least_sum;
        for (int64_t j = 0; j < a.k; ++j)
            sum += score_of(j);
        auto *to = weights.row<float>(r);
        auto *indices = a.indices.row<int32_t>(r);
        for (int64_t j = 0; j < a.k; ++j) {
            to[j * step_of_weights] = static_cast<float>(a.scale * (a.renormalize ? score_of(j) / sum : score_of(j)));
            indices[j * a.step_of_indices] = expert_of(keys[static_cast<size_t>(j)]);
        }
    }
}

template<class T>
void gradients(const TopkSigmoid &a, const Rows &grads, int64_t step_of_grads, const Rows &grad_logits, int64_t begin,
               int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
        const T *logits = a.logits.row<const T>(r);
        const auto *indices = a.indices.row<const int32_t>(r);
        const auto *grad_weights = grads.row<const float>(r);
        const auto logit_of = [&](int64_t j) {
            return static_cast<double>(static_cast<float>(logits[indices[j * a.step_of_indices]]));
        };
        const auto grad_of = [&](int64_t j) { return a.scale * static_cast<double>(grad_weights[j * step_of_grads]); };
        double sum = least_sum, projection = 0;
        for (int64_t j = 0; j < a.k; ++j) {
            sum += sigmoid(logit_of(j));
            projection += grad_of(j) * sigmoid(logit_of(j));
        }
        T *to = grad_logits.row<T>(r);
        std::fill_n(to, a.experts, T(0.0f));
        for (int64_t j = 0; j < a.k; ++j) {
            const double of_score = a.renormalize ? (grad_of(j) - projection / sum) / sum : grad_of(j);
            to[indices[j * a.step_of_indices]] =
                T(static_cast<float>(of_score * sigmoid(logit_of(j)) * sigmoid(-logit_of(j))));
        }
    }
}

constexpr Operand forward_operands[] = {{"logits"}, {"bias", false}, {"weights", false}, {"indices", false}};
constexpr Operand backward_operands[] = {{"grad_weights", false}, {"logits"}, {"indices", false}, {"grad_logits"}};

opdock::Status check_forward(const opdock::Problem &problem) {
    return check_rows(problem, forward_operands);
}
opdock::Status check_backward(const opdock::Problem &problem) {
    return check_rows(problem, backward_operands);
}

// The cost of a token, as a number of bytes read from memory.
int64_t bytes_of_token(const TopkSigmoid &a) {
    return 64 * a.experts;
}

opdock::Status forward(const opdock::Call &call) {
    const DLTensor &logits = *call.input(0), &weights = *call.output(0), &indices = *call.output(1);
    const TopkSigmoid a = {
        Rows::of_input(call, 0), Rows::of_output(call, 1), row_size(logits),  row_size(indices),
        indices.strides[1],      call.get_bool(1),         call.get_float(2),
    };
    if (a.k == 0)
        return {};
    const Rows bias = Rows::of_input(call, 1, 0), to = Rows::of_output(call, 0);
    in_chunks(row_count(logits), bytes_of_token(a), Knobs::of(call), [&](int64_t begin, int64_t end) {
        opdock::visit_floating(logits.dtype, [&](auto t) {
            choose<typename decltype(t)::type>(a, bias, to, weights.strides[1], begin, end);
        });
    });
    return {};
}

opdock::Status backward(const opdock::Call &call) {
    const DLTensor &grads = *call.input(0), &logits = *call.input(1), &indices = *call.input(2);
    const TopkSigmoid a = {
        Rows::of_input(call, 1), Rows::of_input(call, 2), row_size(logits),  row_size(indices),
        indices.strides[1],      call.get_bool(0),        call.get_float(1),
    };
    const int64_t tokens = row_count(logits);
    if (opdock::Status status = check_experts(a.indices, tokens, a.k, a.step_of_indices, a.experts); !status.ok())
        return status;
    const Rows grad_weights = Rows::of_input(call, 0), grad_logits = Rows::of_output(call, 0);
    in_chunks(tokens, bytes_of_token(a), Knobs::of(call), [&](int64_t begin, int64_t end) {
        opdock::visit_floating(logits.dtype, [&](auto t) {
            gradients<typename decltype(t)::type>(a, grad_weights, grads.strides[1], grad_logits, begin, end);
        });
    });
    return {};
}

} // namespace

void add_topk_sigmoid(Plugin &plugin) {
    namespace ops = opdock::ops;
    plugin.add(ops::topk_sigmoid_fwd, any_float, {opdock::kernel<&forward>, opdock::supports<&check_forward>});
    plugin.add(ops::topk_sigmoid_bwd, any_float, {opdock::kernel<&backward>, opdock::supports<&check_backward>});
}

} // namespace cpu
