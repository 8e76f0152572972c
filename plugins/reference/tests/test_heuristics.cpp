#include <doctest/doctest.h>

#include "heuristics.hpp"

namespace {

// The heuristic's choice for a weight of n rows of k elements.
std::int64_t panel_rows(std::int64_t n, std::int64_t k) {
    std::int64_t shape[] = {n, k};
    DLTensor weight = {};
    weight.ndim = 2;
    weight.shape = shape;
    const DLTensor *tensors[] = {nullptr, &weight, nullptr, nullptr};
    const std::uint32_t first[] = {0, 1, 2, 3, 4};
    opdock_problem problem = {};
    problem.n_inputs = 3;
    problem.n_outputs = 1;
    problem.n_tensors = 4;
    problem.tensors = tensors;
    problem.tensor_offsets = first;
    std::int64_t knob = 0;
    CHECK(reference::panel_rows_for_cache(opdock::Problem(problem), &knob).ok());
    return knob;
}

} // namespace

TEST_CASE("a panel of the weight fits into 256 KiB of doubles") {
    CHECK(panel_rows(1000, 1024) == 32);
    CHECK(panel_rows(1000, 4099) == 7);
}

TEST_CASE("a panel has at least one row and no more than the knob allows") {
    CHECK(panel_rows(10, 1'000'000'000) == 1);
    CHECK(panel_rows(10, 1) == 4096);
    CHECK(panel_rows(10, 0) == 4096);
}
