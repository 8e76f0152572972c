// The kernels of the template and of the acme example, called directly: vendors copy them, so they must be right.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "fake_host.hpp"
#include "heuristics.hpp"
#include "ops/ops.hpp"

namespace example { // the template's; its headers have the same names as acme's
opdock::Status silu(const opdock::Call &call);
opdock::Status pick_block(const opdock::Problem &problem, std::int64_t *knobs);
} // namespace example

using opdock::bfloat16_t;
using opdock::half_t;

namespace {

template<class T>
constexpr std::uint32_t packed = opdock::detail::packed_dtype<T>;
template<class T>
constexpr double tolerance = packed<T> == OPDOCK_F32   ? 1e-5
                             : packed<T> == OPDOCK_F16 ? 2e-3
                                                       : 1.6e-2;

// A tensor with its elements: [a, b, n], either contiguous, or with a gap in every stride and the two leading
// dimensions swapped in memory.
template<class T>
struct Filled {
    Filled(std::int64_t a, std::int64_t b, std::int64_t n, bool contiguous, std::mt19937 &random)
        : tensor(packed<T>, {a, b, n},
                 contiguous ? std::vector<std::int64_t>{b * n, n, 1}
                            : std::vector<std::int64_t>{2 * n + 3, (2 * n + 3) * a, 2}),
          memory(static_cast<std::size_t>((2 * n + 3) * a * b)) {
        std::normal_distribution<float> normal;
        for (T &element : memory)
            element = T(normal(random));
    }
    opdock::TensorView<T> view() { return {memory.data(), tensor.c()}; }
    double operator()(std::int64_t row, std::int64_t i) {
        return static_cast<double>(static_cast<float>(view()[row * view().size(-1) + i]));
    }

    FakeTensor tensor;
    std::vector<T> memory;
};

// ||found - expected|| / ||expected|| over all elements.
double distance(std::int64_t rows, std::int64_t n, const std::function<double(std::int64_t, std::int64_t)> &found,
                const std::function<double(std::int64_t, std::int64_t)> &expected) {
    double difference = 0, norm = 0;
    for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t i = 0; i < n; ++i) {
            difference += std::pow(found(r, i) - expected(r, i), 2);
            norm += std::pow(expected(r, i), 2);
        }
    return std::sqrt(difference / norm);
}

double silu(double x) {
    return x / (1 + std::exp(-x));
}

const std::int64_t lengths[] = {1, 7, 64, 1025};

} // namespace

TEST_CASE_TEMPLATE("acme's rmsnorm_fwd computes its formula, whatever strides and block", T, float, half_t,
                   bfloat16_t) {
    const std::uint32_t seed = std::random_device()();
    CAPTURE(seed);
    std::mt19937 random(seed);
    const FakeHost host;
    for (const std::int64_t n : lengths)
        for (const bool contiguous : {true, false})
            for (const bool zero_centered : {true, false})
                for (const std::int64_t block : {1, 64, 1024}) {
                    CAPTURE(n);
                    CAPTURE(contiguous);
                    CAPTURE(zero_centered);
                    CAPTURE(block);
                    Filled<T> input(2, 3, n, contiguous, random);
                    Filled<T> output(2, 3, n, contiguous, random);
                    Filled<float> weight(1, 1, n, true, random);
                    const FakeTensor weight_tensor(OPDOCK_F32, {n});
                    const FakeTensor rsigma_tensor(OPDOCK_F32, {2, 3}, {1, 2});
                    std::vector<float> rsigma(6);
                    FakeCall call(host);
                    call.input(input.tensor, input.memory.data())
                        .input(weight_tensor, weight.memory.data())
                        .output(output.tensor, output.memory.data())
                        .output(rsigma_tensor, rsigma.data())
                        .attribute(1e-5)
                        .attribute(OPDOCK_VALUE_BOOL, zero_centered)
                        .knob(block);
                    REQUIRE(call.run(opdock::kernel<&acme::rmsnorm_fwd>) == OPDOCK_OK);

                    std::vector<double> expected_rsigma;
                    for (std::int64_t r = 0; r < 6; ++r) {
                        double sum = 0;
                        for (std::int64_t i = 0; i < n; ++i)
                            sum += input(r, i) * input(r, i);
                        expected_rsigma.push_back(1 / std::sqrt(sum / static_cast<double>(n) + 1e-5));
                    }
                    const auto expected = [&](std::int64_t r, std::int64_t i) {
                        return input(r, i) * expected_rsigma[static_cast<std::size_t>(r)] *
                               (weight(0, i) + (zero_centered ? 1 : 0));
                    };
                    CHECK(distance(6, n, std::ref(output), expected) < tolerance<T>);
                    const opdock::TensorView<float> found_rsigma(rsigma.data(), rsigma_tensor.c());
                    CHECK(distance(
                              6, 1, [&](std::int64_t r, std::int64_t) { return static_cast<double>(found_rsigma[r]); },
                              [&](std::int64_t r, std::int64_t) {
                                  return expected_rsigma[static_cast<std::size_t>(r)];
                              }) < 1e-5);
                }
}

TEST_CASE("acme's rmsnorm_fwd leaves out an rsigma that nobody wants, and takes weights of the input's type") {
    const FakeHost host;
    const FakeTensor x(OPDOCK_BF16, {2, 1});
    const FakeTensor w(OPDOCK_BF16, {1});
    bfloat16_t input[] = {bfloat16_t(2.0f), bfloat16_t(-4.0f)};
    bfloat16_t weight[] = {bfloat16_t(3.0f)};
    bfloat16_t output[2];
    FakeCall call(host);
    call.input(x, input).input(w, weight).output(x, output).absent_output();
    call.attribute(0.0).attribute(OPDOCK_VALUE_BOOL, 0).knob(64);
    REQUIRE(call.run(opdock::kernel<&acme::rmsnorm_fwd>) == OPDOCK_OK);
    CHECK(static_cast<float>(output[0]) == 3.0f);
    CHECK(static_cast<float>(output[1]) == -3.0f);
}

TEST_CASE_TEMPLATE("acme's silu_and_mul computes its formula, whatever strides and block", T, float, half_t,
                   bfloat16_t) {
    const std::uint32_t seed = std::random_device()();
    CAPTURE(seed);
    std::mt19937 random(seed);
    const FakeHost host;
    for (const std::int64_t n : lengths)
        for (const bool contiguous : {true, false})
            for (const std::int64_t block : {1, 64, 1024}) {
                CAPTURE(n);
                CAPTURE(contiguous);
                CAPTURE(block);
                Filled<T> gate(2, 3, n, contiguous, random);
                Filled<T> up(2, 3, n, true, random);
                Filled<T> output(2, 3, n, contiguous, random);
                FakeCall call(host);
                call.input(gate.tensor, gate.memory.data()).input(up.tensor, up.memory.data());
                call.output(output.tensor, output.memory.data()).knob(block);
                REQUIRE(call.run(opdock::kernel<&acme::silu_and_mul>) == OPDOCK_OK);
                CHECK(distance(6, n, std::ref(output), [&](std::int64_t r, std::int64_t i) {
                          return silu(gate(r, i)) * up(r, i);
                      }) < tolerance<T>);
            }
}

TEST_CASE_TEMPLATE("acme.scaled_residual may write over its residual", T, float, half_t, bfloat16_t) {
    const std::uint32_t seed = std::random_device()();
    CAPTURE(seed);
    std::mt19937 random(seed);
    const FakeHost host;
    for (const std::int64_t n : lengths) {
        CAPTURE(n);
        Filled<T> input(2, 3, n, true, random);
        Filled<T> residual(2, 3, n, false, random);
        Filled<T> before(2, 3, n, false, random);
        before.memory = residual.memory;
        Filled<float> scale(1, 1, n, true, random);
        const FakeTensor scale_tensor(OPDOCK_F32, {n});
        FakeCall call(host);
        call.input(input.tensor, input.memory.data())
            .input(residual.tensor, residual.memory.data())
            .input(scale_tensor, scale.memory.data())
            .output(residual.tensor, residual.memory.data())
            .knob(64);
        REQUIRE(call.run(opdock::kernel<&acme::scaled_residual>) == OPDOCK_OK);
        CHECK(distance(6, n, std::ref(residual), [&](std::int64_t r, std::int64_t i) {
                  return before(r, i) + scale(0, i) * input(r, i);
              }) < tolerance<T>);
    }
}

TEST_CASE_TEMPLATE("the template's silu computes its formula, with its own heuristic", T, float, half_t, bfloat16_t) {
    const std::uint32_t seed = std::random_device()();
    CAPTURE(seed);
    std::mt19937 random(seed);
    const FakeHost host;
    for (const std::int64_t n : lengths)
        for (const bool contiguous : {true, false}) {
            CAPTURE(n);
            CAPTURE(contiguous);
            Filled<T> input(2, 3, n, contiguous, random);
            Filled<T> output(2, 3, n, contiguous, random);
            FakeCall call(host);
            call.input(input.tensor, input.memory.data()).output(output.tensor, output.memory.data());
            std::int64_t block = 0;
            REQUIRE(opdock::heuristic<&example::pick_block>(call.problem(), &block) == OPDOCK_OK);
            REQUIRE(block >= 1);
            REQUIRE(block <= 1024);
            call.knob(block);
            REQUIRE(call.run(opdock::kernel<&example::silu>) == OPDOCK_OK);
            CHECK(distance(6, n, std::ref(output), [&](std::int64_t r, std::int64_t i) { return silu(input(r, i)); }) <
                  tolerance<T>);
        }
}

TEST_CASE("acme's heuristic stays within its knob's range") {
    const FakeHost host;
    for (const std::uint32_t dtype : {OPDOCK_F32, OPDOCK_F16, OPDOCK_BF16}) {
        const FakeTensor input(dtype, {4, 4096});
        FakeCall call(host);
        call.input(input, nullptr);
        std::int64_t block = 0;
        CHECK(opdock::heuristic<&acme::pick_block>(call.problem(), &block) == OPDOCK_OK);
        CHECK(block >= 1);
        CHECK(block <= acme::max_block);
    }
}
