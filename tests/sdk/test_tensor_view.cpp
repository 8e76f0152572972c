#include <doctest/doctest.h>

#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "fake_host.hpp"

using opdock::TensorView;

namespace {

std::vector<float> counting(std::size_t count) {
    std::vector<float> values(count);
    std::iota(values.begin(), values.end(), 0.0f);
    return values;
}

} // namespace

TEST_CASE("a contiguous tensor is rows that follow each other") {
    auto values = counting(24);
    const FakeTensor tensor(OPDOCK_F32, {2, 3, 4});
    const TensorView<float> view(values.data(), tensor.c());

    CHECK(view.ndim() == 3);
    CHECK(view.numel() == 24);
    CHECK(view.rows() == 6);
    CHECK(view.is_contiguous());
    for (std::int64_t r = 0; r < view.rows(); ++r) {
        CHECK(view.row(r).data() == values.data() + r * 4);
        CHECK(view.row(r).size() == 4);
        CHECK(view.row(r).is_contiguous());
    }
}

TEST_CASE("negative dimensions count from the end") {
    const FakeTensor tensor(OPDOCK_F32, {2, 3, 4});
    const TensorView<float> view(nullptr, tensor.c());
    CHECK(view.size(-1) == 4);
    CHECK(view.size(-3) == 2);
    CHECK(view.size(0) == 2);
    CHECK(view.stride(-1) == 1);
    CHECK(view.stride(-3) == 12);
}

TEST_CASE("a transposed tensor gives strided rows") {
    auto values = counting(6); // [[0 1 2] [3 4 5]], seen as its transpose
    const FakeTensor tensor(OPDOCK_F32, {3, 2}, {1, 3});
    const TensorView<float> view(values.data(), tensor.c());

    CHECK_FALSE(view.is_contiguous());
    CHECK_FALSE(view.row(0).is_contiguous());
    CHECK(view.row(1)[0] == 1);
    CHECK(view.row(1)[1] == 4);
    CHECK(view(2, 1) == 5);
    CHECK(view[3] == 4); // row-major position: row 1, column 1
}

TEST_CASE("every way to an element agrees, whatever the strides") {
    const std::uint32_t seed = std::random_device()();
    CAPTURE(seed);
    std::mt19937 random(seed);
    std::uniform_int_distribution<std::int64_t> size(1, 5);
    std::uniform_int_distribution<std::int64_t> gap(0, 3);
    for (int round = 0; round < 50; ++round) {
        // A gap in every dimension, and the leading two swapped in memory.
        const std::int64_t a = size(random), b = size(random), c = size(random), n = size(random);
        const std::int64_t inner = 1 + gap(random);
        const std::int64_t of_c = inner * n + gap(random);
        const std::int64_t of_a = of_c * c + gap(random);
        const std::int64_t of_b = of_a * a + gap(random);
        std::vector<std::int32_t> values(static_cast<std::size_t>(of_b * b));
        std::iota(values.begin(), values.end(), 0);
        const FakeTensor tensor(OPDOCK_I32, {a, b, c, n}, {of_a, of_b, of_c, inner});
        const TensorView<std::int32_t> view(values.data(), tensor.c());

        REQUIRE(view.rows() == a * b * c);
        REQUIRE(view.numel() == a * b * c * n);
        int wrong = 0;
        for (std::int64_t i = 0; i < a; ++i)
            for (std::int64_t j = 0; j < b; ++j)
                for (std::int64_t k = 0; k < c; ++k)
                    for (std::int64_t l = 0; l < n; ++l) {
                        const std::int64_t row = (i * b + j) * c + k;
                        const std::int64_t expected = i * of_a + j * of_b + k * of_c + l * inner;
                        wrong += view(i, j, k, l) != expected;
                        wrong += view.row(row)[l] != expected;
                        wrong += view[row * n + l] != expected;
                    }
        REQUIRE(wrong == 0);
    }
}

TEST_CASE("strides of dimensions of size 1 say nothing about contiguity") {
    const FakeTensor tensor(OPDOCK_F32, {1, 3, 1, 4}, {99, 4, 77, 1});
    CHECK(TensorView<float>(nullptr, tensor.c()).is_contiguous());
    const FakeTensor column(OPDOCK_F32, {3, 1}, {1, 50});
    CHECK(TensorView<float>(nullptr, column.c()).is_contiguous());
    CHECK(TensorView<float>(nullptr, column.c()).row(0).is_contiguous());
}

TEST_CASE("a repeated row is not contiguous and reads the same elements") {
    auto values = counting(4);
    const FakeTensor tensor(OPDOCK_F32, {3, 4}, {0, 1});
    const TensorView<float> view(values.data(), tensor.c());
    CHECK_FALSE(view.is_contiguous());
    CHECK(view.row(2).data() == values.data());
    CHECK(view.row(2).is_contiguous());
}

TEST_CASE("a tensor of rank 0 is one row of one element") {
    float value = 3;
    const FakeTensor tensor(OPDOCK_F32, {});
    const TensorView<float> view(&value, tensor.c());
    CHECK(view.ndim() == 0);
    CHECK(view.rows() == 1);
    CHECK(view.size(-1) == 1);
    CHECK(view.numel() == 1);
    CHECK(view.is_contiguous());
    CHECK(view.row(0)[0] == 3);
    CHECK(view[0] == 3);
    CHECK(view() == 3);
}

TEST_CASE("a tensor without elements is there, has rows of nothing or no rows, and is contiguous") {
    const FakeTensor no_rows(OPDOCK_F32, {0, 4});
    const FakeTensor no_columns(OPDOCK_F32, {3, 0});
    const TensorView<float> a(nullptr, no_rows.c());
    const TensorView<float> b(nullptr, no_columns.c());
    CHECK(static_cast<bool>(a));
    CHECK(a.rows() == 0);
    CHECK(b.rows() == 3);
    CHECK(b.numel() == 0);
    CHECK(b.row(2).data() == nullptr);
    CHECK(b.row(2).size() == 0);
    CHECK(a.is_contiguous());
    CHECK(b.is_contiguous());
}

TEST_CASE("an absent tensor is false") {
    CHECK_FALSE(static_cast<bool>(TensorView<float>()));
    CHECK(TensorView<float>().data() == nullptr);
}
