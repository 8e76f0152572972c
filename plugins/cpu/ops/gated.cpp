// Gated activations of the two halves of a row, and their derivatives: swiglu, swiglu_bwd and similar.
#include "gate.hpp"
#include "ops/ops.hpp"
#include "rows.hpp"
#include "schedule.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/gated.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h, which includes this file again for each target.
#include "hwy/highway.h"
#include "simd/gate-inl.h"

#ifndef CPU_GATED_ARGUMENTS
#define CPU_GATED_ARGUMENTS
namespace cpu {

struct GatedRows {
    DLDataType t;
    Gate gate;
    Rows grad, input, output; // grad only in backward; output is then the gradient of the input
    int64_t n;                // half the input's last dim
    bool stream;
};

} // namespace cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace cpu {
namespace HWY_NAMESPACE {

// Calls work(gate, TypeTag<T>, row) for each row.
template<class Work>
void for_gated_rows(const GatedRows &a, int64_t begin, int64_t end, Work work) {
    visit_gate(a.gate, [&](auto gate) {
        opdock::visit_floating(a.t, [&](auto t) {
            for (int64_t r = begin; r < end; ++r)
                work(gate, t, r);
        });
    });
    if (a.stream)
        hwy::FlushStream();
}

void gated_forward_rows(const GatedRows &a, int64_t begin, int64_t end) {
    const auto n = static_cast<size_t>(a.n);
    for_gated_rows(a, begin, end, [&](auto gate, auto t, int64_t r) HWY_ATTR {
        using T = typename decltype(t)::type;
        const T *first = a.input.row<const T>(r);
        gate_forward(gate, first, first + n, Sink<T>(a.output.row<T>(r), a.stream), n);
    });
}

void gated_backward_rows(const GatedRows &a, int64_t begin, int64_t end) {
    const auto n = static_cast<size_t>(a.n);
    for_gated_rows(a, begin, end, [&](auto gate, auto t, int64_t r) HWY_ATTR {
        using T = typename decltype(t)::type;
        const T *first = a.input.row<const T>(r);
        T *output = a.output.row<T>(r);
        gate_backward(gate, a.grad.row<const T>(r), first, first + n, Sink<T>(output, a.stream),
                      Sink<T>(output + n, a.stream), n);
    });
}

} // namespace HWY_NAMESPACE
} // namespace cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cpu {

HWY_EXPORT(gated_forward_rows);
HWY_EXPORT(gated_backward_rows);

namespace {

constexpr Operand forward_operands[] = {{"input"}, {"output"}};

opdock::Status check_forward(const opdock::Problem &problem) {
    return check_rows(problem, forward_operands);
}

opdock::Status run_forward(const opdock::Call &call, const Gate &gate) {
    const Knobs knobs = Knobs::of(call);
    const DLTensor &output = *call.output(0);
    const GatedRows a = {
        .t = output.dtype,
        .gate = gate,
        .grad = {},
        .input = Rows::of_input(call, 0),
        .output = Rows::of_output(call, 0),
        .n = row_size(output),
        .stream = knobs.stream,
    };
    in_chunks(row_count(output), 3 * a.n * element_bytes(output), knobs, HWY_DYNAMIC_DISPATCH(gated_forward_rows), a);
    return {};
}

constexpr Operand backward_operands[] = {{"grad"}, {"input"}, {"grad_input"}};

opdock::Status check_backward(const opdock::Problem &problem) {
    return check_rows(problem, backward_operands);
}

opdock::Status run_backward(const opdock::Call &call, const Gate &gate) {
    const Knobs knobs = Knobs::of(call);
    const DLTensor &grad = *call.input(0);
    const GatedRows a = {
        .t = grad.dtype,
        .gate = gate,
        .grad = Rows::of_input(call, 0),
        .input = Rows::of_input(call, 1),
        .output = Rows::of_output(call, 0),
        .n = row_size(grad),
        .stream = knobs.stream,
    };
    in_chunks(row_count(grad), 5 * a.n * element_bytes(grad), knobs, HWY_DYNAMIC_DISPATCH(gated_backward_rows), a);
    return {};
}

template<Activation which>
opdock::Status forward(const opdock::Call &call) {
    return run_forward(call, {.activation = which});
}
template<Activation which>
opdock::Status backward(const opdock::Call &call) {
    return run_backward(call, {.activation = which});
}

Gate clamped_gate(const opdock::Call &call) {
    return {Activation::silu, true, static_cast<float>(call.get_float(0)), static_cast<float>(call.get_float(1))};
}
opdock::Status clamped_forward(const opdock::Call &call) {
    return run_forward(call, clamped_gate(call));
}
opdock::Status clamped_backward(const opdock::Call &call) {
    return run_backward(call, clamped_gate(call));
}

template<opdock::Status (*function)(const opdock::Call &)>
constexpr Implementation output = {opdock::kernel<function>, opdock::supports<&check_forward>};
template<opdock::Status (*function)(const opdock::Call &)>
constexpr Implementation gradient = {opdock::kernel<function>, opdock::supports<&check_backward>};

} // namespace

void add_gated(Plugin &plugin) {
    namespace ops = opdock::ops;
    plugin.add(ops::geglu, any_float, output<&forward<Activation::gelu>>);
    plugin.add(ops::qgeglu, any_float, output<&forward<Activation::qgelu>>);
    plugin.add(ops::reglu, any_float, output<&forward<Activation::relu>>);
    plugin.add(ops::sreglu, any_float, output<&forward<Activation::srelu>>);
    plugin.add(ops::swiglu, any_float, output<&forward<Activation::silu>>);
    plugin.add(ops::clamped_swiglu, any_float, output<&clamped_forward>);
    plugin.add(ops::geglu_bwd, any_float, gradient<&backward<Activation::gelu>>);
    plugin.add(ops::qgeglu_bwd, any_float, gradient<&backward<Activation::qgelu>>);
    plugin.add(ops::reglu_bwd, any_float, gradient<&backward<Activation::relu>>);
    plugin.add(ops::sreglu_bwd, any_float, gradient<&backward<Activation::srelu>>);
    plugin.add(ops::swiglu_bwd, any_float, gradient<&backward<Activation::silu>>);
    plugin.add(ops::clamped_swiglu_bwd, any_float, gradient<&clamped_backward>);
}

} // namespace cpu
#endif
