// Rows of a call: the results that an implementation which is batch invariant computes each by itself.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "op-call/call.hpp"
#include "shapes.hpp"

namespace opdock::plugin_check {

// The dim that says how many rows a call has: "...", or where a signature has none the first name that is a dim of
// every output and of an input. "" where there is neither.
std::string row_dim(const op_call::Signature &signature);

int64_t rows_of(const Shape &shape, const std::string &dim);
// Returns the shapes with so many rows. `turn` chooses the dims of "...": {rows}, {rows, 1}, {2, rows / 2} where the
// number of rows is even, and so on from the first.
Shapes with_rows(const Shapes &shapes, const std::string &dim, int64_t rows, size_t turn = 0);

// Of signatures with rows: of each length as many rows, up to 4,096, as are no more work than other cases.
std::vector<Shapes> batch_shapes(const op_call::Signature &signature, Random &random, const Takes &takes);

// Where the rows of a tensor are: the same part of each of `blocks` blocks.
struct RowPlaces {
    size_t blocks = 1;
    size_t rows = 0;
    size_t bytes = 0; // of a row in a block
};

// Nothing where a tensor with these dims has no rows.
std::optional<RowPlaces> row_places(const std::vector<std::string> &dims, const Shape &shape, const std::string &dim,
                                    uint32_t dtype);

// Returns the rows of these numbers, in this order, of inputs that have these shapes. `turn` is that of with_rows(). An
// input without rows is copied as it is.
std::vector<op_call::Tensors> pick_rows(const std::vector<op_call::Tensors> &inputs, const Shapes &shapes,
                                        const op_call::Signature &signature, const std::vector<size_t> &rows,
                                        size_t turn = 0);

} // namespace opdock::plugin_check
