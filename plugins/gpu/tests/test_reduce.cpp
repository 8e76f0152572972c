// Tests reduce.cuh in an emulated block.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "reduce.cuh"

namespace {

// Different in each thread, of both signs, and with inexact sums.
float value_of(int i) {
    return static_cast<float>(std::sin(1.0 + 3.7 * i)) * static_cast<float>(1 + i % 13);
}

std::uint32_t bits_of(float value) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}

// The results of each thread of a block.
struct Results {
    int group;
    int threads;
    int warp_size;
    std::vector<float> sum, largest, with_nan, first_of_two, second_of_two;
};

constexpr int place_of_nan(int group) {
    return group / 3;
}

Results reduce_in_block(int group, int threads, int warp_size) {
    Results results{group, threads, warp_size, {}, {}, {}, {}, {}};
    for (std::vector<float> *list :
         {&results.sum, &results.largest, &results.with_nan, &results.first_of_two, &results.second_of_two}) {
        list->resize(static_cast<size_t>(threads));
    }
    // Successive reductions alternate between two halves of the memory.
    const std::string wrong = emulated::run_block(threads, warp_size, 4 * gpu::most_warps, [&](int i, float *shared) {
        float *other = shared + 2 * gpu::most_warps;
        const auto at = static_cast<size_t>(i);
        const float value = value_of(i);
        results.sum[at] = gpu::reduce<gpu::Sum>(value, group, shared);
        results.largest[at] = gpu::reduce<gpu::Largest>(value, group, other);
        const float or_nan = i == place_of_nan(group) ? std::numeric_limits<float>::quiet_NaN() : value;
        results.with_nan[at] = gpu::reduce<gpu::Largest>(or_nan, group, shared);
        float two[2] = {value, -value};
        gpu::reduce<gpu::Sum>(two, group, other);
        results.first_of_two[at] = two[0];
        results.second_of_two[at] = two[1];
    });
    REQUIRE(wrong == "");
    return results;
}

// Groups of every power of two, several per block if there is room. Computed only once,
// since a thousand threads that wait for each other are slow.
void for_each_block(const std::function<void(const Results &)> &check) {
    static const std::vector<Results> blocks = [] {
        std::vector<Results> all;
        for (const int warp_size : {32, 64}) {
            for (int group = 1; group <= 1024; group *= 2) {
                all.push_back(reduce_in_block(group, std::min(1024, std::max(128, 2 * group)), warp_size));
            }
        }
        return all;
    }();
    for (const Results &block_results : blocks) {
        CAPTURE(block_results.warp_size);
        CAPTURE(block_results.group);
        check(block_results);
    }
}

double sum_of_group(int group, int first) {
    double sum = 0;
    for (int i = first; i < first + group; ++i) {
        sum += value_of(i);
    }
    return sum;
}

float largest_of_group(int group, int first) {
    float largest = value_of(first);
    for (int i = first; i < first + group; ++i) {
        largest = std::max(largest, value_of(i));
    }
    return largest;
}

} // namespace

TEST_CASE("every thread of a group gets the sum of its group, the same bits in each") {
    for_each_block([](const Results &found) {
        for (int i = 0; i < found.threads; ++i) {
            const int first = i / found.group * found.group;
            const float sum = found.sum[static_cast<size_t>(i)];
            CHECK(bits_of(sum) == bits_of(found.sum[static_cast<size_t>(first)]));
            CHECK(sum == doctest::Approx(sum_of_group(found.group, first)).epsilon(1e-4).scale(10));
        }
    });
}

TEST_CASE("every thread of a group gets the largest value of its group") {
    for_each_block([](const Results &found) {
        for (int i = 0; i < found.threads; ++i) {
            CHECK(found.largest[static_cast<size_t>(i)] ==
                  largest_of_group(found.group, i / found.group * found.group));
        }
    });
}

TEST_CASE("a NaN in a group is its largest value, and no other group's") {
    for_each_block([](const Results &found) {
        for (int i = 0; i < found.threads; ++i) {
            CHECK(std::isnan(found.with_nan[static_cast<size_t>(i)]) == (i / found.group == 0));
        }
    });
}

TEST_CASE("two values are reduced at once as each would be alone") {
    for_each_block([](const Results &found) {
        for (size_t i = 0; i < found.sum.size(); ++i) {
            CHECK(bits_of(found.first_of_two[i]) == bits_of(found.sum[i]));
            CHECK(found.second_of_two[i] == -found.sum[i]);
        }
    });
}
