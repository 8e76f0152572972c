// qk_norm_rope and qk_norm_rope_bwd.
//
// A head is normalized into an f32 buffer and rotated from there; in backward, its gradient is rotated back into one.
#include <cmath>
#include <cstring>
#include <vector>

#include "dtypes.hpp"
#include "ops/ops.hpp"
#include "positions.hpp"
#include "row_blocks.hpp"
#include "rows.hpp"
#include "schedule.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/qk_norm_rope.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h, which includes this file again for each target.
#include "hwy/highway.h"
#include "simd/memory-inl.h"
#include "simd/rope-inl.h"
#include "simd/rows-inl.h"

#ifndef CPU_QK_NORM_ROPE_ARGUMENTS
#define CPU_QK_NORM_ROPE_ARGUMENTS
namespace cpu {

// The arguments for the query, or for the key.
struct QkNormRope {
    DLDataType t, u;
    Rows grad, input, weight, output; // backward: output is the gradient of the input; forward has no grad
    PositionTables tables;
    RowBlocks blocks; // backward
    float *sums;      // for the weight's gradient, one row per block; null if not wanted
    int64_t heads, dims;
    double eps;
    bool interleaved, stream;
};

} // namespace cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace cpu {
namespace HWY_NAMESPACE {

// The coefficients of the current token.
class TokenCoefficients {
  public:
    TokenCoefficients(const QkNormRope &a, bool transposed)
        : a_(a), transposed_(transposed), numbers_(static_cast<size_t>(4 * a.tables.pairs())) {}

    size_t rotated() const { return numbers_.size() / 2; }
    const float *cosine() const { return numbers_.data(); }
    const float *cross() const { return numbers_.data() + rotated(); }

    // Loads the coefficients for a row, which is one head of a token.
    void load(int64_t row) {
        if (row / a_.heads == token_)
            return;
        token_ = row / a_.heads;
        coefficients_from_tables(a_.tables.cos(token_), a_.tables.sin(token_), rotated() / 2, a_.interleaved,
                                 transposed_, numbers_.data(), numbers_.data() + rotated());
    }

  private:
    const QkNormRope &a_;
    bool transposed_;
    std::vector<float> numbers_;
    int64_t token_ = -1;
};

template<class T>
HWY_INLINE float reciprocal_size(const T *row, size_t n, double eps) {
    double squares = sum(n, [=](size_t i, auto extent, VF total) HWY_ATTR {
        const VF x = load(row + i, extent);
        return hn::MulAdd(x, x, total);
    });
    if (HWY_UNLIKELY(std::isinf(squares))) { // numbers whose squares exceed the largest f32
        squares = 0;
        for (size_t i = 0; i < n; ++i)
            squares += static_cast<double>(float(row[i])) * static_cast<double>(float(row[i]));
    }
    return static_cast<float>(1 / std::sqrt(squares / static_cast<double>(HWY_MAX(n, size_t{1})) + eps));
}

template<class T, class U>
void norm_and_rotate(const QkNormRope &a, int64_t begin, int64_t end) {
    const auto n = static_cast<size_t>(a.dims);
    const U *weight = a.weight.row<const U>(0);
    TokenCoefficients coefficients(a, false);
    std::vector<float> buffer(n);
    float *normalized = buffer.data();
    for (int64_t r = begin; r < end; ++r) {
        const T *input = a.input.row<const T>(r);
        T *output = a.output.row<T>(r);
        coefficients.load(r);
        const VF scale = hn::Set(f32, reciprocal_size(input, n, a.eps));
        along(n, [=](size_t i, auto extent) HWY_ATTR {
            store(hn::Mul(hn::Mul(load(input + i, extent), scale), load(weight + i, extent)), normalized + i, extent);
        });
        rotate_row(normalized, output, a.stream, coefficients.rotated(), a.interleaved, coefficients.cosine(),
                   coefficients.cross());
        along(coefficients.rotated(), n,
              [=](size_t i, auto extent) HWY_ATTR { store(load(normalized + i, extent), output + i, extent); });
    }
    if (a.stream)
        hwy::FlushStream();
}

// Processes one block of rows and writes its row of sums.
template<class T, class U>
void norm_and_rotate_backward(const QkNormRope &a, int64_t block) {
    const auto n = static_cast<size_t>(a.dims);
    const U *weight = a.weight.row<const U>(0);
    float *sums = a.sums == nullptr ? nullptr : a.sums + block * a.dims;
    if (sums != nullptr && n > 0)
        std::memset(sums, 0, n * sizeof(float));
    TokenCoefficients coefficients(a, true);
    std::vector<float> buffer(n);
    float *turned = buffer.data();
    for (int64_t r = a.blocks.begin(block); r < a.blocks.end(block); ++r) {
        const T *grad = a.grad.row<const T>(r);
        const T *input = a.input.row<const T>(r);
        const size_t rotated = coefficients.rotated();
        coefficients.load(r);
        rotate_row(grad, turned, false, rotated, a.interleaved, coefficients.cosine(), coefficients.cross());
        along(rotated, n, [=](size_t i, auto extent) HWY_ATTR { store(load(grad + i, extent), turned + i, extent); });
        const float size = reciprocal_size(input, n, a.eps);
        const VF scale = hn::Set(f32, size);
        const double projection = sum(n, [=](size_t i, auto extent, VF total) HWY_ATTR {
            const VF v = hn::Mul(load(turned + i, extent), load(weight + i, extent));
            return hn::MulAdd(v, load(input + i, extent), total);
        });
        const VF mean =
            hn::Set(f32, static_cast<float>(projection * static_cast<double>(size) / static_cast<double>(a.dims)));
        const Sink<T> out(a.output.row<T>(r), a.stream);
        along(n, [=](size_t i, auto extent) HWY_ATTR {
            const VF u = load(turned + i, extent);
            const VF y = hn::Mul(load(input + i, extent), scale);
            out.store(hn::Mul(scale, hn::NegMulAdd(y, mean, hn::Mul(u, load(weight + i, extent)))), i, extent);
            if (sums != nullptr)
                store(hn::MulAdd(u, y, load(sums + i, extent)), sums + i, extent);
        });
    }
    if (a.stream)
        hwy::FlushStream();
}

void norm_and_rotate_rows(const QkNormRope &a, int64_t begin, int64_t end) {
    visit_weighted(a.t, a.u, [&](auto t, auto u) {
        norm_and_rotate<typename decltype(t)::type, typename decltype(u)::type>(a, begin, end);
    });
}

void norm_and_rotate_bwd_blocks(const QkNormRope &a, int64_t begin, int64_t end) {
    visit_weighted(a.t, a.u, [&](auto t, auto u) {
        for (int64_t block = begin; block < end; ++block)
            norm_and_rotate_backward<typename decltype(t)::type, typename decltype(u)::type>(a, block);
    });
}

} // namespace HWY_NAMESPACE
} // namespace cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cpu {

HWY_EXPORT(norm_and_rotate_rows);
HWY_EXPORT(norm_and_rotate_bwd_blocks);

namespace {

constexpr Operand forward_operands[] = {{"query"}, {"key"}, {"query_weight"}, {"key_weight"}, {"positions", false},
                                        {"cos"},   {"sin"}, {"query_out"},    {"key_out"}};
constexpr Operand backward_operands[] = {
    {"grad_query_out"},   {"grad_key_out"}, {"query"}, {"key"},        {"query_weight"}, {"key_weight"},
    {"positions", false}, {"cos"},          {"sin"},   {"grad_query"}, {"grad_key"},     {"grad_query_weight"},
    {"grad_key_weight"}};

template<const auto &operands>
opdock::Status check_heads(const opdock::Problem &problem) {
    opdock::Status valid = check_table_rows(problem);
    return valid.ok() ? check_rows(problem, operands) : std::move(valid);
}

// Input `first` is the query's and the next one the key's; `which` is 0 or 1. The weights follow both.
QkNormRope arguments_of(const opdock::Call &call, uint32_t first, uint32_t which, const PositionTables &tables) {
    const DLTensor &input = *call.input(first + which);
    return {
        .t = input.dtype,
        .u = call.input(first + 2)->dtype,
        .grad = {},
        .input = Rows::of_input(call, first + which),
        .weight = Rows::of_input(call, first + 2 + which),
        .output = Rows::of_output(call, which),
        .tables = tables,
        .blocks = RowBlocks(row_count(input)),
        .sums = nullptr,
        .heads = input.shape[1],
        .dims = row_size(input),
        .eps = call.get_float(0),
        .interleaved = call.get_bool(1),
        .stream = Knobs::of(call).stream,
    };
}

opdock::Status forward(const opdock::Call &call) {
    const PositionTables tables(call);
    opdock::Status valid = tables.check();
    if (!valid.ok())
        return valid;
    for (const uint32_t which : {0u, 1u}) {
        const QkNormRope a = arguments_of(call, 0, which, tables);
        in_chunks(a.blocks.rows, 2 * a.dims * element_bytes(*call.input(which)), Knobs::of(call),
                  HWY_DYNAMIC_DISPATCH(norm_and_rotate_rows), a);
    }
    return {};
}

// The sums of the query's weight come before those of the key's.
uint64_t workspace_for_sums(const opdock::Problem &problem) {
    return (problem.has_output(2) ? block_sums_bytes(*problem.input(2)) : 0) +
           (problem.has_output(3) ? block_sums_bytes(*problem.input(3)) : 0);
}

opdock::Status backward(const opdock::Call &call) {
    const PositionTables tables(call);
    opdock::Status valid = tables.check();
    if (!valid.ok())
        return valid;
    const Knobs knobs = Knobs::of(call);
    auto *sums = static_cast<float *>(call.workspace());
    for (const uint32_t which : {0u, 1u}) {
        const Rows grad_weight = Rows::of_output(call, 2 + which);
        QkNormRope a = arguments_of(call, 2, which, tables);
        a.grad = Rows::of_input(call, which);
        a.sums = grad_weight ? sums : nullptr;
        in_chunks(a.blocks.count, a.blocks.rows_per_block * 3 * a.dims * element_bytes(*call.input(which)), knobs,
                  HWY_DYNAMIC_DISPATCH(norm_and_rotate_bwd_blocks), a);
        if (grad_weight) {
            add_blocks(sums, a.blocks, a.dims, a.u, grad_weight, knobs);
            sums += a.blocks.sums(a.dims);
        }
    }
    return {};
}

} // namespace

void add_qk_norm_rope(Plugin &plugin) {
    namespace ops = opdock::ops;
    plugin.add(ops::qk_norm_rope, weighted_with_positions,
               {opdock::kernel<&forward>, opdock::supports<&check_heads<forward_operands>>});
    plugin.add(ops::qk_norm_rope_bwd, weighted_with_positions,
               {opdock::kernel<&backward>, opdock::supports<&check_heads<backward_operands>>,
                opdock::workspace_size<&workspace_for_sums>});
}

} // namespace cpu
#endif
