// The words that dropout draws.
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include "tests/each_target.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/test_philox.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h, which includes this file again for each target.
#include "hwy/highway.h"
#include "simd/philox-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cpu {
namespace HWY_NAMESPACE {

void philox_words(uint64_t first, uint64_t offset, uint64_t key, size_t count, std::vector<uint32_t> &words) {
    words.assign(4 * (count + hn::MaxLanes(u32)), 0);
    philox(first, offset, key, count, words.data());
    words.resize(4 * count);
}

} // namespace HWY_NAMESPACE
} // namespace cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cpu {

HWY_EXPORT(philox_words);

namespace {

std::vector<uint32_t> words_of(uint64_t first, uint64_t offset, uint64_t key, size_t count) {
    std::vector<uint32_t> words;
    HWY_DYNAMIC_DISPATCH(philox_words)(first, offset, key, count, words);
    return words;
}

uint64_t of_halves(uint32_t low, uint32_t high) {
    return uint64_t(high) << 32 | low;
}

using Words = std::vector<uint32_t>;

} // namespace

TEST_CASE("Philox gives the words that its authors publish") {
    for_each_target([] {
        CHECK(words_of(0, 0, 0, 1) == Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
        CHECK(words_of(~uint64_t(0), ~uint64_t(0), ~uint64_t(0), 1) ==
              Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
        CHECK(words_of(of_halves(0x243f6a88, 0x85a308d3), of_halves(0x13198a2e, 0x03707344),
                       of_halves(0xa4093822, 0x299f31d0), 1) == Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
    });
}

TEST_CASE("words are the same whatever they are drawn with, across the end of the counter's low half too") {
    for_each_target([] {
        const uint64_t first = 0xffffffff - 20;
        const Words together = words_of(first, 5, 7, 41);
        Words apart;
        for (uint64_t i = 0; i < 41; ++i) {
            const Words one = words_of(first + i, 5, 7, 1);
            apart.insert(apart.end(), one.begin(), one.end());
        }
        CHECK(together == apart);
    });
}

} // namespace cpu
#endif
