// Tests the row locations that row_steps() finds in a tensor.
#include <cstdint>
#include <random>
#include <vector>

#include <doctest/doctest.h>

#include "tensors.hpp"

namespace {

using Sizes = std::vector<int64_t>;

DLTensor tensor_of(Sizes &shape, Sizes &strides) {
    return {nullptr, {kDLCPU, 0}, static_cast<int32_t>(shape.size()), {kDLFloat, 32, 1}, shape.data(), strides.data(),
            0};
}

// Offset of row `r` in row-major order, computed from its index in each dim.
int64_t offset_of(const DLTensor &tensor, int64_t r) {
    int64_t offset = 0;
    for (int d = tensor.ndim - 2; d >= 0; --d) {
        offset += r % tensor.shape[d] * tensor.strides[d];
        r /= tensor.shape[d];
    }
    return offset;
}

void check_rows(const DLTensor &tensor) {
    const auto steps = gpu::row_steps(tensor);
    REQUIRE(steps);
    for (int64_t r = 0; r < gpu::row_count(tensor); ++r) {
        REQUIRE(steps->row(r) == offset_of(tensor, r));
    }
}

} // namespace

TEST_CASE("rows of slices of larger tensors are found, with two steps between them at most") {
    constexpr unsigned seed = 3;
    MESSAGE("seed " << seed);
    std::mt19937 random(seed);
    const auto below = [&](uint32_t end) { return static_cast<int64_t>(random() % end); };
    for (int turn = 0; turn < 2000; ++turn) {
        // Dense dims, except for one gap between two of them and one after each row.
        const auto rank = static_cast<size_t>(1 + below(5));
        const auto gap_at = static_cast<size_t>(below(static_cast<uint32_t>(rank)));
        Sizes shape(rank), strides(rank);
        int64_t dense = 1;
        for (size_t d = rank; d-- > 0;) {
            shape[d] = 1 + below(4);
            strides[d] = dense;
            dense *= shape[d];
            dense += d + 1 == rank ? below(3) : 0;
            dense += d == gap_at ? below(3) * strides[d] : 0;
        }
        check_rows(tensor_of(shape, strides));
    }
}

TEST_CASE("rows that need a third step are declined, and so are rows whose elements are apart") {
    Sizes shape = {2, 2, 2, 3}, strides = {100, 20, 4, 1};
    CHECK_FALSE(gpu::row_steps(tensor_of(shape, strides)));
    Sizes matrix = {4, 3}, transposed = {1, 4};
    CHECK_FALSE(gpu::row_steps(tensor_of(matrix, transposed)));
    Sizes column = {4, 1}, apart = {1, 4}; // for rows of one element, the element stride does not matter
    check_rows(tensor_of(column, apart));
}

TEST_CASE("rows that are the same one, and no rows, are found") {
    Sizes shape = {3, 2, 4}, strides = {0, 0, 1};
    check_rows(tensor_of(shape, strides));
    Sizes none = {3, 0, 4}, dense = {0, 4, 1};
    CHECK(gpu::row_steps(tensor_of(none, dense)));
    Sizes row = {4}, one = {1};
    check_rows(tensor_of(row, one));
}

TEST_CASE("rows of two steps are counted in 32 bits, and those of one are not limited") {
    Sizes many = {int64_t{1} << 31, 2}, dense = {2, 1};
    CHECK(gpu::row_steps(tensor_of(many, dense)));
    Sizes split = {int64_t{1} << 30, 2, 2}, stepped = {8, 2, 1};
    CHECK_FALSE(gpu::row_steps(tensor_of(split, stepped)));
}
