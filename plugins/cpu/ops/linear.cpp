// linear_fwd.
#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "blas.hpp"
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

// The step of rows of f32 of `length` elements as BLAS takes it; 0 when it cannot take them as they are.
template<class T>
int blas_step(const Rows &rows, int64_t length) {
    if (sizeof(T) != sizeof(float))
        return 0;
    const auto step = rows.step<T>();
    return step && *step >= std::max<int64_t>(1, length) && *step <= std::numeric_limits<int>::max()
               ? static_cast<int>(*step)
               : 0;
}

} // namespace cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace cpu {
namespace HWY_NAMESPACE {

// Elements of k at a time. Where they are widened, a block's rows of both matrices then stay in L2; else it is as long
// as the process may have to wait that wants to fork.
inline constexpr int64_t widened_depth = 512;
inline constexpr int64_t most_depth = 8192;

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

// Elements [begin, begin + length) of rows [first, first + count): where they are, or widened into `scratch`.
template<class T>
Matrix as_matrix(const Rows &rows, int64_t first, int64_t count, int64_t begin, int64_t length, float *scratch) {
    if (const int step = blas_step<T>(rows, length))
        return {rows.row<const float>(first) + begin, step};
    for (int64_t i = 0; i < count; ++i) {
        const T *row = rows.row<const T>(first + i) + begin;
        float *to = scratch + i * length;
        along(static_cast<size_t>(length),
              [=](size_t p, auto extent) HWY_ATTR { store(load(row + p, extent), to + p, extent); });
    }
    return {scratch, static_cast<int>(HWY_MAX(1, length))};
}

// Many rows: one block of the output.
template<class T>
void linear_block(const Linear &a, const Block &block) {
    const int64_t rows = block.last_row - block.first_row, columns = block.last_column - block.first_column;
    const bool widened = blas_step<T>(a.input, a.depth) == 0 || blas_step<T>(a.weight, a.depth) == 0;
    const int64_t longest = widened ? HWY_MIN(HWY_MAX(a.depth, 1), widened_depth) : HWY_MIN(a.depth, most_depth);
    const int output_step = blas_step<T>(a.output, columns);
    const auto floats = [](bool wanted, int64_t height, int64_t width) {
        auto memory = hwy::AllocateAligned<float>(wanted ? static_cast<size_t>(height * width) : 1);
        return memory ? std::move(memory) : throw std::bad_alloc();
    };
    const auto input = floats(widened, rows, longest), weight = floats(widened, columns, longest);
    const auto scratch = floats(output_step == 0, rows, columns);
    float *sums = output_step == 0 ? scratch.get() : a.output.row<float>(block.first_row) + block.first_column;
    const int step = output_step == 0 ? static_cast<int>(columns) : output_step;

    int64_t begin = 0;
    do { // once, with sums of nothing, where there is no depth
        const int64_t length = HWY_MIN(longest, a.depth - begin);
        const Matrix x = as_matrix<T>(a.input, block.first_row, rows, begin, length, input.get());
        const Matrix w = as_matrix<T>(a.weight, block.first_column, columns, begin, length, weight.get());
        multiply(x, rows, w, columns, length, begin == 0, sums, step);
        begin += length;
    } while (begin < a.depth);
    if (output_step == 0 || a.bias) {
        for (int64_t m = 0; m < rows; ++m)
            finish_row<T>(a, block.first_row + m, block.first_column, static_cast<size_t>(columns), sums + m * step);
    }
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

// Up to here, BLAS spends more on turning the weight than it saves.
constexpr int64_t few_rows = 16;

// The cut follows from the problem alone, so that the sums do not depend on the number of threads. With little to share
// out, blocks are smaller: 16 of half this size keep 16 threads busy and cost 2 threads a tenth.
struct Cut {
    int64_t rows_per_block = 1024;
    int64_t columns_per_block = 512;
    int64_t down, across; // blocks

    explicit Cut(const Linear &a) {
        const auto count = [&] {
            down = (a.rows + rows_per_block - 1) / rows_per_block;
            across = (a.columns + columns_per_block - 1) / columns_per_block;
            return down * across;
        };
        while (count() < 16 && (columns_per_block > 64 || rows_per_block > 128)) {
            if (rows_per_block > columns_per_block)
                rows_per_block /= 2;
            else
                columns_per_block /= 2;
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
    const Cut cut(a);
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
