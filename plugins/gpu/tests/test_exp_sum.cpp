// Tests exp_sum.cuh in an emulated block.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "exp_sum.cuh"

namespace {

using gpu::Exponential;
using gpu::ExpSum;
using gpu::Relative;

// On both sides of the point where offsets leave the range: log2_e times these is about 2^20.
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

// The sum that every thread of a group gets for its row, relative to the
// largest element; each row has a group, whose threads share the elements.
std::vector<std::vector<double>> gathered_sums(const std::vector<std::vector<float>> &rows, int group, int warp_size) {
    const int threads = static_cast<int>(rows.size()) * group;
    std::vector<std::vector<double>> sums(rows.size(), std::vector<double>(static_cast<size_t>(group)));
    const std::string wrong =
        emulated::run_block(threads, warp_size, 4 * gpu::most_warps, [&](int thread, float *shared) {
            const auto row = static_cast<size_t>(thread / group), mine = static_cast<size_t>(thread % group);
            float values[2];
            gpu::gather_exp_sum(values, gpu::log2_e, group, shared, [&](auto is_in_range, float(&of_thread)[2]) {
                ExpSum sum;
                for (size_t i = mine; i < rows[row].size(); i += static_cast<size_t>(group)) {
                    const float x[1] = {rows[row][i]};
                    sum.add<decltype(is_in_range)::value != 0>(x, gpu::log2_e);
                }
                of_thread[0] = sum.largest;
                of_thread[1] = sum.sum;
            });
            sums[row][mine] = values[1] / Exponential(gpu::log2_e, values[0]).of_from();
        });
    REQUIRE(wrong == "");
    return sums;
}

// The same for a single thread that has the whole row.
double gathered_sum(const std::vector<float> &elements) {
    return gathered_sums({elements}, 1, 32).front().front();
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
    // The sum of one element, as its thread computes it: 1, except for the rounding of the offset.
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

TEST_CASE("a group gets the same sum of exponentials in each of its threads, and whatever its neighbours have") {
    for (const int warp_size : {32, 64}) {
        for (const int group : {2, 16, 32, 64, 128, 256}) {
            const std::vector<float> near{1.0f, -2.5f, 0.25f, 3.0f, 2.0f, -1.0f};
            const std::vector<float> nothing(4, -std::numeric_limits<float>::infinity());
            const int rows_of_block = std::max(4, warp_size / group);
            std::vector<std::vector<float>> rows(static_cast<size_t>(rows_of_block), near);
            rows[1] = at_end_of_range; // unlike the rows of its neighbours
            rows[2] = {1e30f, 3.0f, 1e30f};
            rows[3] = nothing;
            const auto sums = gathered_sums(rows, group, warp_size);
            for (size_t row = 0; row < rows.size(); ++row) {
                CAPTURE(warp_size);
                CAPTURE(group);
                CAPTURE(row);
                const double expected = row == 3 ? 0 : exact_sum(rows[row]);
                CHECK(sums[row].front() == doctest::Approx(expected).epsilon(1e-5));
                CHECK(std::count(sums[row].begin(), sums[row].end(), sums[row].front()) == group);
            }
            CHECK(gathered_sums({near, near, near, near}, group, warp_size)[0][0] == sums[0][0]);
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
