// Division by multiplication, which the threads of rope's kernel use to find their part of the work.
#include <cstdint>
#include <random>
#include <vector>

#include <doctest/doctest.h>

#include "rope.cuh"

TEST_CASE("a Divisor divides all numbers below 2^31 as / does") {
    constexpr unsigned seed = 11;
    INFO("seed " << seed);
    std::mt19937 generator(seed);
    constexpr uint32_t largest = INT32_MAX;
    const auto any = [&] { return static_cast<uint32_t>(generator()) & largest; };
    std::vector<uint32_t> divisors = {1,   2,     3,     5,     7,           12,          18,
                                      641, 65535, 65536, 65537, largest / 2, largest - 1, largest};
    for (int i = 0; i < 500; ++i) {
        divisors.push_back(1 + any() % (uint32_t(1) << (1 + i % 31)) % largest);
    }
    for (const uint32_t divisor : divisors) {
        const gpu::Divisor by(divisor);
        std::vector<uint32_t> numbers = {0, 1, divisor - 1, divisor, largest - 1, largest, largest / divisor * divisor};
        for (int i = 0; i < 200; ++i) {
            const uint32_t number = any();
            numbers.insert(numbers.end(), {number, number / divisor * divisor});
        }
        for (const uint32_t number : numbers) {
            CAPTURE(divisor);
            for (const uint32_t near : {number, number == 0 ? number : number - 1}) {
                CAPTURE(near);
                REQUIRE(by.quotient(near) == near / divisor);
            }
        }
    }
}
