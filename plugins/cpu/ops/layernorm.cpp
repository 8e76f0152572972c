// layernorm_fwd and layernorm_bwd.
#include <cmath>
#include <cstring>

#include "dtypes.hpp"
#include "ops/ops.hpp"
#include "row_blocks.hpp"
#include "rows.hpp"
#include "schedule.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/layernorm.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h, which includes this file again for each target.
#include "hwy/highway.h"
#include "simd/memory-inl.h"
#include "simd/rows-inl.h"

#ifndef CPU_LAYERNORM_ARGUMENTS
#define CPU_LAYERNORM_ARGUMENTS
namespace cpu {

struct LayernormForward {
    DLDataType t, u;
    Rows input, weight, bias, output, mu, rsigma;
    int64_t n;
    double eps;
    float centre; // 1 with zero_centered_gamma, else 0: added to the weight
    bool stream;
};

struct LayernormBackward {
    DLDataType t, u;
    Rows grad, input, mu, rsigma, weight, grad_input;
    RowBlocks blocks;
    float *weight_sums; // null if not wanted
    float *bias_sums;   // null if not wanted
    int64_t n;
    float centre;
    bool stream;
};

} // namespace cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace cpu {
namespace HWY_NAMESPACE {

// Three passes over a row, the last two from the cache: its mean; the sums of the deviations and of their squares; the
// output. The deviations are relative to a rounded mean, and their own mean corrects the rounding: rows whose mean is
// thousands of times their spread keep their accuracy.
template<class T, class U>
void layernorm_forward(const LayernormForward &a, int64_t begin, int64_t end) {
    const auto n = static_cast<size_t>(a.n);
    const double count = HWY_MAX(static_cast<double>(a.n), 1.0); // the mean of an empty row is 0
    const U *weight = a.weight.row<const U>(0);
    const U *bias = a.bias.row<const U>(0);
    const VF centre = hn::Set(f32, a.centre);
    for (int64_t r = begin; r < end; ++r) {
        const T *input = a.input.row<const T>(r);
        const double total =
            sum(n, [=](size_t i, auto extent, VF s) HWY_ATTR { return hn::Add(s, load(input + i, extent)); });
        const auto rough_mean = static_cast<float>(total / count);
        const VF rough = hn::Set(f32, rough_mean);
        const TwoSums deviation = two_sums(n, [=](size_t i, auto extent, VF &linear, VF &squared) HWY_ATTR {
            const VF d = hn::Sub(load(input + i, extent), rough);
            linear = hn::Add(linear, d);
            squared = hn::MulAdd(d, d, squared);
        });
        const double correction = deviation.first / count;
        const double variance = deviation.second / count - correction * correction;
        const auto rsigma = static_cast<float>(1 / std::sqrt(variance + a.eps));
        if (a.mu)
            *a.mu.row<float>(r) = static_cast<float>(static_cast<double>(rough_mean) + correction);
        if (a.rsigma)
            *a.rsigma.row<float>(r) = rsigma;

        const NextRow<T> next(a.input, r, end, n);
        const Sink<T> output(a.output.row<T>(r), a.stream);
        const VF rest = hn::Set(f32, static_cast<float>(correction));
        const VF scale = hn::Set(f32, rsigma);
        along(n, [=](size_t i, auto extent) HWY_ATTR {
            next.fetch(i);
            const VF x = hn::Mul(hn::Sub(hn::Sub(load(input + i, extent), rough), rest), scale);
            const VF gain = hn::Add(load(weight + i, extent), centre);
            output.store(hn::MulAdd(x, gain, load(bias + i, extent)), i, extent);
        });
    }
    if (a.stream)
        hwy::FlushStream();
}

void layernorm_fwd_rows(const LayernormForward &a, int64_t begin, int64_t end) {
    visit_weighted(a.t, a.u, [&](auto t, auto u) {
        layernorm_forward<typename decltype(t)::type, typename decltype(u)::type>(a, begin, end);
    });
}

// Processes one block of rows and writes its rows of weight_sums and bias_sums.
template<class T, class U>
void layernorm_backward(const LayernormBackward &a, int64_t block) {
    const auto n = static_cast<size_t>(a.n);
    const double count = HWY_MAX(static_cast<double>(a.n), 1.0); // the mean of an empty row is 0
    const U *weight = a.weight.row<const U>(0);
    const VF centre = hn::Set(f32, a.centre);
    const auto sums_of_block = [&](float *sums) -> float * {
        if (sums == nullptr || n == 0)
            return nullptr;
        return static_cast<float *>(std::memset(sums + block * a.n, 0, n * sizeof(float)));
    };
    float *weight_sums = sums_of_block(a.weight_sums);
    float *bias_sums = sums_of_block(a.bias_sums);
    for (int64_t r = a.blocks.begin(block); r < a.blocks.end(block); ++r) {
        const T *grad = a.grad.row<const T>(r);
        const T *input = a.input.row<const T>(r);
        const float rsigma = *a.rsigma.row<const float>(r);
        const VF mu = hn::Set(f32, *a.mu.row<const float>(r));
        const VF scale = hn::Set(f32, rsigma);
        const auto normalized = [=](size_t i, auto extent)
                                    HWY_ATTR { return hn::Mul(hn::Sub(load(input + i, extent), mu), scale); };
        const auto gained = [=](VF g, size_t i, auto extent)
                                HWY_ATTR { return hn::Mul(g, hn::Add(load(weight + i, extent), centre)); };
        const TwoSums totals = two_sums(n, [=](size_t i, auto extent, VF &plain, VF &projected) HWY_ATTR {
            const VF d = gained(load(grad + i, extent), i, extent);
            plain = hn::Add(plain, d);
            projected = hn::MulAdd(d, normalized(i, extent), projected);
        });
        const VF mean = hn::Set(f32, static_cast<float>(totals.first / count));
        const VF projection = hn::Set(f32, static_cast<float>(totals.second / count));
        const NextRow<T> next_grad(a.grad, r, a.blocks.end(block), n);
        const NextRow<T> next_input(a.input, r, a.blocks.end(block), n);
        const Sink<T> out(a.grad_input.row<T>(r), a.stream);
        along(n, [=](size_t i, auto extent) HWY_ATTR {
            next_grad.fetch(i);
            next_input.fetch(i);
            const VF g = load(grad + i, extent);
            const VF x = normalized(i, extent);
            const VF d = hn::Sub(gained(g, i, extent), mean);
            out.store(hn::Mul(scale, hn::NegMulAdd(x, projection, d)), i, extent);
            if (weight_sums != nullptr)
                store(hn::MulAdd(g, x, load(weight_sums + i, extent)), weight_sums + i, extent);
            if (bias_sums != nullptr)
                store(hn::Add(g, load(bias_sums + i, extent)), bias_sums + i, extent);
        });
    }
    if (a.stream)
        hwy::FlushStream();
}

void layernorm_bwd_blocks(const LayernormBackward &a, int64_t begin, int64_t end) {
    visit_weighted(a.t, a.u, [&](auto t, auto u) {
        for (int64_t block = begin; block < end; ++block)
            layernorm_backward<typename decltype(t)::type, typename decltype(u)::type>(a, block);
    });
}

} // namespace HWY_NAMESPACE
} // namespace cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cpu {

HWY_EXPORT(layernorm_fwd_rows);
HWY_EXPORT(layernorm_bwd_blocks);

namespace {

constexpr Operand forward_operands[] = {{"input"}, {"weight"}, {"bias"}, {"output"}, {"mu", false}, {"rsigma", false}};

opdock::Status check_forward(const opdock::Problem &problem) {
    return check_rows(problem, forward_operands);
}

opdock::Status forward(const opdock::Call &call) {
    const Knobs knobs = Knobs::of(call);
    const DLTensor &input = *call.input(0);
    const LayernormForward a = {
        .t = input.dtype,
        .u = call.input(1)->dtype,
        .input = Rows::of_input(call, 0),
        .weight = Rows::of_input(call, 1),
        .bias = Rows::of_input(call, 2),
        .output = Rows::of_output(call, 0),
        .mu = Rows::of_output(call, 1, 0),
        .rsigma = Rows::of_output(call, 2, 0),
        .n = row_size(input),
        .eps = call.get_float(0),
        .centre = call.get_bool(1) ? 1.0f : 0.0f,
        .stream = knobs.stream,
    };
    in_chunks(row_count(input), 2 * a.n * element_bytes(input), knobs, HWY_DYNAMIC_DISPATCH(layernorm_fwd_rows), a);
    return {};
}

constexpr Operand backward_operands[] = {{"grad"},   {"input"},      {"mu", false},   {"rsigma", false},
                                         {"weight"}, {"grad_input"}, {"grad_weight"}, {"grad_bias"}};

opdock::Status check_backward(const opdock::Problem &problem) {
    return check_rows(problem, backward_operands);
}

uint64_t backward_workspace(const opdock::Problem &problem) {
    const DLTensor &input = *problem.input(1);
    const int64_t sums = RowBlocks(row_count(input)).sums(row_size(input));
    const int64_t wanted = (problem.has_output(1) ? 1 : 0) + (problem.has_output(2) ? 1 : 0);
    return static_cast<uint64_t>(wanted * sums) * sizeof(float);
}

opdock::Status backward(const opdock::Call &call) {
    const Knobs knobs = Knobs::of(call);
    const DLTensor &input = *call.input(1);
    const RowBlocks blocks(row_count(input));
    const int64_t n = row_size(input);
    const Rows grad_weight = Rows::of_output(call, 1);
    const Rows grad_bias = Rows::of_output(call, 2);
    auto *sums = static_cast<float *>(call.workspace());
    const LayernormBackward a = {
        .t = input.dtype,
        .u = call.input(4)->dtype,
        .grad = Rows::of_input(call, 0),
        .input = Rows::of_input(call, 1),
        .mu = Rows::of_input(call, 2, 0),
        .rsigma = Rows::of_input(call, 3, 0),
        .weight = Rows::of_input(call, 4),
        .grad_input = Rows::of_output(call, 0),
        .blocks = blocks,
        .weight_sums = grad_weight ? sums : nullptr,
        .bias_sums = grad_bias ? sums + (grad_weight ? blocks.sums(n) : 0) : nullptr,
        .n = n,
        .centre = call.get_bool(0) ? 1.0f : 0.0f,
        .stream = knobs.stream,
    };
    in_chunks(blocks.count, blocks.rows_per_block * 3 * n * element_bytes(input), knobs,
              HWY_DYNAMIC_DISPATCH(layernorm_bwd_blocks), a);
    if (grad_weight)
        add_blocks(a.weight_sums, blocks, n, a.u, grad_weight, knobs);
    if (grad_bias)
        add_blocks(a.bias_sums, blocks, n, a.u, grad_bias, knobs);
    return {};
}

} // namespace

void add_layernorm(Plugin &plugin) {
    namespace ops = opdock::ops;
    plugin.add(ops::layernorm_fwd, weighted, {opdock::kernel<&forward>, opdock::supports<&check_forward>});
    plugin.add(
        ops::layernorm_bwd, weighted,
        {opdock::kernel<&backward>, opdock::supports<&check_backward>, opdock::workspace_size<&backward_workspace>});
}

} // namespace cpu
#endif
