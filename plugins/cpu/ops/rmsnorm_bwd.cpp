// rmsnorm_bwd and rmsnorm_bwd_add.
//
// A row is read twice: once for its projection and once, from the cache, for its gradient.
#include <cstring>

#include "dtypes.hpp"
#include "ops/ops.hpp"
#include "row_blocks.hpp"
#include "rows.hpp"
#include "schedule.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/rmsnorm_bwd.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h, which includes this file again for each target.
#include "hwy/highway.h"
#include "simd/memory-inl.h"
#include "simd/rows-inl.h"

#ifndef CPU_RMSNORM_BWD_ARGUMENTS
#define CPU_RMSNORM_BWD_ARGUMENTS
namespace cpu {

struct RmsnormBackward {
    DLDataType t, u;
    Rows grad, input, add, rsigma, weight, grad_input; // add may be absent
    RowBlocks blocks;
    float *weight_sums; // null if not wanted
    int64_t n;
    float centre;
    bool stream;
};

} // namespace cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace cpu {
namespace HWY_NAMESPACE {

// Processes one block of rows and writes its row of weight_sums.
template<class T, class U>
void rmsnorm_backward(const RmsnormBackward &a, int64_t block) {
    const auto n = static_cast<size_t>(a.n);
    const U *weight = a.weight.row<const U>(0);
    const VF centre = hn::Set(f32, a.centre);
    float *sums = a.weight_sums == nullptr ? nullptr : a.weight_sums + block * a.n;
    if (sums != nullptr && n > 0)
        std::memset(sums, 0, n * sizeof(float));
    for (int64_t r = a.blocks.begin(block); r < a.blocks.end(block); ++r) {
        const T *grad = a.grad.row<const T>(r);
        const T *input = a.input.row<const T>(r);
        const T *add = a.add.row<const T>(r);
        const float rsigma = *a.rsigma.row<const float>(r);
        const VF scale = hn::Set(f32, rsigma);
        const auto gained = [=](VF g, size_t i, auto extent)
                                HWY_ATTR { return hn::Mul(g, hn::Add(load(weight + i, extent), centre)); };
        const double projection = sum(n, [=](size_t i, auto extent, VF total) HWY_ATTR {
            return hn::MulAdd(gained(load(grad + i, extent), i, extent), load(input + i, extent), total);
        });
        // mean(g grad x) with x = input rsigma
        const VF mean =
            hn::Set(f32, static_cast<float>(projection * static_cast<double>(rsigma) / static_cast<double>(a.n)));
        const NextRow<T> next_grad(a.grad, r, a.blocks.end(block), n);
        const NextRow<T> next_input(a.input, r, a.blocks.end(block), n);
        const Sink<T> out(a.grad_input.row<T>(r), a.stream);
        along(n, [=](size_t i, auto extent) HWY_ATTR {
            next_grad.fetch(i);
            next_input.fetch(i);
            const VF g = load(grad + i, extent);
            const VF x = hn::Mul(load(input + i, extent), scale);
            VF gradient = hn::Mul(scale, hn::NegMulAdd(x, mean, gained(g, i, extent)));
            if (add != nullptr)
                gradient = hn::Add(gradient, load(add + i, extent));
            out.store(gradient, i, extent);
            if (sums != nullptr)
                store(hn::MulAdd(g, x, load(sums + i, extent)), sums + i, extent);
        });
    }
    if (a.stream)
        hwy::FlushStream();
}

void rmsnorm_bwd_blocks(const RmsnormBackward &a, int64_t begin, int64_t end) {
    visit_weighted(a.t, a.u, [&](auto t, auto u) {
        for (int64_t block = begin; block < end; ++block)
            rmsnorm_backward<typename decltype(t)::type, typename decltype(u)::type>(a, block);
    });
}

} // namespace HWY_NAMESPACE
} // namespace cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cpu {

HWY_EXPORT(rmsnorm_bwd_blocks);

namespace {

constexpr Operand operands[] = {{"grad"}, {"input"}, {"rsigma", false}, {"weight"}, {"grad_input"}, {"grad_weight"}};
constexpr Operand operands_with_add[] = {{"grad"},   {"input"},      {"add"},        {"rsigma", false},
                                         {"weight"}, {"grad_input"}, {"grad_weight"}};

opdock::Status check(const opdock::Problem &problem) {
    return check_rows(problem, operands);
}
opdock::Status check_with_add(const opdock::Problem &problem) {
    return check_rows(problem, operands_with_add);
}

uint64_t workspace(const opdock::Problem &problem) {
    return problem.has_output(1) ? block_sums_bytes(*problem.input(1)) : 0;
}

opdock::Status run(const opdock::Call &call, bool with_add) {
    const Knobs knobs = Knobs::of(call);
    const DLTensor &input = *call.input(1);
    const RowBlocks blocks(row_count(input));
    const int64_t n = row_size(input);
    const uint32_t rsigma = with_add ? 3 : 2, weight = rsigma + 1;
    const Rows grad_weight = Rows::of_output(call, 1);
    const RmsnormBackward a = {
        .t = input.dtype,
        .u = call.input(weight)->dtype,
        .grad = Rows::of_input(call, 0),
        .input = Rows::of_input(call, 1),
        .add = with_add ? Rows::of_input(call, 2) : Rows(),
        .rsigma = Rows::of_input(call, rsigma, 0),
        .weight = Rows::of_input(call, weight),
        .grad_input = Rows::of_output(call, 0),
        .blocks = blocks,
        .weight_sums = grad_weight ? static_cast<float *>(call.workspace()) : nullptr,
        .n = n,
        .centre = call.get_bool(0) ? 1.0f : 0.0f,
        .stream = knobs.stream,
    };
    in_chunks(blocks.count, blocks.rows_per_block * (with_add ? 4 : 3) * n * element_bytes(input), knobs,
              HWY_DYNAMIC_DISPATCH(rmsnorm_bwd_blocks), a);
    if (grad_weight)
        add_blocks(a.weight_sums, blocks, n, a.u, grad_weight, knobs);
    return {};
}

opdock::Status backward(const opdock::Call &call) {
    return run(call, false);
}

opdock::Status backward_add(const opdock::Call &call) {
    return run(call, true);
}

} // namespace

void add_rmsnorm_bwd(Plugin &plugin) {
    namespace ops = opdock::ops;
    plugin.add(ops::rmsnorm_bwd, weighted,
               {opdock::kernel<&backward>, opdock::supports<&check>, opdock::workspace_size<&workspace>});
    plugin.add(ops::rmsnorm_bwd_add, weighted,
               {opdock::kernel<&backward_add>, opdock::supports<&check_with_add>, opdock::workspace_size<&workspace>});
}

} // namespace cpu
#endif
