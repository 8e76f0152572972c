// cross_entropy_fwd, cross_entropy_bwd and fused_cross_entropy.
#include <cmath>
#include <string>

#include "cross_entropy.hpp"
#include "ops/ops.hpp"
#include "schedule.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cross_entropy.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h, which includes this file again for each target.
#include "hwy/highway.h"
#include "simd/logsumexp-inl.h"
#include "simd/memory-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cpu {
namespace HWY_NAMESPACE {

// lse - (1 - e) logits[target] - e mean(logits)
template<class T>
HWY_INLINE double loss_of(const CrossEntropy &a, const T *logits, int64_t target, double lse) {
    const double loss = lse - static_cast<double>(float(logits[target]));
    if (a.smoothing == 0) // 0 times a logit of minus infinity would be NaN
        return loss;
    const double total = sum(static_cast<size_t>(a.classes), [=](size_t i, auto extent, VF s) HWY_ATTR {
        return hn::Add(s, load(logits + i, extent));
    });
    return (1 - a.smoothing) * loss + a.smoothing * (lse - total / static_cast<double>(a.classes));
}

HWY_INLINE double log_of(const ExpSum &total) {
    return static_cast<double>(total.pivot) + std::log(total.sum);
}

template<class T>
void cross_entropy_forward(const CrossEntropy &a, int64_t begin, int64_t end) {
    const auto n = static_cast<size_t>(a.classes);
    for (int64_t r = begin; r < end; ++r) {
        const int64_t target = *a.target.row<const int64_t>(r);
        const bool ignored = target == a.ignore_index;
        auto *loss = a.loss.row<float>(r);
        if (ignored && !a.lse) {
            *loss = 0;
            continue;
        }
        const T *logits = a.logits.row<const T>(r);
        const double lse = log_of(exp_sum(logits, n, 1, a.logits.row<const T>(r + 1 < end ? r + 1 : r)));
        if (a.lse)
            *a.lse.row<float>(r) = static_cast<float>(lse);
        *loss = ignored ? 0.0f : static_cast<float>(loss_of(a, logits, target, lse));
    }
}

// The gradient of a row is 0 if its target is ignored.
template<class T>
HWY_INLINE void no_gradient(size_t n, const Sink<T> &output) {
    along(n, [=](size_t i, auto extent) HWY_ATTR { output.store(hn::Zero(f32), i, extent); });
}

// Writes factor * (exp(logits - pivot) * share - (1 - e) * onehot(target) - e / v), where exp(-pivot) * share =
// exp(-lse). The output may alias the logits.
template<class L, class T>
HWY_INLINE void write_gradient(const CrossEntropy &a, const L *logits, int64_t target, float pivot, float share,
                               float factor, const Sink<T> &output) {
    const auto n = static_cast<size_t>(a.classes);
    const VF spread = hn::Set(f32, static_cast<float>(a.smoothing / static_cast<double>(a.classes)));
    const VF hit = hn::Set(f32, static_cast<float>(1 - a.smoothing));
    const VF from = hn::Set(f32, pivot), part = hn::Set(f32, share), grad = hn::Set(f32, factor);
    const auto others = [=](size_t i, auto extent)
                            HWY_ATTR { return hn::MulSub(exp(hn::Sub(load(logits + i, extent), from)), part, spread); };
    // The target's element is computed separately, before its logit may be overwritten, and stored last, so that the
    // loop needs no comparison.
    const auto at = static_cast<size_t>(target);
    const VF wanted = hn::Mul(grad, hn::Sub(others(at, Part{1}), hit));
    along(n, [=](size_t i, auto extent) HWY_ATTR { output.store(hn::Mul(grad, others(i, extent)), i, extent); });
    output.store(wanted, at, Part{1});
}

template<class T>
void cross_entropy_backward(const CrossEntropy &a, int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
        const int64_t target = *a.target.row<const int64_t>(r);
        const Sink<T> output(a.grad_logits.row<T>(r), a.stream);
        if (target == a.ignore_index)
            no_gradient(static_cast<size_t>(a.classes), output);
        else
            write_gradient(a, a.logits.row<const T>(r), target, *a.lse.row<const float>(r), 1,
                           *a.grad_loss.row<const float>(r), output);
    }
    if (a.stream)
        hwy::FlushStream();
}

template<class L, class T>
void cross_entropy_fused(const CrossEntropy &a, int64_t begin, int64_t end) {
    const auto n = static_cast<size_t>(a.classes);
    for (int64_t r = begin; r < end; ++r) {
        const int64_t target = *a.target.row<const int64_t>(r);
        const L *logits = a.logits.row<const L>(r);
        const Sink<T> output(a.grad_logits.row<T>(r), false); // not past the caches, which hold the line anyway
        auto *loss = a.loss.row<float>(r);
        if (target == a.ignore_index) {
            *loss = 0;
            no_gradient(n, output);
            continue;
        }
        const ExpSum total = exp_sum(logits, n, 1, logits);
        *loss = static_cast<float>(loss_of(a, logits, target, log_of(total)));
        write_gradient(a, logits, target, total.pivot, static_cast<float>(1 / total.sum), a.scale, output);
    }
}

void cross_entropy_fwd_rows(const CrossEntropy &a, int64_t begin, int64_t end) {
    opdock::visit_floating(a.t, [&](auto t) { cross_entropy_forward<typename decltype(t)::type>(a, begin, end); });
}

void cross_entropy_bwd_rows(const CrossEntropy &a, int64_t begin, int64_t end) {
    opdock::visit_floating(a.t, [&](auto t) { cross_entropy_backward<typename decltype(t)::type>(a, begin, end); });
}

void cross_entropy_fused_rows(const CrossEntropy &a, int64_t begin, int64_t end) {
    opdock::visit_floating(a.grad_t, [&](auto t) {
        using T = typename decltype(t)::type;
        if (opdock_dtype_pack(a.t) == opdock_dtype_pack(a.grad_t))
            cross_entropy_fused<T, T>(a, begin, end);
        else
            cross_entropy_fused<float, T>(a, begin, end);
    });
}

} // namespace HWY_NAMESPACE
} // namespace cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cpu {

HWY_EXPORT(cross_entropy_fwd_rows);
HWY_EXPORT(cross_entropy_bwd_rows);
HWY_EXPORT(cross_entropy_fused_rows);

opdock::Status check_targets(const CrossEntropy &a, int64_t rows) {
    for (int64_t r = 0; r < rows; ++r) {
        const int64_t target = *a.target.row<const int64_t>(r);
        if ((target < 0 || target >= a.classes) && target != a.ignore_index)
            return opdock::invalid_argument(
                "target: row " + std::to_string(r) + " has class " + std::to_string(target) + "; expected 0 to " +
                std::to_string(a.classes - 1) + " (logits have " + std::to_string(a.classes) +
                " classes) or ignore_index " + std::to_string(a.ignore_index));
    }
    return {};
}

void fuse_cross_entropy(const CrossEntropy &a, int64_t rows, const Knobs &knobs) {
    in_chunks(rows, 2 * a.classes * static_cast<int64_t>(a.t.bits / 8), knobs,
              HWY_DYNAMIC_DISPATCH(cross_entropy_fused_rows), a);
}

namespace {

constexpr Operand forward_operands[] = {{"logits"}, {"target", false}, {"loss", false}, {"lse", false}};

opdock::Status check_forward(const opdock::Problem &problem) {
    return check_rows(problem, forward_operands);
}

opdock::Status forward(const opdock::Call &call) {
    const Knobs knobs = Knobs::of(call);
    const DLTensor &logits = *call.input(0);
    CrossEntropy a = {};
    a.t = logits.dtype;
    a.logits = Rows::of_input(call, 0);
    a.target = Rows::of_input(call, 1, 0);
    a.loss = Rows::of_output(call, 0, 0);
    a.lse = Rows::of_output(call, 1, 0);
    a.classes = row_size(logits);
    a.ignore_index = call.get_int(0);
    a.smoothing = call.get_float(1);
    const int64_t rows = row_count(logits);
    if (opdock::Status status = check_targets(a, rows); !status.ok())
        return status;
    in_chunks(rows, a.classes * element_bytes(logits), knobs, HWY_DYNAMIC_DISPATCH(cross_entropy_fwd_rows), a);
    return {};
}

constexpr Operand backward_operands[] = {
    {"grad_loss", false}, {"logits"}, {"target", false}, {"lse", false}, {"grad_logits"}};

opdock::Status check_backward(const opdock::Problem &problem) {
    return check_rows(problem, backward_operands);
}

opdock::Status backward(const opdock::Call &call) {
    const Knobs knobs = Knobs::of(call);
    const DLTensor &logits = *call.input(1);
    CrossEntropy a = {};
    a.t = logits.dtype;
    a.grad_loss = Rows::of_input(call, 0, 0);
    a.logits = Rows::of_input(call, 1);
    a.target = Rows::of_input(call, 2, 0);
    a.lse = Rows::of_input(call, 3, 0);
    a.grad_logits = Rows::of_output(call, 0);
    a.classes = row_size(logits);
    a.ignore_index = call.get_int(0);
    a.smoothing = call.get_float(1);
    a.stream = knobs.stream;
    const int64_t rows = row_count(logits);
    if (opdock::Status status = check_targets(a, rows); !status.ok())
        return status;
    in_chunks(rows, 2 * a.classes * element_bytes(logits), knobs, HWY_DYNAMIC_DISPATCH(cross_entropy_bwd_rows), a);
    return {};
}

constexpr Operand fused_operands[] = {{"logits"}, {"target", false}, {"loss", false}};

opdock::Status check_fused(const opdock::Problem &problem) {
    return check_rows(problem, fused_operands);
}

opdock::Status fused(const opdock::Call &call) {
    const Knobs knobs = Knobs::of(call);
    const DLTensor &logits = *call.input(0);
    CrossEntropy a = {};
    a.t = a.grad_t = logits.dtype;
    a.logits = a.grad_logits = Rows::of_input(call, 0);
    a.target = Rows::of_input(call, 1, 0);
    a.loss = Rows::of_output(call, 0, 0);
    a.classes = row_size(logits);
    a.ignore_index = call.get_int(0);
    a.smoothing = call.get_float(1);
    a.scale = static_cast<float>(call.get_float(2));
    const int64_t rows = row_count(logits);
    if (opdock::Status status = check_targets(a, rows); !status.ok())
        return status;
    fuse_cross_entropy(a, rows, knobs);
    return {};
}

} // namespace

void add_cross_entropy(Plugin &plugin) {
    namespace ops = opdock::ops;
    plugin.add(ops::cross_entropy_fwd, any_float, {opdock::kernel<&forward>, opdock::supports<&check_forward>});
    plugin.add(ops::cross_entropy_bwd, any_float, {opdock::kernel<&backward>, opdock::supports<&check_backward>});
    plugin.add(ops::fused_cross_entropy, any_float, {opdock::kernel<&fused>, opdock::supports<&check_fused>});
}

} // namespace cpu
#endif
