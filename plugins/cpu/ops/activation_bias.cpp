// Derivatives of the activations with the gradient of a bias summed on the way: gelu_bwd_bias and similar.
#include <cstring>

#include "activation.hpp"
#include "ops/ops.hpp"
#include "row_blocks.hpp"
#include "rows.hpp"
#include "schedule.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/activation_bias.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h, which includes this file again for each target.
#include "hwy/highway.h"
#include "simd/activation-inl.h"
#include "simd/memory-inl.h"
#include "simd/rows-inl.h"

#ifndef CPU_ACTIVATION_BIAS_ARGUMENTS
#define CPU_ACTIVATION_BIAS_ARGUMENTS
namespace cpu {

struct BiasGradient {
    DLDataType t;
    Activation activation;
    Rows grad, input, grad_input;
    RowBlocks blocks;
    float *sums; // a row of n for each block
    int64_t n;
    bool stream;
};

} // namespace cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace cpu {
namespace HWY_NAMESPACE {

// Processes one block of rows and writes its row of sums.
template<class Function, class T>
void bias_gradient(const BiasGradient &a, int64_t block) {
    const auto n = static_cast<size_t>(a.n);
    float *sums = a.sums + block * a.n;
    std::memset(sums, 0, n * sizeof(float));
    for (int64_t r = a.blocks.begin(block); r < a.blocks.end(block); ++r) {
        const T *grad = a.grad.row<const T>(r);
        const T *input = a.input.row<const T>(r);
        const Sink<T> output(a.grad_input.row<T>(r), a.stream);
        along(n, [=](size_t i, auto extent) HWY_ATTR {
            const VF g = hn::Mul(load(grad + i, extent), Function::slope(load(input + i, extent)));
            output.store(g, i, extent);
            store(hn::Add(load(sums + i, extent), g), sums + i, extent);
        });
    }
    if (a.stream)
        hwy::FlushStream();
}

void bias_gradient_blocks(const BiasGradient &a, int64_t begin, int64_t end) {
    visit_activation(a.activation, [&](auto function) {
        opdock::visit_floating(a.t, [&](auto t) {
            for (int64_t block = begin; block < end; ++block)
                bias_gradient<decltype(function), typename decltype(t)::type>(a, block);
        });
    });
}

} // namespace HWY_NAMESPACE
} // namespace cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cpu {

HWY_EXPORT(bias_gradient_blocks);

namespace {

constexpr Operand operands[] = {{"grad"}, {"input"}, {"grad_bias"}, {"grad_input"}};

opdock::Status check(const opdock::Problem &problem) {
    return check_rows(problem, operands);
}

uint64_t workspace(const opdock::Problem &problem) {
    return block_sums_bytes(*problem.input(0));
}

template<Activation which>
opdock::Status run(const opdock::Call &call) {
    const Knobs knobs = Knobs::of(call);
    const DLTensor &grad = *call.input(0);
    const RowBlocks blocks(row_count(grad));
    const int64_t n = row_size(grad);
    if (n == 0)
        return {};
    const BiasGradient a = {
        .t = grad.dtype,
        .activation = which,
        .grad = Rows::of_input(call, 0),
        .input = Rows::of_input(call, 1),
        .grad_input = Rows::of_output(call, 1),
        .blocks = blocks,
        .sums = static_cast<float *>(call.workspace()),
        .n = n,
        .stream = knobs.stream,
    };
    in_chunks(blocks.count, blocks.rows_per_block * 3 * n * element_bytes(grad), knobs,
              HWY_DYNAMIC_DISPATCH(bias_gradient_blocks), a);
    add_blocks(a.sums, blocks, n, a.t, Rows::of_output(call, 0), knobs);
    return {};
}

template<Activation which>
constexpr Implementation derivative = {opdock::kernel<&run<which>>, opdock::supports<&check>,
                                       opdock::workspace_size<&workspace>};

} // namespace

void add_activation_bias(Plugin &plugin) {
    namespace ops = opdock::ops;
    plugin.add(ops::gelu_bwd_bias, any_float, derivative<Activation::gelu>);
    plugin.add(ops::qgelu_bwd_bias, any_float, derivative<Activation::qgelu>);
    plugin.add(ops::relu_bwd_bias, any_float, derivative<Activation::relu>);
    plugin.add(ops::silu_bwd_bias, any_float, derivative<Activation::silu>);
    plugin.add(ops::srelu_bwd_bias, any_float, derivative<Activation::srelu>);
}

} // namespace cpu
#endif
