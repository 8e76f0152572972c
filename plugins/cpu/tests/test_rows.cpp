// Locations of rows, for every layout of the leading dims.
#include "rows.hpp"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

namespace {

// A call with one input whose elements are their own indices.
struct OneInput {
    std::vector<float> memory;
    std::vector<int64_t> shape, strides;
    DLTensor tensor = {};
    const DLTensor *tensors[1] = {&tensor};
    uint32_t first[2] = {0, 1};
    void *data[1] = {nullptr};
    opdock_problem problem = {};
    opdock_call call = {};

    OneInput(std::vector<int64_t> with_shape, std::vector<int64_t> with_strides, size_t elements)
        : shape(std::move(with_shape)), strides(std::move(with_strides)) {
        for (size_t i = 0; i < elements; ++i)
            memory.push_back(static_cast<float>(i));
        if (elements > 0)
            data[0] = memory.data();
        tensor.ndim = static_cast<int32_t>(shape.size());
        tensor.dtype = opdock_dtype_unpack(OPDOCK_F32);
        tensor.shape = shape.data();
        tensor.strides = strides.data();
        problem.n_inputs = problem.n_tensors = 1;
        problem.tensors = tensors;
        problem.tensor_offsets = first;
        call.data = data;
    }
    OneInput(const OneInput &) = delete;

    cpu::Rows rows(int32_t inner = 1) const { return cpu::Rows::of_input(opdock::Call(problem, call), 0, inner); }

    // The first element of each of the first `count` rows.
    std::vector<float> starts(int64_t count, int32_t inner = 1) const {
        std::vector<float> found;
        for (int64_t r = 0; r < count; ++r)
            found.push_back(*rows(inner).row<const float>(r));
        return found;
    }

    opdock::Status check() const { return cpu::check_rows(opdock::Problem(problem), {{"input"}}); }
};

} // namespace

TEST_CASE("rows of a dense tensor follow each other") {
    CHECK(OneInput({2, 2, 3}, {6, 3, 1}, 12).starts(4) == std::vector<float>{0, 3, 6, 9});
}

TEST_CASE("rows with padding between them are one step apart") {
    CHECK(OneInput({2, 2, 3}, {10, 5, 1}, 20).starts(4) == std::vector<float>{0, 5, 10, 15});
}

TEST_CASE("rows of a transposed tensor are found one by one") {
    CHECK(OneInput({2, 3, 2}, {2, 4, 1}, 12).starts(6) == std::vector<float>{0, 4, 8, 2, 6, 10});
}

TEST_CASE("a broadcast dim of stride 0 repeats its rows, and the dims before it still count") {
    CHECK(OneInput({2, 2, 3}, {3, 0, 1}, 6).starts(4) == std::vector<float>{0, 0, 3, 3});
    CHECK(OneInput({2, 2, 3}, {0, 3, 1}, 6).starts(4) == std::vector<float>{0, 3, 0, 3});
}

TEST_CASE("dims of size 1 may have any stride") {
    CHECK(OneInput({2, 1, 2, 1, 3}, {6, 999, 3, -7, 1}, 12).starts(4) == std::vector<float>{0, 3, 6, 9});
}

TEST_CASE("without a row dim each element is a row") {
    CHECK(OneInput({2, 2}, {1, 2}, 4).starts(4, 0) == std::vector<float>{0, 2, 1, 3});
}

TEST_CASE("a tensor of rank 0 is one row") {
    CHECK(OneInput({}, {}, 1).starts(1) == std::vector<float>{0});
}

TEST_CASE("a tensor without elements has null rows") {
    const cpu::Rows rows = OneInput({3, 0}, {1, 1}, 0).rows();
    CHECK_FALSE(rows);
    CHECK(rows.row<float>(2) == nullptr);
}

TEST_CASE("a last dimension that is not dense is declined by name, with its stride") {
    const opdock::Status status = OneInput({2, 3}, {6, 2}, 12).check();
    CHECK(status.code() == OPDOCK_UNSUPPORTED);
    CHECK(std::string(status.message()) == "input: last dimension has stride 2; this implementation needs 1");
}

TEST_CASE("a last dimension of one element, or without elements, may have any stride") {
    CHECK(OneInput({3, 1}, {4, 4}, 12).check().ok());
    CHECK(OneInput({0, 3}, {4, 4}, 0).check().ok());
}
