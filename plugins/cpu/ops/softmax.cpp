// The scaled softmaxes, forward and backward.
#include <algorithm>
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
    Rows grad, input, output; // forward: input to output. backward: grad and `input`, the forward's output, to output
    Rows mask;                // may be absent; else queries for each batch
    int64_t batch;            // rows that share a mask
    int64_t queries;          // size of the second-to-last dim
    int64_t n;
    bool causal; // the last query sees all keys, each earlier one sees one key less
    float scale;
    bool stream;

    const uint8_t *mask_of(int64_t r) const { return mask.row<const uint8_t>(r / batch * queries + r % queries); }
    // The number of keys that row r sees, ignoring the mask.
    size_t seen(int64_t r) const {
        return static_cast<size_t>(causal ? std::max<int64_t>(r % queries + 1 + n - queries, 0) : n);
    }
};

} // namespace cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace cpu {
namespace HWY_NAMESPACE {

// Factor of the exponentials; 0 if no key is visible.
HWY_INLINE VF inverse_of(double total) {
    return hn::Set(f32, total == 0 ? 0.0f : static_cast<float>(1 / total));
}

// Processes a row that fits in one block: its exponentials are computed once and kept.
template<class T, class Keys>
HWY_INLINE void softmax_short_row(const T *input, size_t n, float scale, Keys keys, const Sink<T> &output,
                                  const NextRow<T> &next) {
    HWY_ALIGN float kept[block_size];
    float *exponentials = kept;
    const VF pivot = hn::Set(f32, pivot_of(input, 0, n, scale, keys));
    const VF by = hn::Set(f32, scale);
    const float total = block_sum(0, n, [=](size_t i, auto extent, VF s) HWY_ATTR {
        next.fetch(i);
        VF e = exp(hn::Mul(hn::Sub(load(input + i, extent), pivot), by));
        e = keys.keep(e, hn::Zero(f32), i, extent);
        store(e, exponentials + i, extent);
        return hn::Add(s, e);
    });
    const VF inverse = inverse_of(static_cast<double>(total));
    along(n, [=](size_t i, auto extent)
                 HWY_ATTR { output.store(hn::Mul(load(exponentials + i, extent), inverse), i, extent); });
}

template<class T, class Keys>
HWY_INLINE void softmax_long_row(const T *input, size_t n, float scale, Keys keys, const Sink<T> &output) {
    const ExpSum total = exp_sum(input, n, scale, input, keys);
    const VF pivot = hn::Set(f32, total.pivot);
    const VF by = hn::Set(f32, scale);
    const VF inverse = inverse_of(total.sum);
    along(n, [=](size_t i, auto extent) HWY_ATTR {
        const VF e = exp(hn::Mul(hn::Sub(load(input + i, extent), pivot), by));
        output.store(hn::Mul(keys.keep(e, hn::Zero(f32), i, extent), inverse), i, extent);
    });
}

// Writes zeros to elements [begin, end) of a row, as whole vectors at positions that the sink requires.
template<class T>
HWY_INLINE void clear(const Sink<T> &output, size_t begin, size_t end) {
    const size_t aligned = HWY_MIN(hwy::RoundUpTo(begin, hn::Lanes(f32)), end);
    if (begin < aligned)
        output.store(hn::Zero(f32), begin, Part{aligned - begin});
    along(aligned, end, [=](size_t i, auto extent) HWY_ATTR { output.store(hn::Zero(f32), i, extent); });
}

template<class T>
void softmax_forward(const Softmax &a, int64_t begin, int64_t end) {
    const auto n = static_cast<size_t>(a.n);
    for (int64_t r = begin; r < end; ++r) {
        const T *input = a.input.row<const T>(r);
        const Sink<T> output(a.output.row<T>(r), a.stream);
        const size_t seen = a.seen(r);
        const auto write = [&](auto keys) HWY_ATTR {
            if (seen <= block_size)
                softmax_short_row(input, seen, a.scale, keys, output, NextRow<T>(a.input, r, end, n));
            else
                softmax_long_row(input, seen, a.scale, keys, output);
        };
        if (a.mask)
            write(UnhiddenKeys{a.mask_of(r)});
        else
            write(AllKeys{});
        clear(output, seen, n);
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
        const size_t seen = a.seen(r);
        const VF projection = hn::Set(f32, static_cast<float>(sum(seen, [=](size_t i, auto extent, VF s) HWY_ATTR {
                                          return hn::MulAdd(load(grad + i, extent), load(probability + i, extent), s);
                                      })));
        const Sink<T> output(a.output.row<T>(r), a.stream);
        const NextRow<T> next_grad(a.grad, r, end, n);
        const NextRow<T> next_probability(a.input, r, end, n);
        const VF scale = hn::Set(f32, a.scale);
        along(seen, [=](size_t i, auto extent) HWY_ATTR {
            next_grad.fetch(i);
            next_probability.fetch(i);
            const VF centred = hn::Sub(load(grad + i, extent), projection);
            output.store(hn::Mul(hn::Mul(load(probability + i, extent), scale), centred), i, extent);
        });
        clear(output, seen, n);
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

// The arguments that all these ops share; `input` is the index of the forward's input, or of its output.
Softmax arguments_of(const opdock::Call &call, uint32_t input) {
    const DLTensor &shape = *call.input(input);
    Softmax a = {};
    a.t = shape.dtype;
    a.input = Rows::of_input(call, input);
    a.output = Rows::of_output(call, 0);
    a.queries = shape.ndim > 1 ? shape.shape[shape.ndim - 2] : 1;
    a.n = row_size(shape);
    a.scale = static_cast<float>(call.get_float(0));
    a.stream = Knobs::of(call).stream;
    return a;
}

constexpr Operand forward_operands[] = {{"input"}, {"output"}};
constexpr Operand masked_operands[] = {{"input"}, {"mask"}, {"output"}};
constexpr Operand backward_operands[] = {{"grad"}, {"output"}, {"grad_input"}};

opdock::Status check_forward(const opdock::Problem &problem) {
    return check_rows(problem, forward_operands);
}
opdock::Status check_masked(const opdock::Problem &problem) {
    return check_rows(problem, masked_operands);
}
opdock::Status check_backward(const opdock::Problem &problem) {
    return check_rows(problem, backward_operands);
}

opdock::Status run_forward(const opdock::Call &call, const Softmax &a) {
    const DLTensor &input = *call.input(0);
    in_chunks(row_count(input), 2 * a.n * element_bytes(input), Knobs::of(call),
              HWY_DYNAMIC_DISPATCH(softmax_forward_rows), a);
    return {};
}

template<bool causal>
opdock::Status forward(const opdock::Call &call) {
    Softmax a = arguments_of(call, 0);
    a.causal = causal;
    return run_forward(call, a);
}

opdock::Status masked_forward(const opdock::Call &call) {
    const DLTensor &input = *call.input(0);
    Softmax a = arguments_of(call, 0);
    a.mask = Rows::of_input(call, 1);
    const int64_t rows = row_count(input);
    a.batch = call.input(1)->shape[0] == 1 ? rows : rows / std::max<int64_t>(input.shape[0], 1);
    return run_forward(call, a);
}

template<bool causal>
opdock::Status backward(const opdock::Call &call) {
    const DLTensor &grad = *call.input(0);
    Softmax a = arguments_of(call, 1);
    a.grad = Rows::of_input(call, 0);
    a.causal = causal;
    in_chunks(row_count(grad), 3 * a.n * element_bytes(grad), Knobs::of(call),
              HWY_DYNAMIC_DISPATCH(softmax_backward_rows), a);
    return {};
}

template<bool causal>
constexpr Implementation forward_functions = {opdock::kernel<&forward<causal>>, opdock::supports<&check_forward>};
template<bool causal>
constexpr Implementation backward_functions = {opdock::kernel<&backward<causal>>, opdock::supports<&check_backward>};

} // namespace

void add_softmax(Plugin &plugin) {
    namespace ops = opdock::ops;
    plugin.add(ops::scaled_softmax_fwd, any_float, forward_functions<false>);
    plugin.add(ops::scaled_softmax_bwd, any_float, backward_functions<false>);
    plugin.add(ops::scaled_masked_softmax_fwd, any_float,
               {opdock::kernel<&masked_forward>, opdock::supports<&check_masked>});
    plugin.add(ops::scaled_masked_softmax_bwd, any_float, backward_functions<false>);
    plugin.add(ops::scaled_upper_triang_masked_softmax_fwd, any_float, forward_functions<true>);
    plugin.add(ops::scaled_upper_triang_masked_softmax_bwd, any_float, backward_functions<true>);
    plugin.add(ops::scaled_aligned_causal_masked_softmax_fwd, any_float, forward_functions<true>);
    plugin.add(ops::scaled_aligned_causal_masked_softmax_bwd, any_float, backward_functions<true>);
}

} // namespace cpu
#endif
