// log_softmax_fwd and log_softmax_bwd.
#include <cmath>

#include "dtypes.hpp"
#include "ops/ops.hpp"
#include "rows.hpp"
#include "schedule.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/log_softmax.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h, which includes this file again for each target.
#include "hwy/highway.h"
#include "simd/logsumexp-inl.h"
#include "simd/memory-inl.h"

#ifndef CPU_LOG_SOFTMAX_ARGUMENTS
#define CPU_LOG_SOFTMAX_ARGUMENTS
namespace cpu {

struct LogSoftmax {
    DLDataType t;
    Rows grad, input, output; // forward: input to output. backward: grad and `input`, the forward's output, to output
    int64_t n;
    bool stream;
};

} // namespace cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace cpu {
namespace HWY_NAMESPACE {

template<class T>
void log_softmax_forward(const LogSoftmax &a, int64_t begin, int64_t end) {
    const auto n = static_cast<size_t>(a.n);
    for (int64_t r = begin; r < end; ++r) {
        const T *input = a.input.row<const T>(r);
        const NextRow<T> next(a.input, r, end, n);
        const ExpSum total = exp_sum(input, n, 1, next.data());
        const Sink<T> output(a.output.row<T>(r), a.stream);
        // Subtract in two steps: the difference from the pivot is exact near the pivot.
        const VF pivot = hn::Set(f32, total.pivot);
        const VF log_sum = hn::Set(f32, static_cast<float>(std::log(total.sum)));
        along(n, [=](size_t i, auto extent)
                     HWY_ATTR { output.store(hn::Sub(hn::Sub(load(input + i, extent), pivot), log_sum), i, extent); });
    }
    if (a.stream)
        hwy::FlushStream();
}

template<class T>
void log_softmax_backward(const LogSoftmax &a, int64_t begin, int64_t end) {
    const auto n = static_cast<size_t>(a.n);
    for (int64_t r = begin; r < end; ++r) {
        const T *grad = a.grad.row<const T>(r);
        const T *log_probability = a.input.row<const T>(r);
        const VF total = hn::Set(f32, static_cast<float>(sum(n, [=](size_t i, auto extent, VF s) HWY_ATTR {
                                     return hn::Add(s, load(grad + i, extent));
                                 })));
        const Sink<T> output(a.output.row<T>(r), a.stream);
        const NextRow<T> next_grad(a.grad, r, end, n);
        along(n, [=](size_t i, auto extent) HWY_ATTR {
            next_grad.fetch(i);
            const VF probability = exp(load(log_probability + i, extent));
            output.store(hn::NegMulAdd(probability, total, load(grad + i, extent)), i, extent);
        });
    }
    if (a.stream)
        hwy::FlushStream();
}

void log_softmax_forward_rows(const LogSoftmax &a, int64_t begin, int64_t end) {
    opdock::visit_floating(a.t, [&](auto t) { log_softmax_forward<typename decltype(t)::type>(a, begin, end); });
}

void log_softmax_backward_rows(const LogSoftmax &a, int64_t begin, int64_t end) {
    opdock::visit_floating(a.t, [&](auto t) { log_softmax_backward<typename decltype(t)::type>(a, begin, end); });
}

} // namespace HWY_NAMESPACE
} // namespace cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cpu {

HWY_EXPORT(log_softmax_forward_rows);
HWY_EXPORT(log_softmax_backward_rows);

namespace {

constexpr Operand forward_operands[] = {{"input"}, {"output"}};
constexpr Operand backward_operands[] = {{"grad"}, {"output"}, {"grad_input"}};

opdock::Status check_forward(const opdock::Problem &problem) {
    return check_rows(problem, forward_operands);
}
opdock::Status check_backward(const opdock::Problem &problem) {
    return check_rows(problem, backward_operands);
}

// `input` is the index of the forward's input, or of its output.
LogSoftmax arguments_of(const opdock::Call &call, uint32_t input) {
    const DLTensor &shape = *call.input(input);
    LogSoftmax a = {};
    a.t = shape.dtype;
    a.input = Rows::of_input(call, input);
    a.output = Rows::of_output(call, 0);
    a.n = row_size(shape);
    a.stream = Knobs::of(call).stream;
    return a;
}

opdock::Status forward(const opdock::Call &call) {
    const DLTensor &input = *call.input(0);
    const LogSoftmax a = arguments_of(call, 0);
    in_chunks(row_count(input), 2 * a.n * element_bytes(input), Knobs::of(call),
              HWY_DYNAMIC_DISPATCH(log_softmax_forward_rows), a);
    return {};
}

opdock::Status backward(const opdock::Call &call) {
    const DLTensor &grad = *call.input(0);
    LogSoftmax a = arguments_of(call, 1);
    a.grad = Rows::of_input(call, 0);
    in_chunks(row_count(grad), 3 * a.n * element_bytes(grad), Knobs::of(call),
              HWY_DYNAMIC_DISPATCH(log_softmax_backward_rows), a);
    return {};
}

} // namespace

void add_log_softmax(Plugin &plugin) {
    namespace ops = opdock::ops;
    plugin.add(ops::log_softmax_fwd, any_float, {opdock::kernel<&forward>, opdock::supports<&check_forward>});
    plugin.add(ops::log_softmax_bwd, any_float, {opdock::kernel<&backward>, opdock::supports<&check_backward>});
}

} // namespace cpu
#endif
