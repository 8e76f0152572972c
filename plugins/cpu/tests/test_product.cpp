// Blocks of matrix products, with sizes around the kernels' tile sizes, compared with plain sums.
#include "product.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "amx.hpp"

namespace {

using cpu::Block;
using cpu::Factor;
using cpu::Product;
using cpu::Rows;

template<class T>
constexpr uint32_t dtype_of = OPDOCK_F32;
template<>
constexpr uint32_t dtype_of<opdock::half_t> = OPDOCK_F16;
template<>
constexpr uint32_t dtype_of<opdock::bfloat16_t> = OPDOCK_BF16;

// The relative error of one rounding.
template<class T>
constexpr double precision = 0x1p-24;
template<>
constexpr double precision<opdock::half_t> = 0x1p-11;
template<>
constexpr double precision<opdock::bfloat16_t> = 0x1p-8;

using Random = std::minstd_rand;

// Rows of numbers with NaN between and after them.
template<class T>
struct Matrix {
    int64_t rows, columns, step;
    std::vector<T> elements;

    Matrix(int64_t with_rows, int64_t with_columns, int64_t gap)
        : rows(with_rows), columns(with_columns), step(columns + gap),
          elements(static_cast<size_t>(rows * step + 1), T(std::numeric_limits<float>::quiet_NaN())) {}

    void fill(Random &random) {
        std::uniform_real_distribution<float> number(-1, 1);
        for (int64_t i = 0; i < rows; ++i)
            for (int64_t j = 0; j < columns; ++j)
                at(i, j) = T(number(random));
    }
    T &at(int64_t i, int64_t j) { return elements[static_cast<size_t>(i * step + j)]; }
    const T &at(int64_t i, int64_t j) const { return elements[static_cast<size_t>(i * step + j)]; }
    Rows as_rows() {
        return rows * columns == 0 ? Rows() : Rows::apart(elements.data(), step * static_cast<int64_t>(sizeof(T)));
    }
};

struct Shape {
    int64_t rows, columns, depth;
    bool x_down = false, w_down = false, bias = false;
    int64_t gap = 0; // elements between rows
};

template<class T>
Matrix<T> factor(int64_t rows, int64_t depth, bool down, int64_t gap, Random &random) {
    Matrix<T> matrix = down ? Matrix<T>(depth, rows, gap) : Matrix<T>(rows, depth, gap);
    matrix.fill(random);
    return matrix;
}

template<class T>
double element(const Matrix<T> &matrix, bool down, int64_t i, int64_t p) {
    return double(float(down ? matrix.at(p, i) : matrix.at(i, p)));
}

// True if a block equals the plain sums and the elements around it are unchanged.
template<class T>
void check_block(const Shape &shape, const Block &block, Random &random) {
    CAPTURE(shape.rows);
    CAPTURE(shape.columns);
    CAPTURE(shape.depth);
    CAPTURE(shape.x_down);
    CAPTURE(shape.w_down);
    CAPTURE(shape.gap);
    CAPTURE(shape.bias);
    Matrix<T> x = factor<T>(shape.rows, shape.depth, shape.x_down, shape.gap, random);
    Matrix<T> w = factor<T>(shape.columns, shape.depth, shape.w_down, shape.gap, random);
    Matrix<T> bias(1, shape.columns, 0), output(shape.rows, shape.columns, shape.gap);
    bias.fill(random);
    Product a = {};
    a.t = opdock_dtype_unpack(dtype_of<T>);
    a.x = {x.as_rows(), shape.x_down};
    a.w = {w.as_rows(), shape.w_down};
    if (shape.bias)
        a.bias = bias.as_rows();
    a.output = output.as_rows();
    a.rows = shape.rows, a.columns = shape.columns, a.depth = shape.depth;
    cpu::multiply_block(a, block);

    const auto inside = [&](int64_t i, int64_t j) {
        return i >= block.first_row && i < block.last_row && j >= block.first_column && j < block.last_column;
    };
    int64_t wrong = 0, written_beside = 0;
    for (int64_t i = 0; i < shape.rows; ++i) {
        for (int64_t j = 0; j < output.step; ++j) {
            const auto found = double(float(output.at(i, j)));
            if (!inside(i, j)) {
                written_beside += !std::isnan(found);
                continue;
            }
            double sum = shape.bias ? double(float(bias.at(0, j))) : 0, size = std::fabs(sum);
            for (int64_t p = 0; p < shape.depth; ++p) {
                const double product = element(x, shape.x_down, i, p) * element(w, shape.w_down, j, p);
                sum += product;
                size += std::fabs(product);
            }
            // Sums are f32 and rounded once to the dtype.
            const double allowed =
                precision<T> * std::fabs(sum) + static_cast<double>(shape.depth + 2) * 0x1p-24 * size + 0x1p-24;
            wrong += !(std::fabs(found - sum) <= allowed);
        }
    }
    CHECK(wrong == 0);
    CHECK(written_beside == 0);
}

template<class T>
void check_whole(const Shape &shape, Random &random) {
    check_block<T>(shape, {0, shape.rows, 0, shape.columns}, random);
}

template<class T>
void check_directions(Shape shape, Random &random) {
    for (int i = 0; i < 4; ++i) {
        shape.x_down = (i & 1) != 0, shape.w_down = (i & 2) != 0;
        check_whole<T>(shape, random);
    }
}

// A different seed each time; to repeat a failure, use the seed that is printed here.
Random new_random() {
    const uint32_t seed = std::random_device()();
    MESSAGE("seed " << seed << std::string(cpu::amx_available() ? ", bf16 in tiles" : ", bf16 widened"));
    return Random(seed);
}

} // namespace

TEST_CASE("products of every size around a tile are the sums that they stand for") {
    Random random = new_random();
    for (const int64_t size : {1, 2, 15, 16, 17, 31, 32, 33, 47, 48, 49, 63, 64, 65, 70}) {
        check_directions<opdock::bfloat16_t>({.rows = size, .columns = 33, .depth = 35}, random);
        check_directions<opdock::bfloat16_t>({.rows = 33, .columns = size, .depth = 35}, random);
        check_directions<opdock::bfloat16_t>({.rows = 17, .columns = 49, .depth = size}, random);
    }
}

TEST_CASE("products of random sizes, rows apart, with and without a bias") {
    Random random = new_random();
    std::uniform_int_distribution<int64_t> size(1, 70), depth(0, 70), gap(0, 9);
    for (int i = 0; i < 100; ++i) {
        const Shape shape = {.rows = size(random),
                             .columns = size(random),
                             .depth = depth(random),
                             .bias = i % 2 != 0,
                             .gap = gap(random)};
        check_directions<opdock::bfloat16_t>(shape, random);
        if (i % 10 == 0) {
            check_directions<opdock::half_t>(shape, random);
            check_directions<float>(shape, random);
        }
    }
}

TEST_CASE("a product without any depth is its bias, or 0") {
    Random random = new_random();
    for (const bool bias : {false, true}) {
        check_directions<opdock::bfloat16_t>({.rows = 40, .columns = 20, .depth = 0, .bias = bias}, random);
        check_directions<float>({.rows = 40, .columns = 20, .depth = 0, .bias = bias}, random);
    }
}

TEST_CASE("a depth of several chunks is summed whole") {
    Random random = new_random();
    for (const int64_t depth : {511, 512, 513, 1025, 4096, 4097, 9001})
        check_directions<opdock::bfloat16_t>({.rows = 35, .columns = 18, .depth = depth, .bias = true, .gap = 3},
                                             random);
    // More rows than are summed at a time, and a larger depth than is laid out at a time.
    check_directions<opdock::bfloat16_t>({.rows = 300, .columns = 40, .depth = 4200, .gap = 1}, random);
    check_directions<opdock::bfloat16_t>({.rows = 600, .columns = 300, .depth = 64}, random);
}

TEST_CASE("a block is written where it lies, and nothing beside it") {
    Random random = new_random();
    for (int i = 0; i < 20; ++i) {
        std::uniform_int_distribution<int64_t> row(0, 80), column(0, 90);
        Shape shape = {.rows = 81, .columns = 91, .depth = 45, .bias = i % 3 == 0, .gap = i % 5};
        shape.x_down = (i & 1) != 0, shape.w_down = (i & 2) != 0;
        const int64_t first_row = row(random), first_column = column(random);
        check_block<opdock::bfloat16_t>(
            shape,
            {first_row, std::min(shape.rows, first_row + 37), first_column, std::min(shape.columns, first_column + 50)},
            random);
    }
}

TEST_CASE("rows that no single step leads to are found") {
    Random random = new_random();
    // Two stacks of 20 rows, one after the other in a tensor of 2 x 20 rows that has a gap between them.
    constexpr int64_t depth = 45, columns = 23, rows = 40;
    Matrix<opdock::bfloat16_t> stored(rows + 1, depth, 3), together(rows, depth, 0);
    stored.fill(random);
    for (int64_t i = 0; i < rows; ++i)
        for (int64_t p = 0; p < depth; ++p)
            together.at(i, p) = stored.at(i < 20 ? i : i + 1, p);
    const int64_t shape[] = {2, 20, depth}, strides[] = {21 * stored.step, stored.step, 1};
    DLTensor tensor = {};
    tensor.ndim = 3;
    tensor.dtype = opdock_dtype_unpack(OPDOCK_BF16);
    tensor.shape = const_cast<int64_t *>(shape);
    tensor.strides = const_cast<int64_t *>(strides);
    const DLTensor *tensors[] = {&tensor};
    const uint32_t first[] = {0, 1};
    void *data[] = {stored.elements.data()};
    opdock_problem problem = {};
    problem.n_inputs = problem.n_tensors = 1;
    problem.tensors = tensors;
    problem.tensor_offsets = first;
    opdock_call call = {};
    call.data = data;
    const Rows scattered = Rows::of_input(opdock::Call(problem, call), 0);

    Matrix<opdock::bfloat16_t> w(columns, depth, 0), expected(rows, columns, 0), found(rows, columns, 0);
    w.fill(random);
    const auto multiply = [&](const Rows &x, Matrix<opdock::bfloat16_t> &output) {
        Product a = {};
        a.t = tensor.dtype;
        a.x = {x};
        a.w = {w.as_rows()};
        a.output = output.as_rows();
        a.rows = rows, a.columns = columns, a.depth = depth;
        cpu::multiply_block(a, {0, rows, 0, columns});
    };
    multiply(together.as_rows(), expected);
    multiply(scattered, found);
    for (size_t i = 0; i < found.elements.size() - 1; ++i)
        REQUIRE(found.elements[i].bits == expected.elements[i].bits);
}

TEST_CASE("infinities and NaN stay in their row and column") {
    Random random = new_random();
    constexpr int64_t size = 40;
    Matrix<opdock::bfloat16_t> x(size, size, 0), w(size, size, 0), output(size, size, 0);
    x.fill(random);
    w.fill(random);
    x.at(3, 5) = opdock::bfloat16_t(std::numeric_limits<float>::infinity());
    w.at(7, 2) = opdock::bfloat16_t(std::numeric_limits<float>::quiet_NaN());
    Product a = {};
    a.t = opdock_dtype_unpack(OPDOCK_BF16);
    a.x = {x.as_rows()};
    a.w = {w.as_rows()};
    a.output = output.as_rows();
    a.rows = a.columns = a.depth = size;
    cpu::multiply_block(a, {0, size, 0, size});
    for (int64_t i = 0; i < size; ++i) {
        for (int64_t j = 0; j < size; ++j) {
            CAPTURE(i);
            CAPTURE(j);
            const float found = float(output.at(i, j));
            if (j == 7)
                CHECK(std::isnan(found));
            else
                CHECK(std::isfinite(found) == (i != 3));
        }
    }
}

TEST_CASE("long sums of few rows lose no more digits than those of many") {
    // A growing sum loses ever more of each 0.1: added one after the other, they end 1e-4 off.
    constexpr int64_t depth = 100'000;
    for (const bool down : {false, true}) {
        CAPTURE(down);
        Matrix<float> x(1, depth, 0), output(1, 3, 0);
        Matrix<float> w = down ? Matrix<float>(depth, 3, 0) : Matrix<float>(3, depth, 0);
        std::fill(x.elements.begin(), x.elements.end(), 1.0f);
        std::fill(w.elements.begin(), w.elements.end(), 0.1f);
        Product a = {};
        a.t = opdock_dtype_unpack(OPDOCK_F32);
        a.x = {x.as_rows(), false};
        a.w = {w.as_rows(), down};
        a.output = output.as_rows();
        a.rows = 1, a.columns = 3, a.depth = depth;
        cpu::multiply_few(a, 0, 3);
        for (int64_t j = 0; j < 3; ++j)
            CHECK(double(output.at(0, j)) == doctest::Approx(double(0.1f) * depth).epsilon(5e-6));
    }
}
