// swiglu, dswiglu and silu_and_mul.
#include "elementwise.hpp"
#include "ops/ops.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/gated.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h, which includes this file again for each target.
#include "hwy/highway.h"
#include "simd/activation-inl.h"
#include "simd/map-inl.h"
#include "simd/memory-inl.h"

#ifndef CPU_GATED_ARGUMENTS
#define CPU_GATED_ARGUMENTS
namespace cpu {

struct Gated {
    DLDataType t;
    Rows grad, input, output; // grad only backward; output is then the gradient of the input
    int64_t n;                // half the input's last dim
    bool stream;
};

} // namespace cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace cpu {
namespace HWY_NAMESPACE {

template<class Activation, class T>
void gated_forward(const Gated &a, int64_t begin, int64_t end) {
    const auto n = static_cast<size_t>(a.n);
    for (int64_t r = begin; r < end; ++r) {
        const T *first = a.input.row<const T>(r);
        const T *second = first + n;
        const Sink<T> output(a.output.row<T>(r), a.stream);
        along(n, [=](size_t i, auto extent) HWY_ATTR {
            output.store(hn::Mul(Activation::value(load(first + i, extent)), load(second + i, extent)), i, extent);
        });
    }
    if (a.stream)
        hwy::FlushStream();
}

template<class Activation, class T>
void gated_backward(const Gated &a, int64_t begin, int64_t end) {
    const auto n = static_cast<size_t>(a.n);
    for (int64_t r = begin; r < end; ++r) {
        const T *grad = a.grad.row<const T>(r);
        const T *first = a.input.row<const T>(r);
        const T *second = first + n;
        const Sink<T> grad_first(a.output.row<T>(r), a.stream);
        const Sink<T> grad_second(a.output.row<T>(r) + n, a.stream);
        for (size_t begin_part = 0; begin_part < n; begin_part += Stage<T>::size) {
            const size_t end_part = HWY_MIN(begin_part + Stage<T>::size, n);
            Stage<T> stage;
            along(begin_part, end_part, [=, &stage](size_t i, auto extent) HWY_ATTR {
                const VF g = load(grad + i, extent);
                const VF x = load(first + i, extent);
                grad_first.store(hn::Mul(hn::Mul(g, load(second + i, extent)), Activation::slope(x)), i, extent);
                stage.store(hn::Mul(g, Activation::value(x)), i - begin_part, extent);
            });
            grad_second.copy(stage.elements(), begin_part, end_part);
        }
    }
    if (a.stream)
        hwy::FlushStream();
}

void swiglu_rows(const Gated &a, int64_t begin, int64_t end) {
    opdock::visit_floating(a.t, [&](auto t) { gated_forward<Silu, typename decltype(t)::type>(a, begin, end); });
}

void dswiglu_rows(const Gated &a, int64_t begin, int64_t end) {
    opdock::visit_floating(a.t, [&](auto t) { gated_backward<Silu, typename decltype(t)::type>(a, begin, end); });
}

void silu_and_mul_run(const Run &run) {
    map_binary(run, [](VF gate, VF up) HWY_ATTR { return hn::Mul(Silu::value(gate), up); });
}

} // namespace HWY_NAMESPACE
} // namespace cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cpu {

HWY_EXPORT(swiglu_rows);
HWY_EXPORT(dswiglu_rows);
HWY_EXPORT(silu_and_mul_run);

namespace {

constexpr Operand forward_operands[] = {{"input"}, {"output"}};

opdock::Status check_forward(const opdock::Problem &problem) {
    return check_rows(problem, forward_operands);
}

opdock::Status forward(const opdock::Call &call) {
    if (opdock::Status status = check_forward(call); !status.ok())
        return status;
    const Knobs knobs = Knobs::of(call);
    const DLTensor &output = *call.output(0);
    const Gated a = {
        .t = output.dtype,
        .grad = {},
        .input = Rows::of_input(call, 0),
        .output = Rows::of_output(call, 0),
        .n = row_size(output),
        .stream = knobs.stream,
    };
    in_chunks(row_count(output), 3 * a.n * element_bytes(output), knobs.grain_kib, [&](int64_t begin, int64_t end) {
        HWY_DYNAMIC_DISPATCH(swiglu_rows)(a, begin, end);
    });
    return {};
}

constexpr Operand backward_operands[] = {{"grad"}, {"input"}, {"grad_input"}};

opdock::Status check_backward(const opdock::Problem &problem) {
    return check_rows(problem, backward_operands);
}

opdock::Status backward(const opdock::Call &call) {
    if (opdock::Status status = check_backward(call); !status.ok())
        return status;
    const Knobs knobs = Knobs::of(call);
    const DLTensor &grad = *call.input(0);
    const Gated a = {
        .t = grad.dtype,
        .grad = Rows::of_input(call, 0),
        .input = Rows::of_input(call, 1),
        .output = Rows::of_output(call, 0),
        .n = row_size(grad),
        .stream = knobs.stream,
    };
    in_chunks(row_count(grad), 5 * a.n * element_bytes(grad), knobs.grain_kib, [&](int64_t begin, int64_t end) {
        HWY_DYNAMIC_DISPATCH(dswiglu_rows)(a, begin, end);
    });
    return {};
}

constexpr Operand two_tensor_operands[] = {{"gate"}, {"up"}, {"output"}};

opdock::Status check_two_tensors(const opdock::Problem &problem) {
    return check_rows(problem, two_tensor_operands);
}

opdock::Status two_tensors(const opdock::Call &call) {
    if (opdock::Status status = check_two_tensors(call); !status.ok())
        return status;
    return elementwise(call, 1, [](const Run &run) { HWY_DYNAMIC_DISPATCH(silu_and_mul_run)(run); });
}

} // namespace

const Implementation swiglu = {opdock::kernel<&forward>, opdock::supports<&check_forward>};
const Implementation dswiglu = {opdock::kernel<&backward>, opdock::supports<&check_backward>};
const Implementation silu_and_mul = {opdock::kernel<&two_tensors>, opdock::supports<&check_two_tensors>};

} // namespace cpu
#endif
