// exp_sum.cuh on the CPU, where a group is one thread.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

namespace gpu {
namespace {

template<int value_>
struct Number {
    static constexpr int value = value_;
};

int warp_size() {
    return 32;
}
int thread_in_block() {
    return 0;
}
void wait_for_block() {}
float shuffle_xor(float value, int /*mask*/) {
    return value;
}
bool any_that_reduces_along(bool holds, int /*threads*/) {
    return holds;
}

} // namespace
} // namespace gpu

#define GPU_EMULATED
#define __device__
#define __forceinline__ inline
#include "exp_sum.cuh"

namespace {

using gpu::Exponential;
using gpu::ExpSum;
using gpu::Relative;

// Next to where offsets leave the range, on either side: log2_e times these is about 2^20.
const std::vector<float> at_end_of_range = {726814.0625f, 726815.5f, 726816.9375f, 726817.0f,
                                            726817.25f,   726818.5f, 726819.375f,  726821.0f};

double exact_sum(const std::vector<float> &elements) {
    const double largest = *std::max_element(elements.begin(), elements.end());
    double sum = 0;
    for (const float element : elements) {
        sum += std::exp2(static_cast<double>(gpu::log2_e) * (element - largest));
    }
    return sum;
}

// One element at a time, as a thread with all of a row has them; relative to the largest itself.
double gathered_sum(const std::vector<float> &elements) {
    float values[2];
    float shared[4 * gpu::most_warps];
    gpu::gather_exp_sum(values, gpu::log2_e, 1, shared, [&](auto is_in_range, float(&mine)[2]) {
        ExpSum sum;
        for (const float element : elements) {
            const float x[1] = {element};
            sum.add<decltype(is_in_range)::value != 0>(x, gpu::log2_e);
        }
        mine[0] = sum.largest;
        mine[1] = sum.sum;
    });
    return values[1] / Exponential(gpu::log2_e, values[0]).of_from();
}

} // namespace

TEST_CASE("a sum of exponentials is right where elements leave the range of their offsets") {
    for (const float sign : {1.0f, -1.0f}) {
        std::vector<float> elements;
        elements.reserve(at_end_of_range.size());
        for (const float element : at_end_of_range) {
            elements.push_back(sign * element);
        }
        for (size_t count = 2; count <= elements.size(); ++count) {
            std::vector<float> upwards(elements.begin(), elements.begin() + static_cast<std::ptrdiff_t>(count));
            std::sort(upwards.begin(), upwards.end());
            CAPTURE(upwards.back());
            CHECK(gathered_sum(upwards) == doctest::Approx(exact_sum(upwards)).epsilon(1e-5));
            std::reverse(upwards.begin(), upwards.end());
            CHECK(gathered_sum(upwards) == doctest::Approx(exact_sum(upwards)).epsilon(1e-5));
        }
    }
}

TEST_CASE("two sums, each in its own way, become one where one of them is out of range") {
    // Of one element each, as the thread that has it sees it: 1 but for how the offset is rounded.
    const auto of_one = [](float element) { return ExpSum{element, Exponential(gpu::log2_e, element).of_from()}; };
    for (const float sign : {1.0f, -1.0f}) {
        for (const float a : at_end_of_range) {
            for (const float b : at_end_of_range) {
                const float less = std::min(sign * a, sign * b), more = std::max(sign * a, sign * b);
                CAPTURE(less);
                CAPTURE(more);
                const float sum = of_one(less).relative_to<Relative::by_range>(more, gpu::log2_e);
                const double found = static_cast<double>(sum) / Exponential(gpu::log2_e, more).of_from();
                const double expected = std::exp2(static_cast<double>(gpu::log2_e) * (less - more));
                CHECK(found == doctest::Approx(expected).epsilon(1e-5));
            }
        }
    }
}

TEST_CASE("what is far below, infinitely far below or nothing adds nothing") {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    for (const float far : {-infinity, -1e30f, -1e6f}) {
        CHECK(gathered_sum({far, 3.0f}) == 1.0);
        CHECK(gathered_sum({3.0f, far}) == 1.0);
        CHECK(gathered_sum({far, 1e30f}) == 1.0);
    }
    CHECK(gathered_sum({-infinity, -std::numeric_limits<float>::max()}) == 1.0);
}
