// quantize_per_token, quantize_1x128 and quantize_128x128 read a block twice: once for its largest magnitude and once,
// from the cache, to divide it.
#include <algorithm>

#include "dtypes.hpp"
#include "ops/ops.hpp"
#include "rows.hpp"
#include "schedule.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/quantize_per_token.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h, which includes this file again for each target.
#include "hwy/highway.h"
#include "simd/quantize-inl.h"

#ifndef CPU_QUANTIZE_BLOCKS_ARGUMENTS
#define CPU_QUANTIZE_BLOCKS_ARGUMENTS
namespace cpu {

struct QuantizeBlocks {
    DLDataType t, f;
    Rows input, output, scale; // one row of scales for each row of blocks
    int64_t rows, n;
    int64_t block_rows, block_columns, across; // across: blocks per row
    bool stream;
};

} // namespace cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace cpu {
namespace HWY_NAMESPACE {

// Processes rows of blocks.
template<class T, class F>
void quantize_blocks(const QuantizeBlocks &a, float largest, int64_t begin, int64_t end) {
    for (int64_t down = begin; down < end; ++down) {
        const int64_t first = down * a.block_rows, last = HWY_MIN(a.rows, first + a.block_rows);
        for (int64_t block = 0; block < a.across; ++block) {
            const int64_t column = block * a.block_columns;
            const auto count = static_cast<size_t>(HWY_MIN(a.block_columns, a.n - column));
            VU32 magnitude = hn::Zero(u32);
            for (int64_t r = first; r < last; ++r)
                magnitude = largest_of(a.input.row<const T>(r) + column, count, magnitude);
            const float scale = scale_for(magnitude, largest);
            a.scale.row<float>(down)[block] = scale;
            for (int64_t r = first; r < last; ++r)
                divide(a.input.row<const T>(r) + column, count, scale, Sink<F>(a.output.row<F>(r) + column, a.stream));
        }
    }
}

void quantize_block_rows(const QuantizeBlocks &a, int64_t begin, int64_t end) {
    opdock::visit_floating(a.t, [&](auto t) {
        using T = typename decltype(t)::type;
        if (opdock_dtype_pack(a.f) == OPDOCK_I8)
            quantize_blocks<T, int8_t>(a, 127, begin, end);
        else if (opdock_dtype_pack(a.f) == OPDOCK_E4M3)
            quantize_blocks<T, opdock::e4m3_t>(a, 448, begin, end);
        else
            quantize_blocks<T, opdock::e5m2_t>(a, 57344, begin, end);
    });
    if (a.stream)
        hwy::FlushStream();
}

} // namespace HWY_NAMESPACE
} // namespace cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cpu {

HWY_EXPORT(quantize_block_rows);

namespace {

constexpr Operand token_operands[] = {{"input"}, {"output"}, {"scale", false}};
constexpr Operand block_operands[] = {{"input"}, {"output"}, {"scale"}};

opdock::Status check_tokens(const opdock::Problem &problem) {
    return check_rows(problem, token_operands);
}
opdock::Status check_blocks(const opdock::Problem &problem) {
    return check_rows(problem, block_operands);
}

// A block has `block_rows` rows, and 128 columns unless it is a whole row.
opdock::Status quantize(const opdock::Call &call, int64_t block_rows, bool whole_rows) {
    const DLTensor &input = *call.input(0), &output = *call.output(0);
    QuantizeBlocks a = {};
    a.t = input.dtype;
    a.f = output.dtype;
    a.input = Rows::of_input(call, 0);
    a.output = Rows::of_output(call, 0);
    a.scale = Rows::of_output(call, 1, whole_rows ? 0 : 1);
    a.rows = row_count(input);
    a.n = row_size(input);
    a.block_rows = block_rows;
    a.block_columns = whole_rows ? a.n : 128;
    a.across = whole_rows ? 1 : (a.n + 127) / 128;
    a.stream = Knobs::of(call).stream;
    const int64_t bytes = block_rows * a.n * (element_bytes(input) + element_bytes(output));
    in_chunks((a.rows + block_rows - 1) / block_rows, bytes, Knobs::of(call), HWY_DYNAMIC_DISPATCH(quantize_block_rows),
              a);
    return {};
}

opdock::Status per_token(const opdock::Call &call) {
    return quantize(call, 1, true);
}
opdock::Status by_1x128(const opdock::Call &call) {
    return quantize(call, 1, false);
}
opdock::Status by_128x128(const opdock::Call &call) {
    return quantize(call, 128, false);
}

} // namespace

void add_quantize_per_token(Plugin &plugin) {
    namespace ops = opdock::ops;
    plugin.add(ops::quantize_per_token, to_8_bits, {opdock::kernel<&per_token>, opdock::supports<&check_tokens>});
    plugin.add(ops::quantize_1x128, to_8_bits, {opdock::kernel<&by_1x128>, opdock::supports<&check_blocks>});
    plugin.add(ops::quantize_128x128, to_8_bits, {opdock::kernel<&by_128x128>, opdock::supports<&check_blocks>});
}

} // namespace cpu
#endif
