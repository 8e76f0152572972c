// Philox 4x32-10, as opdock/ops/elementwise.h defines the words that dropout draws.
#pragma once

#include <array>
#include <cstdint>

namespace reference {

inline std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
    auto &[a, b, c, d] = counter;
    for (int round = 0; round < 10; ++round) {
        const std::uint64_t of_a = std::uint64_t(0xd2511f53) * a;
        const std::uint64_t of_c = std::uint64_t(0xcd9e8d57) * c;
        counter = {static_cast<std::uint32_t>(of_c >> 32) ^ b ^ key[0], static_cast<std::uint32_t>(of_c),
                   static_cast<std::uint32_t>(of_a >> 32) ^ d ^ key[1], static_cast<std::uint32_t>(of_a)};
        key[0] += 0x9e3779b9;
        key[1] += 0xbb67ae85;
    }
    return counter;
}

} // namespace reference
