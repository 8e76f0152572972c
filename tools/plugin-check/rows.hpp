// Rows of a call: the results that a batch-invariant implementation computes independently of each other.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "op-call/call.hpp"
#include "shapes.hpp"

namespace opdock::plugin_check {

// The dim that counts the rows of a call: "..." or, if a signature has none, the first name that is a dim of every
// output and of an input. "" if there is neither.
std::string row_dim(const op_call::Signature &signature);

int64_t rows_of(const Shape &shape, const std::string &dim);
// Returns the shapes with `rows` rows. `turn` selects the dims of "...": {rows}, {rows, 1}, {2, rows / 2} if the number
// of rows is even, then from the first again.
Shapes with_rows(const Shapes &shapes, const std::string &dim, int64_t rows, size_t turn = 0);

// For signatures with rows: for each length as many rows, up to 4,096, as take no more work than other cases.
std::vector<Shapes> batch_shapes(const op_call::Signature &signature, Random &random, const Takes &takes);

// Positions of a tensor's rows: the same part of each of `blocks` blocks.
struct RowPlaces {
    size_t blocks = 1;
    size_t rows = 0;
    size_t bytes = 0; // of a row within a block
};

// Returns nothing if a tensor with these dims has no rows.
std::optional<RowPlaces> row_places(const std::vector<std::string> &dims, const Shape &shape, const std::string &dim,
                                    uint32_t dtype);

// Returns the rows with these numbers, in this order, of inputs that have these shapes. For `turn`, see with_rows(). An
// input without rows is copied as it is.
std::vector<op_call::Tensors> pick_rows(const std::vector<op_call::Tensors> &inputs, const Shapes &shapes,
                                        const op_call::Signature &signature, const std::vector<size_t> &rows,
                                        size_t turn = 0);

} // namespace opdock::plugin_check
