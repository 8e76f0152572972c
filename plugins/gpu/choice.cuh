// The k largest of a row, in their order, by a group of threads (rows.cuh): equals by index, NaN before all others.
#pragma once

#include "rows.cuh"

namespace gpu {

// Larger for a larger value; NaN has the largest, the zeros have one.
__device__ __forceinline__ uint32_t order_of(float value) {
    const uint32_t bits = __float_as_uint(value + 0.0f);
    return value != value ? ~0u : (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
}
__device__ __forceinline__ float value_of(uint32_t order) {
    return __uint_as_float((order >> 31) != 0 ? order & 0x7fffffffu : ~order);
}

__device__ __forceinline__ uint64_t larger(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

// Every thread of a group, of 32 threads or more, gets the largest key. `shared` is of most_warps keys, and another one
// each time in turn.
__device__ __forceinline__ uint64_t largest_of_group(uint64_t key, int threads, uint64_t *shared) {
    const auto reduce_keys = [&](int lanes) {
#if !defined(__HIP__) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
        static_cast<void>(lanes); // a warp, or one in which keys repeat themselves
        const uint32_t high = __reduce_max_sync(0xffffffffu, static_cast<uint32_t>(key >> 32));
        const uint32_t mine = high == static_cast<uint32_t>(key >> 32) ? static_cast<uint32_t>(key) : 0;
        key = static_cast<uint64_t>(high) << 32 | __reduce_max_sync(0xffffffffu, mine);
#else
        for (int mask = lanes / 2; mask > 0; mask /= 2) {
            const auto low = __float_as_uint(shuffle_xor(__uint_as_float(static_cast<uint32_t>(key)), mask));
            const auto high = __float_as_uint(shuffle_xor(__uint_as_float(static_cast<uint32_t>(key >> 32)), mask));
            key = larger(key, static_cast<uint64_t>(high) << 32 | low);
        }
#endif
    };
    reduce_keys(threads < warp_size() ? threads : warp_size());
    if (threads > warp_size()) {
        const int warps = threads / warp_size();
        const int lane = thread_in_block() % warp_size(), warp = thread_in_block() / warp_size();
        if (lane == 0) {
            shared[warp] = key;
        }
        wait_for_block();
        key = shared[(warp & -warps) + (lane & (warps - 1))];
        reduce_keys(warps);
    }
    return key;
}

// take(j, value, i) in all threads of a group, for the j-th of the k largest of value_at(i), i < n. With V > 0 a thread
// has at most V of the values, which stay in registers. All threads of the block take part, with the same k.
template<int V, class ValueAt, class Take>
__device__ __forceinline__ void choose(int n, int k, const Place &place, ValueAt value_at, Take take) {
    __shared__ uint64_t shared[2 * most_warps];
    uint32_t held[V > 0 ? V : 1];
    if constexpr (V > 0) {
#pragma unroll
        for (int v = 0; v < V; ++v) {
            const int i = place.thread + v * place.threads;
            held[v] = i < n ? order_of(value_at(i)) : 0;
        }
    }
    uint64_t most = ~uint64_t(0); // keys above it were taken
    for (int j = 0; j < k; ++j) {
        uint64_t best = 0;
        const auto consider = [&](uint32_t order, int i) {
            const uint64_t key = static_cast<uint64_t>(order) << 32 | ~static_cast<uint32_t>(i);
            best = key <= most ? larger(best, key) : best;
        };
        if constexpr (V > 0) {
#pragma unroll
            for (int v = 0; v < V; ++v) {
                const int i = place.thread + v * place.threads;
                if (i < n) {
                    consider(held[v], i);
                }
            }
        } else {
            for (int i = place.thread; i < n; i += place.threads) {
                consider(order_of(value_at(i)), i);
            }
        }
        best = largest_of_group(best, place.threads, shared + j % 2 * most_warps);
        most = best - 1;
        if (n > 0) {
            take(j, value_of(static_cast<uint32_t>(best >> 32)), static_cast<int>(~static_cast<uint32_t>(best)));
        }
    }
}

// How rows of n are shared out: groups of threads that hold eight values each, where 1024 of them can.
struct ChoicePlan {
    static constexpr int held = 8;

    int threads; // of a group
    bool holds;

    explicit ChoicePlan(int64_t n)
        : threads(static_cast<int>(std::clamp<int64_t>(next_power_of_two(ceil_div(n, held)), 32, 1024))),
          holds(n <= int64_t(held) * threads) {}

    Grid grid(int64_t rows) const {
        const int groups = std::max(1, 128 / threads);
        return {ceil_div(rows, groups), groups * threads};
    }
};

// visit(Number<V>)
template<class Visitor>
opdock::Status visit_choice(const ChoicePlan &plan, Visitor &&visit) {
    return plan.holds ? visit(Number<ChoicePlan::held>{}) : visit(Number<0>{});
}

} // namespace gpu
