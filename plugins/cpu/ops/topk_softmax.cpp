// topk_softmax_fwd and topk_softmax_bwd.
#include <cmath>
#include <vector>

#include "choice.hpp"
#include "dtypes.hpp"
#include "ops/ops.hpp"
#include "rows.hpp"
#include "schedule.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/topk_softmax.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h, which includes this file again for each target.
#include "hwy/highway.h"
#include "simd/logsumexp-inl.h"
#include "simd/memory-inl.h"

#ifndef CPU_TOPK_SOFTMAX_ARGUMENTS
#define CPU_TOPK_SOFTMAX_ARGUMENTS
namespace cpu {

struct TopkSoftmax {
    DLDataType t;
    Rows logits, weights, indices;
    Rows grad_weights, grad_logits;                          // backward; weights and indices are then inputs
    int64_t step_of_weights, step_of_indices, step_of_grads; // elements from one of the k choices to the next
    int64_t experts, k;
    bool renormalize;
    bool stream;
};

} // namespace cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace cpu {
namespace HWY_NAMESPACE {

// The sum of exponentials by which a weight is divided: over all experts, or over the chosen ones.
template<class T>
HWY_INLINE ExpSum exp_sum_for(const TopkSoftmax &a, const T *logits, const std::vector<uint64_t> &keys) {
    if (!a.renormalize)
        return exp_sum(logits, keys.size(), 1, logits);
    ExpSum total{static_cast<float>(logits[expert_of(keys.front())]), 0};
    for (int64_t j = 0; j < a.k; ++j)
        total.sum += std::exp(static_cast<double>(static_cast<float>(logits[expert_of(keys[static_cast<size_t>(j)])])) -
                              static_cast<double>(total.pivot));
    return total;
}

template<class T>
void topk_softmax_forward(const TopkSoftmax &a, int64_t begin, int64_t end) {
    std::vector<uint64_t> keys(static_cast<size_t>(a.experts));
    for (int64_t r = begin; r < end; ++r) {
        const T *logits = a.logits.row<const T>(r);
        choose_largest(static_cast<size_t>(a.k), keys, [=](size_t i) { return static_cast<float>(logits[i]); });
        const ExpSum total = exp_sum_for(a, logits, keys);
        auto *weights = a.weights.row<float>(r);
        auto *indices = a.indices.row<int32_t>(r);
        for (int64_t j = 0; j < a.k; ++j) {
            const int32_t expert = expert_of(keys[static_cast<size_t>(j)]);
            const auto logit = static_cast<double>(static_cast<float>(logits[expert]));
            weights[j * a.step_of_weights] =
                static_cast<float>(std::exp(logit - static_cast<double>(total.pivot)) / total.sum);
            indices[j * a.step_of_indices] = expert;
        }
    }
}

template<class T>
void topk_softmax_backward(const TopkSoftmax &a, int64_t begin, int64_t end) {
    const auto n = static_cast<size_t>(a.experts);
    for (int64_t r = begin; r < end; ++r) {
        const auto *weights = a.weights.row<const float>(r), *grads = a.grad_weights.row<const float>(r);
        const auto *indices = a.indices.row<const int32_t>(r);
        double sum = 0;
        for (int64_t j = 0; j < a.k; ++j)
            sum +=
                static_cast<double>(weights[j * a.step_of_weights]) * static_cast<double>(grads[j * a.step_of_grads]);
        T *to = a.grad_logits.row<T>(r);
        const T *logits = a.logits.row<const T>(r);
        const Sink<T> output(to, false); // elements are written again
        ExpSum total{0, 1};
        if (a.renormalize) {
            along(n, [=](size_t i, auto extent) HWY_ATTR { output.store(hn::Zero(f32), i, extent); });
        } else {
            total = exp_sum(logits, n, 1, logits);
            const VF pivot = hn::Set(f32, total.pivot);
            const VF factor = hn::Set(f32, static_cast<float>(-sum / total.sum));
            along(n, [=](size_t i, auto extent) HWY_ATTR {
                output.store(hn::Mul(exp(hn::Sub(load(logits + i, extent), pivot)), factor), i, extent);
            });
        }
        for (int64_t j = 0; j < a.k; ++j) {
            const auto weight = static_cast<double>(weights[j * a.step_of_weights]);
            const auto grad = static_cast<double>(grads[j * a.step_of_grads]);
            const int32_t expert = indices[j * a.step_of_indices];
            const auto logit = static_cast<double>(static_cast<float>(logits[expert]));
            const double p = a.renormalize ? weight : std::exp(logit - static_cast<double>(total.pivot)) / total.sum;
            to[expert] = T(static_cast<float>(weight * grad - p * sum));
        }
    }
}

void topk_softmax_forward_rows(const TopkSoftmax &a, int64_t begin, int64_t end) {
    opdock::visit_floating(a.t, [&](auto t) { topk_softmax_forward<typename decltype(t)::type>(a, begin, end); });
}

void topk_softmax_backward_rows(const TopkSoftmax &a, int64_t begin, int64_t end) {
    opdock::visit_floating(a.t, [&](auto t) { topk_softmax_backward<typename decltype(t)::type>(a, begin, end); });
}

} // namespace HWY_NAMESPACE
} // namespace cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cpu {

HWY_EXPORT(topk_softmax_forward_rows);
HWY_EXPORT(topk_softmax_backward_rows);

namespace {

constexpr Operand forward_operands[] = {{"logits"}, {"weights", false}, {"indices", false}};
constexpr Operand backward_operands[] = {
    {"grad_weights", false}, {"logits"}, {"weights", false}, {"indices", false}, {"grad_logits"}};

opdock::Status check_forward(const opdock::Problem &problem) {
    return check_rows(problem, forward_operands);
}
opdock::Status check_backward(const opdock::Problem &problem) {
    return check_rows(problem, backward_operands);
}

TopkSoftmax arguments_of(const opdock::Call &call, const DLTensor &logits, const DLTensor &weights,
                         const DLTensor &indices) {
    TopkSoftmax a = {};
    a.t = logits.dtype;
    a.experts = row_size(logits);
    a.k = row_size(weights);
    a.step_of_weights = weights.strides[1];
    a.step_of_indices = indices.strides[1];
    a.stream = Knobs::of(call).stream;
    return a;
}

opdock::Status forward(const opdock::Call &call) {
    const DLTensor &logits = *call.input(0);
    TopkSoftmax a = arguments_of(call, logits, *call.output(0), *call.output(1));
    a.logits = Rows::of_input(call, 0);
    a.weights = Rows::of_output(call, 0);
    a.indices = Rows::of_output(call, 1);
    a.renormalize = call.get_bool(1);
    if (a.k == 0)
        return {};
    in_chunks(row_count(logits), 4 * a.experts * element_bytes(logits), Knobs::of(call),
              HWY_DYNAMIC_DISPATCH(topk_softmax_forward_rows), a);
    return {};
}

opdock::Status backward(const opdock::Call &call) {
    const DLTensor &logits = *call.input(1);
    TopkSoftmax a = arguments_of(call, logits, *call.input(2), *call.input(3));
    a.grad_weights = Rows::of_input(call, 0);
    a.step_of_grads = call.input(0)->strides[1];
    a.logits = Rows::of_input(call, 1);
    a.weights = Rows::of_input(call, 2);
    a.indices = Rows::of_input(call, 3);
    a.grad_logits = Rows::of_output(call, 0);
    a.renormalize = call.get_bool(0);
    const int64_t tokens = row_count(logits);
    if (opdock::Status status = check_experts(a.indices, tokens, a.k, a.step_of_indices, a.experts); !status.ok())
        return status;
    in_chunks(tokens, 3 * a.experts * element_bytes(logits), Knobs::of(call),
              HWY_DYNAMIC_DISPATCH(topk_softmax_backward_rows), a);
    return {};
}

} // namespace

void add_topk_softmax(Plugin &plugin) {
    namespace ops = opdock::ops;
    plugin.add(ops::topk_softmax_fwd, any_float, {opdock::kernel<&forward>, opdock::supports<&check_forward>});
    plugin.add(ops::topk_softmax_bwd, any_float, {opdock::kernel<&backward>, opdock::supports<&check_backward>});
}

} // namespace cpu
#endif
