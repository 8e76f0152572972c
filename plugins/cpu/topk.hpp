// The largest elements of a row, in order: largest first, ties by place, NaN before all others.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

namespace cpu {

// An element and its place as one number; larger numbers come first.
inline uint64_t key_of(float element, size_t place) {
    element += 0.0f; // one zero
    uint32_t bits;
    std::memcpy(&bits, &element, sizeof bits);
    const uint32_t order = std::isnan(element) ? ~0u : (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
    return static_cast<uint64_t>(order) << 32 | (~0u - static_cast<uint32_t>(place));
}

inline uint32_t place_of(uint64_t key) {
    return ~0u - static_cast<uint32_t>(key);
}

// Replaces the first k of `keys` by the keys of the first k of the elements value_of(place).
template<class ValueOf>
void choose_largest(size_t k, std::vector<uint64_t> &keys, ValueOf value_of) {
    for (size_t i = 0; i < keys.size(); ++i)
        keys[i] = key_of(value_of(i), i);
    const auto end = keys.begin() + static_cast<std::ptrdiff_t>(k);
    if (k < keys.size())
        std::nth_element(keys.begin(), end, keys.end(), std::greater<>());
    std::sort(keys.begin(), end, std::greater<>());
}

} // namespace cpu
