// linear_fwd.
#include <algorithm>
#include <string>
#include <vector>

#include <oneapi/tbb/task_arena.h>

#include "hwy/aligned_allocator.h"
#include "ops/ops.hpp"
#include "rows.hpp"
#include "schedule.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/linear.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h, which includes this file again for each target.
#include "hwy/highway.h"
#include "simd/matrix-inl.h"

#ifndef CPU_LINEAR_ARGUMENTS
#define CPU_LINEAR_ARGUMENTS
namespace cpu {

struct Linear {
    DLDataType t;
    Rows input, weight, bias, output; // bias may be absent
    int64_t rows, columns, depth;     // m, n and k
};

// Rows and columns of the output.
struct Block {
    int64_t first_row, last_row;
    int64_t first_column, last_column;
};

} // namespace cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace cpu {
namespace HWY_NAMESPACE {

// Elements of k between two visits of the sums: a panel of a tile's columns then fits into L1, and the panels of a
// block into L2. Measured on Zen 3; 256 to 512 differ by a few percent.
inline constexpr size_t panel_depth = 512;
// Rows of the input that stay in L2 while the panels go by.
inline constexpr size_t resident_rows = 96;
static_assert(resident_rows % tile_rows == 0);

HWY_INLINE size_t round_up(size_t value, size_t multiple) {
    return (value + multiple - 1) / multiple * multiple;
}

// Adds the bias, rounds, and writes columns [first, first + count) of a row of the output.
template<class T>
HWY_INLINE void finish_row(const Linear &a, int64_t row, int64_t first, size_t count, const float *sums) {
    const T *bias = a.bias ? a.bias.row<const T>(0) + first : nullptr;
    T *output = a.output.row<T>(row) + first;
    along(count, [=](size_t i, auto extent) HWY_ATTR {
        const VF sum = load(sums + i, extent);
        store(bias == nullptr ? sum : hn::Add(sum, load(bias + i, extent)), output + i, extent);
    });
}

// Many rows: one block of the output, by panels.
template<class T>
void linear_block(const Linear &a, const Block &block) {
    const auto rows = static_cast<size_t>(block.last_row - block.first_row);
    const auto columns = static_cast<size_t>(block.last_column - block.first_column);
    const auto depth = static_cast<size_t>(a.depth);
    const size_t panel_columns = round_up(columns, tile_columns);
    const size_t longest = HWY_MIN(HWY_MAX(depth, 1), panel_depth);
    const auto panels = hwy::AllocateAligned<float>(panel_columns * longest);
    const auto sums = hwy::AllocateAligned<float>(round_up(rows, tile_rows) * panel_columns);
    const auto scratch = hwy::AllocateAligned<float>(HWY_MAX(tile_columns, resident_rows) * longest);
    if (!panels || !sums || !scratch)
        throw std::bad_alloc();

    const T *narrow[HWY_MAX(tile_columns, resident_rows)];
    const float *wide[HWY_MAX(tile_columns, resident_rows)];
    for (size_t begin = 0; begin < depth; begin += panel_depth) {
        const size_t length = HWY_MIN(panel_depth, depth - begin);
        for (size_t n = 0; n < columns; n += tile_columns) {
            const size_t count = HWY_MIN(tile_columns, columns - n);
            for (size_t j = 0; j < count; ++j)
                narrow[j] = a.weight.row<const T>(block.first_column + static_cast<int64_t>(n + j)) + begin;
            widen_rows(narrow, count, length, scratch.get(), wide);
            turn_rows(wide, count, length, panels.get() + n * length);
        }
        for (size_t m = 0; m < rows; m += resident_rows) {
            const size_t count = HWY_MIN(resident_rows, rows - m);
            for (size_t i = 0; i < count; ++i)
                narrow[i] = a.input.row<const T>(block.first_row + static_cast<int64_t>(m + i)) + begin;
            widen_rows(narrow, count, length, scratch.get(), wide);
            // The last tile is filled up with the last row; what comes of that is not looked at.
            std::fill(wide + count, wide + round_up(count, tile_rows), wide[count - 1]);
            for (size_t n = 0; n < columns; n += tile_columns) {
                for (size_t i = 0; i < count; i += tile_rows)
                    outer_tile(wide + i, panels.get() + n * length, length, sums.get() + (m + i) * panel_columns + n,
                               panel_columns, begin == 0);
            }
        }
    }
    if (depth == 0)
        std::fill_n(sums.get(), rows * panel_columns, 0.0f);
    for (size_t m = 0; m < rows; ++m)
        finish_row<T>(a, block.first_row + static_cast<int64_t>(m), block.first_column, columns,
                      sums.get() + m * panel_columns);
}

// Few rows: all of them, for some columns.
template<class T>
void linear_few(const Linear &a, int64_t begin, int64_t end) {
    const auto rows = static_cast<size_t>(a.rows);
    const auto depth = static_cast<size_t>(a.depth);
    std::vector<const T *> narrow(rows);
    std::vector<const float *> input(rows);
    std::vector<float> scratch(sizeof(T) == sizeof(float) ? 0 : rows * depth);
    for (size_t m = 0; m < rows; ++m)
        narrow[m] = a.input.row<const T>(static_cast<int64_t>(m));
    widen_rows(narrow.data(), rows, depth, scratch.data(), input.data());
    for (int64_t n = begin; n < end; n += 4) {
        // The last tile is filled up with the last column.
        const T *weight[4];
        for (int64_t j = 0; j < 4; ++j)
            weight[j] = a.weight.row<const T>(HWY_MIN(n + j, end - 1));
        const auto count = static_cast<size_t>(HWY_MIN(4, end - n));
        float sums[2][4];
        for (size_t m = 0; m < rows; m += 2) {
            if (m + 1 < rows) {
                dot_tile<2>(input.data() + m, weight, depth, sums);
                finish_row<T>(a, static_cast<int64_t>(m) + 1, n, count, sums[1]);
            } else {
                dot_tile<1>(input.data() + m, weight, depth, sums);
            }
            finish_row<T>(a, static_cast<int64_t>(m), n, count, sums[0]);
        }
    }
}

void linear_block_of(const Linear &a, const Block &block) {
    opdock::visit_floating(a.t, [&](auto t) { linear_block<typename decltype(t)::type>(a, block); });
}

void linear_few_columns(const Linear &a, int64_t begin, int64_t end) {
    opdock::visit_floating(a.t, [&](auto t) { linear_few<typename decltype(t)::type>(a, begin, end); });
}

} // namespace HWY_NAMESPACE
} // namespace cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cpu {

HWY_EXPORT(linear_block_of);
HWY_EXPORT(linear_few_columns);

namespace {

constexpr Operand operands[] = {{"input"}, {"weight"}, {"bias"}, {"output"}};

opdock::Status check(const opdock::Problem &problem) {
    return check_rows(problem, operands);
}

// Up to here, turning the weight into panels costs more than it saves.
constexpr int64_t few_rows = 16;

// A block of 480 rows uses each panel 80 times; 256 columns of panels fill half a MiB. With little to share out, blocks
// are smaller: the cut has no influence on the sums.
struct Cut {
    int64_t rows_per_block = 480;
    int64_t columns_per_block = 256;
    int64_t down, across; // blocks

    Cut(const Linear &a, int64_t wanted) {
        const auto count = [&] {
            down = (a.rows + rows_per_block - 1) / rows_per_block;
            across = (a.columns + columns_per_block - 1) / columns_per_block;
            return down * across;
        };
        while (count() < wanted && (columns_per_block > 64 || rows_per_block > 120)) {
            if (columns_per_block > 64)
                columns_per_block /= 2;
            else
                rows_per_block /= 2;
        }
    }
    Block block(const Linear &a, int64_t i) const {
        const int64_t row = i / across * rows_per_block;
        const int64_t column = i % across * columns_per_block;
        return {row, std::min(a.rows, row + rows_per_block), column, std::min(a.columns, column + columns_per_block)};
    }
};

opdock::Status forward(const opdock::Call &call) {
    if (opdock::Status status = check(call); !status.ok())
        return status;
    const Knobs knobs = Knobs::of(call);
    const DLTensor &weight = *call.input(1);
    const Linear a = {
        .t = weight.dtype,
        .input = Rows::of_input(call, 0),
        .weight = Rows::of_input(call, 1),
        .bias = Rows::of_input(call, 2),
        .output = Rows::of_output(call, 0),
        .rows = row_count(*call.input(0)),
        .columns = weight.shape[0],
        .depth = weight.shape[1],
    };
    if (a.rows == 0 || a.columns == 0)
        return {};
    if (a.rows <= few_rows) {
        in_chunks(a.columns, a.depth * element_bytes(weight), knobs.grain_kib, [&](int64_t begin, int64_t end) {
            HWY_DYNAMIC_DISPATCH(linear_few_columns)(a, begin, end);
        });
        return {};
    }
    const Cut cut(a, 4 * oneapi::tbb::this_task_arena::max_concurrency());
    // What a task is worth is told in bytes; 8 multiplications take about as long as one byte from memory.
    const int64_t worth = cut.rows_per_block * cut.columns_per_block / 8 * a.depth;
    in_chunks(cut.down * cut.across, worth, knobs.grain_kib, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
            HWY_DYNAMIC_DISPATCH(linear_block_of)(a, cut.block(a, i));
    });
    return {};
}

} // namespace

const Implementation linear_fwd = {opdock::kernel<&forward>, opdock::supports<&check>};

} // namespace cpu
#endif
