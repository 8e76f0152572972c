// l2norm_fwd and l2norm_bwd.
//
// A row is read twice: once for its sum of squares and once, from the cache, to be scaled.
#include <cmath>

#include "dtypes.hpp"
#include "ops/ops.hpp"
#include "rows.hpp"
#include "schedule.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/l2norm.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h, which includes this file again for each target.
#include "hwy/highway.h"
#include "simd/memory-inl.h"
#include "simd/rows-inl.h"

#ifndef CPU_L2NORM_ARGUMENTS
#define CPU_L2NORM_ARGUMENTS
namespace cpu {

struct L2norm {
    DLDataType t;
    Rows grad, input, rnorm, output; // backward: rnorm is an input, and output grad_input
    int64_t n;
    double eps;
    bool stream;
};

} // namespace cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace cpu {
namespace HWY_NAMESPACE {

template<class T>
void l2norm_forward(const L2norm &a, int64_t begin, int64_t end) {
    const auto n = static_cast<size_t>(a.n);
    for (int64_t r = begin; r < end; ++r) {
        const T *input = a.input.row<const T>(r);
        const double squares = sum(n, [=](size_t i, auto extent, VF total) HWY_ATTR {
            const VF x = load(input + i, extent);
            return hn::MulAdd(x, x, total);
        });
        const auto rnorm = static_cast<float>(1 / std::sqrt(squares + a.eps));
        if (a.rnorm)
            *a.rnorm.row<float>(r) = rnorm;
        const NextRow<T> next(a.input, r, end, n);
        const Sink<T> output(a.output.row<T>(r), a.stream);
        const VF scale = hn::Set(f32, rnorm);
        along(n, [=](size_t i, auto extent) HWY_ATTR {
            next.fetch(i);
            output.store(hn::Mul(load(input + i, extent), scale), i, extent);
        });
    }
    if (a.stream)
        hwy::FlushStream();
}

template<class T>
void l2norm_backward(const L2norm &a, int64_t begin, int64_t end) {
    const auto n = static_cast<size_t>(a.n);
    for (int64_t r = begin; r < end; ++r) {
        const T *grad = a.grad.row<const T>(r);
        const T *input = a.input.row<const T>(r);
        const VF scale = hn::Set(f32, *a.rnorm.row<const float>(r));
        const VF along_x =
            hn::Set(f32, static_cast<float>(sum(n, [=](size_t i, auto extent, VF s) HWY_ATTR {
                        return hn::MulAdd(load(grad + i, extent), hn::Mul(load(input + i, extent), scale), s);
                    })));
        const NextRow<T> next_grad(a.grad, r, end, n);
        const NextRow<T> next_input(a.input, r, end, n);
        const Sink<T> output(a.output.row<T>(r), a.stream);
        along(n, [=](size_t i, auto extent) HWY_ATTR {
            next_grad.fetch(i);
            next_input.fetch(i);
            const VF x = hn::Mul(load(input + i, extent), scale);
            output.store(hn::Mul(scale, hn::NegMulAdd(x, along_x, load(grad + i, extent))), i, extent);
        });
    }
    if (a.stream)
        hwy::FlushStream();
}

void l2norm_forward_rows(const L2norm &a, int64_t begin, int64_t end) {
    opdock::visit_floating(a.t, [&](auto t) { l2norm_forward<typename decltype(t)::type>(a, begin, end); });
}

void l2norm_backward_rows(const L2norm &a, int64_t begin, int64_t end) {
    opdock::visit_floating(a.t, [&](auto t) { l2norm_backward<typename decltype(t)::type>(a, begin, end); });
}

} // namespace HWY_NAMESPACE
} // namespace cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cpu {

HWY_EXPORT(l2norm_forward_rows);
HWY_EXPORT(l2norm_backward_rows);

namespace {

constexpr Operand forward_operands[] = {{"input"}, {"output"}, {"rnorm", false}};
constexpr Operand backward_operands[] = {{"grad"}, {"input"}, {"rnorm", false}, {"grad_input"}};

opdock::Status check_forward(const opdock::Problem &problem) {
    return check_rows(problem, forward_operands);
}
opdock::Status check_backward(const opdock::Problem &problem) {
    return check_rows(problem, backward_operands);
}

L2norm arguments_of(const opdock::Call &call, uint32_t input) {
    L2norm a = {};
    a.t = call.output(0)->dtype;
    a.input = Rows::of_input(call, input);
    a.output = Rows::of_output(call, 0);
    a.n = row_size(*call.output(0));
    a.stream = Knobs::of(call).stream;
    return a;
}

opdock::Status forward(const opdock::Call &call) {
    const DLTensor &output = *call.output(0);
    L2norm a = arguments_of(call, 0);
    a.rnorm = Rows::of_output(call, 1, 0);
    a.eps = call.get_float(0);
    in_chunks(row_count(output), 2 * a.n * element_bytes(output), Knobs::of(call),
              HWY_DYNAMIC_DISPATCH(l2norm_forward_rows), a);
    return {};
}

opdock::Status backward(const opdock::Call &call) {
    const DLTensor &output = *call.output(0);
    L2norm a = arguments_of(call, 1);
    a.grad = Rows::of_input(call, 0);
    a.rnorm = Rows::of_input(call, 2, 0);
    in_chunks(row_count(output), 3 * a.n * element_bytes(output), Knobs::of(call),
              HWY_DYNAMIC_DISPATCH(l2norm_backward_rows), a);
    return {};
}

} // namespace

void add_l2norm(Plugin &plugin) {
    namespace ops = opdock::ops;
    plugin.add(ops::l2norm_fwd, any_float, {opdock::kernel<&forward>, opdock::supports<&check_forward>});
    plugin.add(ops::l2norm_bwd, any_float, {opdock::kernel<&backward>, opdock::supports<&check_backward>});
}

} // namespace cpu
#endif
