// rmsnorm_fwd and fused_add_rmsnorm_fwd.
//
// A row is read twice: once for its sum of squares and once, from the cache, to be scaled.
#include <cmath>

#include "dtypes.hpp"
#include "ops/ops.hpp"
#include "rows.hpp"
#include "schedule.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/rmsnorm.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h, which includes this file again for each target.
#include "hwy/highway.h"
#include "simd/memory-inl.h"
#include "simd/rows-inl.h"

#ifndef CPU_RMSNORM_ARGUMENTS
#define CPU_RMSNORM_ARGUMENTS
namespace cpu {

struct RmsnormForward {
    DLDataType t, u;
    Rows input, residual, weight, output, sum, rsigma; // residual and sum only for the op that adds
    int64_t n;
    double eps;
    float centre; // 1 with zero_centered_gamma, else 0: added to the weight
    bool stream;
};

} // namespace cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace cpu {
namespace HWY_NAMESPACE {

template<class T, class U>
void rmsnorm_forward(const RmsnormForward &a, int64_t begin, int64_t end) {
    const auto n = static_cast<size_t>(a.n);
    const U *weight = a.weight.row<const U>(0);
    const VF centre = hn::Set(f32, a.centre);
    for (int64_t r = begin; r < end; ++r) {
        const T *input = a.input.row<const T>(r);
        const T *residual = a.residual.row<const T>(r);
        T *added = a.sum.row<T>(r);
        const double squares = sum(n, [=](size_t i, auto extent, VF total) HWY_ATTR {
            VF x = load(input + i, extent);
            // Normalizes the sum as stored, because the backward pass will see that value.
            if (residual != nullptr)
                x = store_rounded(hn::Add(x, load(residual + i, extent)), added + i, extent);
            return hn::MulAdd(x, x, total);
        });
        const auto rsigma = static_cast<float>(1 / std::sqrt(squares / HWY_MAX(static_cast<double>(a.n), 1.0) + a.eps));
        if (a.rsigma)
            *a.rsigma.row<float>(r) = rsigma;

        const T *normalized = residual == nullptr ? input : added;
        const NextRow<T> next_input(a.input, r, end, n);
        const NextRow<T> next_residual(residual == nullptr ? a.input : a.residual, r, end, n);
        const Sink<T> output(a.output.row<T>(r), a.stream);
        const VF scale = hn::Set(f32, rsigma);
        along(n, [=](size_t i, auto extent) HWY_ATTR {
            next_input.fetch(i);
            next_residual.fetch(i);
            const VF gain = hn::Add(load(weight + i, extent), centre);
            output.store(hn::Mul(hn::Mul(load(normalized + i, extent), scale), gain), i, extent);
        });
    }
    if (a.stream)
        hwy::FlushStream();
}

void rmsnorm_fwd_rows(const RmsnormForward &a, int64_t begin, int64_t end) {
    visit_weighted(a.t, a.u, [&](auto t, auto u) {
        rmsnorm_forward<typename decltype(t)::type, typename decltype(u)::type>(a, begin, end);
    });
}

} // namespace HWY_NAMESPACE
} // namespace cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cpu {

HWY_EXPORT(rmsnorm_fwd_rows);

namespace {

constexpr Operand forward_operands[] = {{"input"}, {"weight"}, {"output"}, {"rsigma", false}};

opdock::Status check_forward(const opdock::Problem &problem) {
    return check_rows(problem, forward_operands);
}

void run_forward(const RmsnormForward &a, const DLTensor &output, int64_t tensors, const Knobs &knobs) {
    in_chunks(row_count(output), tensors * a.n * element_bytes(output), knobs, HWY_DYNAMIC_DISPATCH(rmsnorm_fwd_rows),
              a);
}

opdock::Status forward(const opdock::Call &call) {
    const Knobs knobs = Knobs::of(call);
    const DLTensor &output = *call.output(0);
    RmsnormForward a = {};
    a.t = output.dtype;
    a.u = call.input(1)->dtype;
    a.input = Rows::of_input(call, 0);
    a.weight = Rows::of_input(call, 1);
    a.output = Rows::of_output(call, 0);
    a.rsigma = Rows::of_output(call, 1, 0);
    a.n = row_size(output);
    a.eps = call.get_float(0);
    a.centre = call.get_bool(1) ? 1.0f : 0.0f;
    a.stream = knobs.stream;
    run_forward(a, output, 2, knobs);
    return {};
}

constexpr Operand fused_add_operands[] = {{"input"}, {"residual"}, {"weight"}, {"output"}, {"sum"}, {"rsigma", false}};

opdock::Status check_fused_add(const opdock::Problem &problem) {
    return check_rows(problem, fused_add_operands);
}

opdock::Status fused_add(const opdock::Call &call) {
    const Knobs knobs = Knobs::of(call);
    const DLTensor &output = *call.output(0);
    RmsnormForward a = {};
    a.t = output.dtype;
    a.u = call.input(2)->dtype;
    a.input = Rows::of_input(call, 0);
    a.residual = Rows::of_input(call, 1);
    a.weight = Rows::of_input(call, 2);
    a.output = Rows::of_output(call, 0);
    a.sum = Rows::of_output(call, 1);
    a.rsigma = Rows::of_output(call, 2, 0);
    a.n = row_size(output);
    a.eps = call.get_float(0);
    a.centre = call.get_bool(1) ? 1.0f : 0.0f;
    a.stream = knobs.stream;
    run_forward(a, output, 4, knobs);
    return {};
}

} // namespace

void add_rmsnorm(Plugin &plugin) {
    namespace ops = opdock::ops;
    plugin.add(ops::rmsnorm_fwd, weighted, {opdock::kernel<&forward>, opdock::supports<&check_forward>});
    plugin.add(ops::fused_add_rmsnorm_fwd, weighted, {opdock::kernel<&fused_add>, opdock::supports<&check_fused_add>});
}

} // namespace cpu
#endif
