// Matrix products, in blocks distributed over threads: shared by the ops of linear.h.
#pragma once

#include <algorithm>
#include <cstdint>

#include "opdock/plugin.hpp"
#include "rows.hpp"
#include "schedule.hpp"

namespace cpu {

// One of the two matrices, as rows with contiguous elements. The sums run along the rows, as for the input and the
// weight of linear_fwd, or down them.
struct Factor {
    Rows rows;
    bool down = false;
};

// output(i, j) = bias(j) + the sum over p < depth of x(i, p) * w(j, p)
struct Product {
    DLDataType t;
    Factor x, w;
    Rows bias, output; // bias may be absent
    int64_t rows, columns, depth;
    Rows totals = {}; // f32; if present, sums are added to it and bias and output are not used
};

// A block of rows and columns of the output.
struct Block {
    int64_t first_row, last_row;
    int64_t first_column, last_column;
};

// True if amx.hpp computes the blocks, false if BLAS does.
bool in_tiles(const Product &a);

// The problem alone determines the cut, so sums do not depend on the number of threads. Small problems use smaller
// blocks: 16 of half this size keep 16 threads busy and cost 2 threads a tenth. With AMX tiles a block has 1024
// columns: the smaller its factors are relative to its sums, the less time their layout takes.
struct Cut {
    int64_t rows_per_block = 1024;
    int64_t columns_per_block = 512;
    int64_t down, across; // number of blocks

    Cut(const Product &a, int64_t products);
    Block block(const Product &a, int64_t i) const;
};

// Computes one block.
void multiply_block(const Product &a, const Block &block);
// Computes some columns of a product with few rows. Each number is the same whatever columns are beside it.
void multiply_few(const Product &a, int64_t first_column, int64_t last_column);

// Up to this many rows, BLAS spends more on transposing the second factor than it saves.
inline constexpr int64_t few_rows = 16;

// Computes `count` products that differ only in the location of their matrices: product_of(i), shaped like `like`.
template<class ProductOf>
void multiply_all(const Product &like, int64_t count, const Knobs &knobs, const ProductOf &product_of) {
    if (like.rows == 0 || like.columns == 0 || count == 0)
        return;
    if (like.rows <= few_rows) {
        // If the sums go down, a piece of a row of the second factor should have several cache lines.
        const int64_t unit = like.w.down ? 128 : 4;
        const int64_t units = (like.columns + unit - 1) / unit;
        in_chunks(count * units, unit * like.depth * like.t.bits / 8, knobs, [&](int64_t begin, int64_t end) {
            while (begin < end) {
                const int64_t product = begin / units;
                const int64_t last = std::min(end, (product + 1) * units);
                multiply_few(product_of(product), (begin - product * units) * unit,
                             std::min((last - product * units) * unit, like.columns));
                begin = last;
            }
        });
        return;
    }
    const Cut cut(like, count);
    const int64_t blocks = cut.down * cut.across;
    // The cost of a task is given in bytes; this many multiplications take about as long as one byte from memory.
    const int64_t per_byte = in_tiles(like) ? 64 : 8;
    const int64_t worth =
        std::min(cut.rows_per_block, like.rows) * std::min(cut.columns_per_block, like.columns) * like.depth / per_byte;
    in_chunks(count * blocks, worth, knobs, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
            const Product a = product_of(i / blocks);
            multiply_block(a, cut.block(a, i % blocks));
        }
    });
}

} // namespace cpu
