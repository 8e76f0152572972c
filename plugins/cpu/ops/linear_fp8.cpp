// linear_fp8 and linear_fp8_block convert some rows of both factors at a time to f32, apply their scales, and multiply
// them.
#include <algorithm>

#include "dtypes.hpp"
#include "ops/ops.hpp"
#include "product.hpp"
#include "rows.hpp"
#include "schedule.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/linear_fp8.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h, which includes this file again for each target.
#include "hwy/highway.h"
#include "simd/fp8-inl.h"
#include "simd/rows-inl.h"

#ifndef CPU_LINEAR_FP8_ARGUMENTS
#define CPU_LINEAR_FP8_ARGUMENTS
namespace cpu {

// Rows of 8-bit elements with their scales: one row of scales for each row of blocks.
struct ScaledRows {
    DLDataType f;
    Rows rows, scales;
    int64_t n, block_rows, block_columns;
};

} // namespace cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace cpu {
namespace HWY_NAMESPACE {

// Writes row `row` times its scales, as n floats.
void scale_row(const ScaledRows &a, int64_t row, float *to) {
    opdock::visit_float8(a.f, [&](auto f) {
        const auto *from = a.rows.row<const typename decltype(f)::type>(row);
        const auto *scales = a.scales.row<const float>(row / a.block_rows);
        for (int64_t begin = 0; begin < a.n; begin += a.block_columns) {
            const VF scale = hn::Set(f32, scales[begin / a.block_columns]);
            const auto count = static_cast<size_t>(HWY_MIN(a.block_columns, a.n - begin));
            along(count, [=](size_t i, auto extent) HWY_ATTR {
                store(hn::Mul(load(from + begin + i, extent), scale), to + begin + i, extent);
            });
        }
    });
}

// Converts n elements of T to floats, or back.
void widen_floats(DLDataType type, const void *from, size_t n, float *to) {
    opdock::visit_floating(type, [&](auto t) {
        const auto *elements = static_cast<const typename decltype(t)::type *>(from);
        along(n, [=](size_t i, auto extent) HWY_ATTR { store(load(elements + i, extent), to + i, extent); });
    });
}
void round_floats(DLDataType type, const float *from, size_t n, void *to) {
    opdock::visit_floating(type, [&](auto t) {
        auto *elements = static_cast<typename decltype(t)::type *>(to);
        along(n, [=](size_t i, auto extent) HWY_ATTR { store(load(from + i, extent), elements + i, extent); });
    });
}

} // namespace HWY_NAMESPACE
} // namespace cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cpu {

HWY_EXPORT(scale_row);
HWY_EXPORT(widen_floats);
HWY_EXPORT(round_floats);

namespace {

constexpr Operand fp8_operands[] = {{"input"}, {"weight"}, {"input_scale"}, {"weight_scale"}, {"bias"}, {"output"}};

opdock::Status check_fp8(const opdock::Problem &problem) {
    return check_rows(problem, fp8_operands);
}

// Tile size of the output, and the layout of the workspace, in floats.
struct Tiles {
    int64_t rows, columns, depth;
    int64_t tile_rows, tile_columns;
    int64_t weight, bias, sums, size; // the input comes first

    explicit Tiles(const opdock::Problem &problem) {
        constexpr int64_t most_of_input = int64_t(1) << 23, most_of_weight = int64_t(1) << 25;
        rows = row_count(*problem.input(0));
        columns = problem.input(1)->shape[0];
        depth = problem.input(1)->shape[1];
        const auto fitting = [&](int64_t most, int64_t most_rows) {
            return std::clamp<int64_t>(most / std::max<int64_t>(depth, 1), 128, most_rows) / 128 * 128;
        };
        tile_rows = std::min(rows, fitting(most_of_input, 2048));
        tile_columns = std::min(columns, fitting(most_of_weight, 8192));
        int64_t end = 0;
        const auto place = [&](int64_t floats) {
            const int64_t begin = end;
            end += (floats + 15) / 16 * 16;
            return begin;
        };
        place(tile_rows * depth);
        weight = place(tile_columns * depth);
        bias = place(tile_columns);
        sums = place(tile_rows * tile_columns);
        size = end;
    }
};

class ScaledProduct {
  public:
    ScaledProduct(const opdock::Call &call, const ScaledRows &input, const ScaledRows &weight)
        : tiles_(call), knobs_(Knobs::of(call)), memory_(static_cast<float *>(call.workspace())), input_(input),
          weight_(weight), bias_(Rows::of_input(call, 4)), output_(Rows::of_output(call, 0)),
          t_(call.output(0)->dtype) {}

    void run() const {
        for (int64_t column = 0; column < tiles_.columns; column += tiles_.tile_columns) {
            const int64_t columns = std::min(tiles_.tile_columns, tiles_.columns - column);
            widen_tile(weight_, column, columns, memory_ + tiles_.weight);
            float *const bias = memory_ + tiles_.bias;
            std::fill_n(bias, columns, 0.0f);
            if (bias_)
                HWY_DYNAMIC_DISPATCH(widen_floats)
            (t_, bias_.row<std::byte>(0) + column * t_.bits / 8, static_cast<size_t>(columns), bias);
            for (int64_t row = 0; row < tiles_.rows; row += tiles_.tile_rows)
                multiply(row, std::min(tiles_.tile_rows, tiles_.rows - row), column, columns);
        }
    }

  private:
    void widen_tile(const ScaledRows &a, int64_t first, int64_t count, float *to) const {
        in_chunks(count, a.n * 5, knobs_, [&](int64_t begin, int64_t end) {
            for (int64_t r = begin; r < end; ++r)
                HWY_DYNAMIC_DISPATCH(scale_row)
            (a, first + r, to + r * a.n);
        });
    }

    void multiply(int64_t row, int64_t rows, int64_t column, int64_t columns) const {
        widen_tile(input_, row, rows, memory_);
        float *const sums = memory_ + tiles_.sums;
        for (int64_t r = 0; r < rows; ++r)
            std::copy_n(memory_ + tiles_.bias, columns, sums + r * columns);
        constexpr int64_t bytes = sizeof(float);
        const Product product = {.t = {kDLFloat, 32, 1},
                                 .x = {Rows::apart(memory_, tiles_.depth * bytes)},
                                 .w = {Rows::apart(memory_ + tiles_.weight, tiles_.depth * bytes)},
                                 .bias = {},
                                 .output = {},
                                 .rows = rows,
                                 .columns = columns,
                                 .depth = tiles_.depth,
                                 .totals = Rows::apart(sums, columns * bytes)};
        multiply_all(product, 1, knobs_, [&](int64_t) -> const Product & { return product; });
        in_chunks(rows, columns * (bytes + t_.bits / 8), knobs_, [&](int64_t begin, int64_t end) {
            for (int64_t r = begin; r < end; ++r)
                HWY_DYNAMIC_DISPATCH(round_floats)
            (t_, sums + r * columns, static_cast<size_t>(columns),
             output_.row<std::byte>(row + r) + column * t_.bits / 8);
        });
    }

    Tiles tiles_;
    Knobs knobs_;
    float *memory_;
    ScaledRows input_, weight_;
    Rows bias_, output_;
    DLDataType t_;
};

uint64_t fp8_workspace(const opdock::Problem &problem) {
    return static_cast<uint64_t>(Tiles(problem).size) * sizeof(float);
}

template<bool in_blocks>
opdock::Status multiply_fp8(const opdock::Call &call) {
    const DLTensor &input = *call.input(0), &weight = *call.input(1);
    const int64_t rows = std::max<int64_t>(row_count(input), 1), columns = std::max<int64_t>(weight.shape[0], 1);
    const int64_t depth = weight.shape[1];
    const int64_t across = in_blocks ? 128 : std::max<int64_t>(depth, 1);
    ScaledProduct(
        call, {input.dtype, Rows::of_input(call, 0), Rows::of_input(call, 2), depth, in_blocks ? 1 : rows, across},
        {weight.dtype, Rows::of_input(call, 1), Rows::of_input(call, 3), depth, in_blocks ? 128 : columns, across})
        .run();
    return {};
}

} // namespace

void add_linear_fp8(Plugin &plugin) {
    namespace ops = opdock::ops;
    const auto add = [&](const auto &op, opdock_kernel kernel) {
        plugin.add(op, fp8_factors, {kernel, opdock::supports<&check_fp8>, opdock::workspace_size<&fp8_workspace>});
    };
    add(ops::linear_fp8, opdock::kernel<&multiply_fp8<false>>);
    add(ops::linear_fp8_block, opdock::kernel<&multiply_fp8<true>>);
}

} // namespace cpu
#endif
