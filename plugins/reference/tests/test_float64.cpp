#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>

#include "float64.hpp"

using opdock::bfloat16_t;
using opdock::half_t;
using reference::rounded;
using reference::wide;

namespace {

template<class T>
T of_bits(std::uint16_t bits) {
    T value;
    value.bits = bits;
    return value;
}

// Checks every finite value but the largest, its upper neighbour, and the midpoint between them.
template<class T, class Check>
void for_each_pair(std::uint16_t largest, Check check) {
    for (std::uint16_t bits = 0; bits < largest; ++bits) {
        const auto above = static_cast<std::uint16_t>(bits + 1);
        const double low = wide(of_bits<T>(bits));
        const double high = wide(of_bits<T>(above));
        check(bits, above, low + (high - low) / 2); // exact: a double has bits to spare
    }
}

template<class T>
void check_rounding(std::uint16_t largest) {
    std::int64_t wrong = 0;
    for_each_pair<T>(largest, [&](std::uint16_t below, std::uint16_t above, double middle) {
        const std::uint16_t even = below % 2 == 0 ? below : above;
        wrong += rounded<T>(middle).bits != even;
        wrong += rounded<T>(std::nextafter(middle, 0.0)).bits != below;
        wrong += rounded<T>(std::nextafter(middle, 1e300)).bits != above;
        wrong += rounded<T>(-std::nextafter(middle, 0.0)).bits != (below | 0x8000);
    });
    CHECK(wrong == 0);
}

} // namespace

TEST_CASE("a double is rounded once: nearest on both sides of every tie, even on it") {
    check_rounding<half_t>(0x7bff);
    check_rounding<bfloat16_t>(0x7f7f);
}

TEST_CASE("what 16 bits can hold survives the way to double and back") {
    std::int64_t changed = 0;
    for (std::uint16_t bits = 0; bits < 0x7c00; ++bits)
        changed += rounded<half_t>(wide(of_bits<half_t>(bits))).bits != bits;
    for (std::uint16_t bits = 0; bits < 0x7f80; ++bits)
        changed += rounded<bfloat16_t>(wide(of_bits<bfloat16_t>(bits))).bits != bits;
    CHECK(changed == 0);
}

TEST_CASE("past the range comes infinity, and a NaN stays one") {
    CHECK(wide(rounded<half_t>(65519.9)) == 65504);
    CHECK(std::isinf(wide(rounded<half_t>(65520))));
    CHECK(wide(rounded<half_t>(-1e300)) == -INFINITY);
    CHECK(wide(rounded<bfloat16_t>(1e300)) == INFINITY);
    CHECK(wide(rounded<float>(1e300)) == INFINITY);
    CHECK(std::isnan(wide(rounded<half_t>(NAN))));
    CHECK(std::isnan(wide(rounded<bfloat16_t>(NAN))));
}
