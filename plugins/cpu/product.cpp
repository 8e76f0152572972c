#include "product.hpp"

#include <limits>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

#include "amx.hpp"
#include "blas.hpp"
#include "hwy/aligned_allocator.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "product.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h, which includes this file again for each target.
#include "hwy/highway.h"
#include "simd/matrix-inl.h"

#ifndef CPU_PRODUCT_STEP
#define CPU_PRODUCT_STEP
namespace cpu {

// Returns the step of f32 rows of `length` elements as BLAS takes it; 0 if BLAS cannot take these rows as they are.
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

// Elements of the depth at a time. If they are widened, a block's rows of both matrices stay in L2. Otherwise the limit
// bounds the time for which a fork has to wait.
inline constexpr int64_t widened_depth = 512;
inline constexpr int64_t most_depth = 8192;
// Sums of few rows are sums of partial sums of this many numbers, since each addition to a large sum loses digits: down
// the rows, and in at least four lanes along them.
inline constexpr int64_t summed_down = 256;
inline constexpr size_t summed_along = 4 * summed_down;

// Adds the bias, rounds, and writes columns [first, first + count) of a row of the output; or adds to the totals.
template<class T>
HWY_INLINE void finish_row(const Product &a, int64_t row, int64_t first, size_t count, const float *sums) {
    if (a.totals) {
        float *totals = a.totals.row<float>(row) + first;
        along(count, [=](size_t i, auto extent) HWY_ATTR {
            store(hn::Add(load(totals + i, extent), load(sums + i, extent)), totals + i, extent);
        });
        return;
    }
    const T *bias = a.bias ? a.bias.row<const T>(0) + first : nullptr;
    T *output = a.output.row<T>(row) + first;
    along(count, [=](size_t i, auto extent) HWY_ATTR {
        const VF sum = load(sums + i, extent);
        store(bias == nullptr ? sum : hn::Add(sum, load(bias + i, extent)), output + i, extent);
    });
}

template<class T>
HWY_INLINE void widen(const T *from, size_t count, float *to) {
    along(count, [=](size_t p, auto extent) HWY_ATTR { store(load(from + p, extent), to + p, extent); });
}

// Rows or columns [first, first + count) of a factor, elements [begin, begin + length) of the depth: in place, or
// widened into `scratch`. `step` is the step that BLAS can take, or 0.
template<class T>
Matrix as_matrix(const Factor &factor, int64_t first, int64_t count, int64_t begin, int64_t length, int step,
                 float *scratch) {
    if (factor.down) {
        std::swap(first, begin);
        std::swap(count, length);
    }
    if (step != 0)
        return {factor.rows.row<const float>(first) + begin, step, factor.down};
    for (int64_t i = 0; i < count; ++i)
        widen(factor.rows.row<const T>(first + i) + begin, static_cast<size_t>(length), scratch + i * length);
    return {scratch, static_cast<int>(HWY_MAX(1, length)), factor.down};
}

template<class T>
void block_of(const Product &a, const Block &block) {
    const int64_t rows = block.last_row - block.first_row, columns = block.last_column - block.first_column;
    const int x_step = blas_step<T>(a.x.rows, a.x.down ? a.rows : a.depth);
    const int w_step = blas_step<T>(a.w.rows, a.w.down ? a.columns : a.depth);
    const bool widened = x_step == 0 || w_step == 0;
    const int64_t longest = widened ? HWY_MIN(HWY_MAX(a.depth, 1), widened_depth) : HWY_MIN(a.depth, most_depth);
    const int output_step = a.totals ? 0 : blas_step<T>(a.output, columns);
    const auto floats = [](bool wanted, int64_t height, int64_t width) {
        auto memory = hwy::AllocateAligned<float>(wanted ? static_cast<size_t>(height * width) : 1);
        return memory ? std::move(memory) : throw std::bad_alloc();
    };
    const auto x_scratch = floats(x_step == 0, rows, longest), w_scratch = floats(w_step == 0, columns, longest);
    const auto scratch = floats(output_step == 0, rows, columns);
    float *sums = output_step == 0 ? scratch.get() : a.output.row<float>(block.first_row) + block.first_column;
    const int step = output_step == 0 ? static_cast<int>(columns) : output_step;

    int64_t begin = 0;
    do { // runs once, with empty sums, if the depth is 0
        const int64_t length = HWY_MIN(longest, a.depth - begin);
        const Matrix x = as_matrix<T>(a.x, block.first_row, rows, begin, length, x_step, x_scratch.get());
        const Matrix w = as_matrix<T>(a.w, block.first_column, columns, begin, length, w_step, w_scratch.get());
        multiply(x, rows, w, columns, length, begin == 0, sums, step);
        begin += length;
    } while (begin < a.depth);
    if (output_step == 0 || a.bias) {
        for (int64_t m = 0; m < rows; ++m)
            finish_row<T>(a, block.first_row + m, block.first_column, static_cast<size_t>(columns), sums + m * step);
    }
}

// The rows of x as f32, along the depth: in place, or in `scratch`, which has room for all elements.
template<class T>
std::vector<const float *> rows_of_x(const Product &a, std::vector<float> &scratch) {
    const auto rows = static_cast<size_t>(a.rows);
    const auto depth = static_cast<size_t>(a.depth);
    std::vector<const float *> found(rows);
    if (!a.x.down && sizeof(T) == sizeof(float)) {
        for (size_t m = 0; m < rows; ++m)
            found[m] = a.x.rows.row<const float>(static_cast<int64_t>(m));
        return found;
    }
    scratch.resize(rows * depth);
    for (size_t m = 0; m < rows; ++m) {
        float *to = scratch.data() + m * depth;
        found[m] = to;
        if (!a.x.down) {
            widen(a.x.rows.row<const T>(static_cast<int64_t>(m)), depth, to);
            continue;
        }
        for (size_t p = 0; p < depth; ++p)
            to[p] = float(a.x.rows.row<const T>(static_cast<int64_t>(p))[m]);
    }
    return found;
}

// Computes the sums along the rows of w.
template<class T>
void few_along(const Product &a, const float *const *x, int64_t begin, int64_t end) {
    const auto rows = static_cast<size_t>(a.rows);
    const auto depth = static_cast<size_t>(a.depth);
    for (int64_t n = begin; n < end; n += 4) {
        // The last tile is padded with the last column.
        const T *w[4];
        for (int64_t j = 0; j < 4; ++j)
            w[j] = a.w.rows.row<const T>(HWY_MIN(n + j, end - 1));
        const auto count = static_cast<size_t>(HWY_MIN(4, end - n));
        for (size_t m = 0; m < rows; m += 2) {
            float sums[2][4] = {};
            for (size_t p = 0; p < depth; p += summed_along) {
                const size_t last = HWY_MIN(p + summed_along, depth);
                if (m + 1 < rows)
                    add_dot_tile<2>(x + m, w, p, last, sums);
                else
                    add_dot_tile<1>(x + m, w, p, last, sums);
            }
            finish_row<T>(a, static_cast<int64_t>(m), n, count, sums[0]);
            if (m + 1 < rows)
                finish_row<T>(a, static_cast<int64_t>(m) + 1, n, count, sums[1]);
        }
    }
}

// Computes the sums down the rows of w, in stretches of columns that stay in L1 while four rows of w at a time go by.
template<class T>
void few_down(const Product &a, const float *const *x, int64_t begin, int64_t end) {
    const auto rows = static_cast<size_t>(a.rows);
    const int64_t longest = 8192 / a.rows; // 32 KiB of sums
    std::vector<float> sums(rows * static_cast<size_t>(HWY_MIN(longest, end - begin))), totals(sums.size());
    for (int64_t first = begin; first < end; first += longest) {
        const auto count = static_cast<size_t>(HWY_MIN(longest, end - first));
        int64_t p = 0;
        const auto add = [&](auto rows_of_w) HWY_ATTR {
            constexpr size_t height = decltype(rows_of_w)::value;
            const T *w[height];
            for (size_t j = 0; j < height; ++j)
                w[j] = a.w.rows.row<const T>(p + static_cast<int64_t>(j)) + first;
            for (size_t m = 0; m < rows; m += 2)
                if (m + 1 < rows)
                    add_rows<2, height>(x + m, static_cast<size_t>(p), w, count, sums.data() + m * count);
                else
                    add_rows<1, height>(x + m, static_cast<size_t>(p), w, count, sums.data() + m * count);
            p += height;
        };
        std::fill(totals.begin(), totals.end(), 0.0f);
        while (p < a.depth) {
            const int64_t last = HWY_MIN(p + summed_down, a.depth);
            std::fill(sums.begin(), sums.end(), 0.0f);
            while (p + 4 <= last)
                add(std::integral_constant<size_t, 4>{});
            while (p < last)
                add(std::integral_constant<size_t, 1>{});
            along(rows * count, [&](size_t i, auto extent) HWY_ATTR {
                store(hn::Add(load(totals.data() + i, extent), load(sums.data() + i, extent)), totals.data() + i,
                      extent);
            });
        }
        for (size_t m = 0; m < rows; ++m)
            finish_row<T>(a, static_cast<int64_t>(m), first, count, totals.data() + m * count);
    }
}

void finish_bf16(const Product &a, int64_t row, int64_t first, size_t count, const float *sums) {
    finish_row<opdock::bfloat16_t>(a, row, first, count, sums);
}

void block_of_product(const Product &a, const Block &block) {
    if (in_tiles(a)) {
        multiply_in_tiles(a, block, finish_bf16);
        return;
    }
    opdock::visit_floating(a.t, [&](auto t) { block_of<typename decltype(t)::type>(a, block); });
}

void few_columns(const Product &a, int64_t begin, int64_t end) {
    opdock::visit_floating(a.t, [&](auto t) {
        using T = typename decltype(t)::type;
        std::vector<float> scratch;
        const std::vector<const float *> x = rows_of_x<T>(a, scratch);
        if (a.w.down)
            few_down<T>(a, x.data(), begin, end);
        else
            few_along<T>(a, x.data(), begin, end);
    });
}

} // namespace HWY_NAMESPACE
} // namespace cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cpu {

HWY_EXPORT(block_of_product);
HWY_EXPORT(few_columns);

bool in_tiles(const Product &a) {
    return opdock_dtype_pack(a.t) == OPDOCK_BF16 && amx_available();
}

Cut::Cut(const Product &a, int64_t products) {
    if (in_tiles(a))
        columns_per_block = 1024;
    const auto count = [&] {
        down = (a.rows + rows_per_block - 1) / rows_per_block;
        across = (a.columns + columns_per_block - 1) / columns_per_block;
        return down * across * products;
    };
    while (count() < 16 && (columns_per_block > 64 || rows_per_block > 128)) {
        if (rows_per_block > columns_per_block)
            rows_per_block /= 2;
        else
            columns_per_block /= 2;
    }
}

Block Cut::block(const Product &a, int64_t i) const {
    const int64_t row = i / across * rows_per_block;
    const int64_t column = i % across * columns_per_block;
    return {row, std::min(a.rows, row + rows_per_block), column, std::min(a.columns, column + columns_per_block)};
}

void multiply_block(const Product &a, const Block &block) {
    HWY_DYNAMIC_DISPATCH(block_of_product)(a, block);
}

void multiply_few(const Product &a, int64_t first_column, int64_t last_column) {
    HWY_DYNAMIC_DISPATCH(few_columns)(a, first_column, last_column);
}

} // namespace cpu
#endif
