// Random words as defined in opdock/ops/elementwise.h.
#pragma once

#include <cstdint>

#include "runtime.hpp"

namespace gpu {

// The four words that one counter of Philox 4x32-10 gives.
struct Words {
    uint32_t word[4];
};

__device__ __forceinline__ Words philox(uint64_t counter, uint64_t offset, uint64_t seed) {
    uint32_t a = static_cast<uint32_t>(counter), b = static_cast<uint32_t>(counter >> 32);
    uint32_t c = static_cast<uint32_t>(offset), d = static_cast<uint32_t>(offset >> 32);
    uint32_t low = static_cast<uint32_t>(seed), high = static_cast<uint32_t>(seed >> 32);
#pragma unroll
    for (int round = 0; round < 10; ++round) {
        const uint32_t high_of_a = __umulhi(0xd2511f53u, a), low_of_a = 0xd2511f53u * a;
        const uint32_t high_of_c = __umulhi(0xcd9e8d57u, c), low_of_c = 0xcd9e8d57u * c;
        a = high_of_c ^ b ^ low;
        b = low_of_c;
        c = high_of_a ^ d ^ high;
        d = low_of_a;
        low += 0x9e3779b9u;
        high += 0xbb67ae85u;
    }
    return {{a, b, c, d}};
}

} // namespace gpu
