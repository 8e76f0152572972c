// scaled_softmax_forward and scaled_softmax_backward.
#include <cmath>

#include "dtypes.hpp"
#include "ops/ops.hpp"
#include "rows.hpp"
#include "schedule.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/softmax.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h, which includes this file again for each target.
#include "hwy/highway.h"
#include "simd/logsumexp-inl.h"
#include "simd/memory-inl.h"

#ifndef CPU_SOFTMAX_ARGUMENTS
#define CPU_SOFTMAX_ARGUMENTS
namespace cpu {

struct Softmax {
    DLDataType t;
    Rows grad, input, output; // forward: input to output. backward: grad and the forward's output, `input`, to output
    int64_t n;
    float scale;
    bool stream;
};

} // namespace cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace cpu {
namespace HWY_NAMESPACE {

// A row that is one block: its exponentials are computed once and kept.
template<class T>
HWY_INLINE void softmax_short_row(const T *input, size_t n, float scale, const Sink<T> &output,
                                  const NextRow<T> &next) {
    HWY_ALIGN float kept[block_size];
    float *exponentials = kept;
    const VF pivot = hn::Set(f32, pivot_of(input, 0, n, scale));
    const VF by = hn::Set(f32, scale);
    const float total = block_sum(0, n, [=](size_t i, auto extent, VF s) HWY_ATTR {
        next.fetch(i);
        const VF e = exp(hn::Mul(hn::Sub(load(input + i, extent), pivot), by));
        store(e, exponentials + i, extent);
        return hn::Add(s, e);
    });
    const VF inverse = hn::Set(f32, 1 / total);
    along(n, [=](size_t i, auto extent)
                 HWY_ATTR { output.store(hn::Mul(load(exponentials + i, extent), inverse), i, extent); });
}

template<class T>
HWY_INLINE void softmax_long_row(const T *input, size_t n, float scale, const Sink<T> &output) {
    const ExpSum total = exp_sum(input, n, scale, input);
    const VF pivot = hn::Set(f32, total.pivot);
    const VF by = hn::Set(f32, scale);
    const VF inverse = hn::Set(f32, static_cast<float>(1 / total.sum));
    along(n, [=](size_t i, auto extent) HWY_ATTR {
        const VF e = exp(hn::Mul(hn::Sub(load(input + i, extent), pivot), by));
        output.store(hn::Mul(e, inverse), i, extent);
    });
}

template<class T>
void softmax_forward(const Softmax &a, int64_t begin, int64_t end) {
    const auto n = static_cast<size_t>(a.n);
    for (int64_t r = begin; r < end; ++r) {
        const T *input = a.input.row<const T>(r);
        const Sink<T> output(a.output.row<T>(r), a.stream);
        if (n <= block_size)
            softmax_short_row(input, n, a.scale, output, NextRow<T>(a.input, r, end, n));
        else
            softmax_long_row(input, n, a.scale, output);
    }
    if (a.stream)
        hwy::FlushStream();
}

template<class T>
void softmax_backward(const Softmax &a, int64_t begin, int64_t end) {
    const auto n = static_cast<size_t>(a.n);
    for (int64_t r = begin; r < end; ++r) {
        const T *grad = a.grad.row<const T>(r);
        const T *probability = a.input.row<const T>(r);
        const VF projection = hn::Set(f32, static_cast<float>(sum(n, [=](size_t i, auto extent, VF s) HWY_ATTR {
                                          return hn::MulAdd(load(grad + i, extent), load(probability + i, extent), s);
                                      })));
        const Sink<T> output(a.output.row<T>(r), a.stream);
        const NextRow<T> next_grad(a.grad, r, end, n);
        const NextRow<T> next_probability(a.input, r, end, n);
        const VF scale = hn::Set(f32, a.scale);
        along(n, [=](size_t i, auto extent) HWY_ATTR {
            next_grad.fetch(i);
            next_probability.fetch(i);
            const VF centred = hn::Sub(load(grad + i, extent), projection);
            output.store(hn::Mul(hn::Mul(load(probability + i, extent), scale), centred), i, extent);
        });
    }
    if (a.stream)
        hwy::FlushStream();
}

void softmax_forward_rows(const Softmax &a, int64_t begin, int64_t end) {
    opdock::visit_floating(a.t, [&](auto t) { softmax_forward<typename decltype(t)::type>(a, begin, end); });
}

void softmax_backward_rows(const Softmax &a, int64_t begin, int64_t end) {
    opdock::visit_floating(a.t, [&](auto t) { softmax_backward<typename decltype(t)::type>(a, begin, end); });
}

} // namespace HWY_NAMESPACE
} // namespace cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cpu {

HWY_EXPORT(softmax_forward_rows);
HWY_EXPORT(softmax_backward_rows);

namespace {

constexpr Operand forward_operands[] = {{"input"}, {"output"}};

opdock::Status check_forward(const opdock::Problem &problem) {
    return check_rows(problem, forward_operands);
}

opdock::Status forward(const opdock::Call &call) {
    if (opdock::Status status = check_forward(call); !status.ok())
        return status;
    const Knobs knobs = Knobs::of(call);
    const DLTensor &input = *call.input(0);
    const Softmax a = {
        .t = input.dtype,
        .grad = {},
        .input = Rows::of_input(call, 0),
        .output = Rows::of_output(call, 0),
        .n = row_size(input),
        .scale = static_cast<float>(call.get_float(0)),
        .stream = knobs.stream,
    };
    in_chunks(row_count(input), 2 * a.n * element_bytes(input), knobs.grain_kib, [&](int64_t begin, int64_t end) {
        HWY_DYNAMIC_DISPATCH(softmax_forward_rows)(a, begin, end);
    });
    return {};
}

constexpr Operand backward_operands[] = {{"grad"}, {"output"}, {"grad_input"}};

opdock::Status check_backward(const opdock::Problem &problem) {
    return check_rows(problem, backward_operands);
}

opdock::Status backward(const opdock::Call &call) {
    if (opdock::Status status = check_backward(call); !status.ok())
        return status;
    const Knobs knobs = Knobs::of(call);
    const DLTensor &grad = *call.input(0);
    const Softmax a = {
        .t = grad.dtype,
        .grad = Rows::of_input(call, 0),
        .input = Rows::of_input(call, 1),
        .output = Rows::of_output(call, 0),
        .n = row_size(grad),
        .scale = static_cast<float>(call.get_float(0)),
        .stream = knobs.stream,
    };
    in_chunks(row_count(grad), 3 * a.n * element_bytes(grad), knobs.grain_kib, [&](int64_t begin, int64_t end) {
        HWY_DYNAMIC_DISPATCH(softmax_backward_rows)(a, begin, end);
    });
    return {};
}

} // namespace

const Implementation scaled_softmax_forward = {opdock::kernel<&forward>, opdock::supports<&check_forward>};
const Implementation scaled_softmax_backward = {opdock::kernel<&backward>, opdock::supports<&check_backward>};

} // namespace cpu
#endif
