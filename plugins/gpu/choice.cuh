// Finds the k largest elements of a row, in order, by a group of threads (rows.cuh): ties by place, NaN first.
#pragma once

#include "rows.cuh"

namespace gpu {

// A number that grows with the value; NaN gets the largest one, and both zeros get the same.
__device__ __forceinline__ uint32_t order_of(float value) {
    const uint32_t bits = __float_as_uint(value + 0.0f);
    return value != value ? ~0u : (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
}
__device__ __forceinline__ float value_of(uint32_t order) {
    return __uint_as_float((order >> 31) != 0 ? order & 0x7fffffffu : ~order);
}

template<class Key>
__device__ __forceinline__ Key larger(Key a, Key b) {
    return a > b ? a : b;
}

// Every thread of a group of at least 32 threads gets the largest key. `shared` has room for
// most_warps keys; successive calls alternate between two such arrays.
template<class Key>
__device__ __forceinline__ Key largest_of_group(Key key, int threads, Key *shared) {
    const auto reduce_keys = [&](int lanes) {
#if !defined(__HIP__) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
        static_cast<void>(lanes); // a full warp, or one in which keys repeat
        if constexpr (sizeof(Key) == 4) {
            key = __reduce_max_sync(0xffffffffu, key);
        } else {
            const uint32_t high = __reduce_max_sync(0xffffffffu, static_cast<uint32_t>(key >> 32));
            const uint32_t mine = high == static_cast<uint32_t>(key >> 32) ? static_cast<uint32_t>(key) : 0;
            key = static_cast<uint64_t>(high) << 32 | __reduce_max_sync(0xffffffffu, mine);
        }
#else
        for (int mask = lanes / 2; mask > 0; mask /= 2) {
            Key other = __float_as_uint(shuffle_xor(__uint_as_float(static_cast<uint32_t>(key)), mask));
            if constexpr (sizeof(Key) == 8) {
                const auto high = static_cast<uint32_t>(key >> 32);
                other |= static_cast<Key>(__float_as_uint(shuffle_xor(__uint_as_float(high), mask))) << 32;
            }
            key = larger(key, other);
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

// A value and its place in a row as one nonzero number, larger for elements that come sooner.
struct WideKey {
    using type = uint64_t;
    static __device__ __forceinline__ type of(float x, int i) {
        return static_cast<uint64_t>(order_of(x)) << 32 | ~static_cast<uint32_t>(i);
    }
    static __device__ __forceinline__ float value(type key) { return value_of(static_cast<uint32_t>(key >> 32)); }
    static __device__ __forceinline__ int place(type key) { return static_cast<int>(~static_cast<uint32_t>(key)); }
};
// For f16 or bf16 values, whose orders have the other bits in common, in rows of at most `places` elements.
struct NarrowKey {
    using type = uint32_t;
    static constexpr uint32_t places = 1u << 13;
    static __device__ __forceinline__ type of(float x, int i) {
        return (order_of(x) & ~(places - 1)) | (places - 1 - static_cast<uint32_t>(i));
    }
    static __device__ __forceinline__ float value(type key) {
        return value_of((key >> 31) != 0 ? key & ~(places - 1) : key | (places - 1));
    }
    static __device__ __forceinline__ int place(type key) {
        return static_cast<int>(places - 1 - (key & (places - 1)));
    }
};

// The row of a group of threads: value_at(i), i < n. With V > 0 a
// thread has at most V of the values, and keeps them in registers.
template<class Key, int V, class ValueAt>
class Choices {
  public:
    __device__ __forceinline__ Choices(int n, const Place &place, ValueAt value_at)
        : n_(n), place_(place), value_at_(value_at) {
        if constexpr (V > 0) {
#pragma unroll
            for (int v = 0; v < V; ++v) {
                const int i = place.thread + v * place.threads;
                held_[v] = i < n ? Key::of(value_at(i), i) : 0;
            }
        }
    }

    // Calls take(j, value, i) in all threads of a group for the j-th of the k largest
    // elements. All threads of the block take part, with the same k.
    template<class Take>
    __device__ __forceinline__ void choose(int k, Take take) const {
        using Bits = typename Key::type;
        __shared__ Bits shared[2 * most_warps];
        Bits most = ~Bits(0); // larger keys were taken
        for (int j = 0; j < k; ++j) {
            Bits best = 0;
            each_key([&](Bits key) { best = key <= most ? larger(best, key) : best; });
            best = largest_of_group(best, place_.threads, shared + j % 2 * most_warps);
            most = best - 1;
            if (n_ > 0) {
                take(j, Key::value(best), Key::place(best));
            }
        }
    }

    // Calls body(value) for the thread's values.
    template<class Body>
    __device__ __forceinline__ void each(Body body) const {
        each_key([&](typename Key::type key) {
            if (key != 0) {
                body(Key::value(key));
            }
        });
    }

  private:
    template<class Body>
    __device__ __forceinline__ void each_key(Body body) const {
        if constexpr (V > 0) {
#pragma unroll
            for (int v = 0; v < V; ++v) {
                body(held_[v]);
            }
        } else {
            for (int i = place_.thread; i < n_; i += place_.threads) {
                body(Key::of(value_at_(i), i));
            }
        }
    }

    int n_;
    Place place_;
    ValueAt value_at_;
    typename Key::type held_[V > 0 ? V : 1];
};

// Distribution of rows of n elements: over groups of threads that hold eight values each, if 1024 such threads suffice.
struct ChoicePlan {
    static constexpr int held = 8;
    static_assert(held * 1024 <= NarrowKey::places);

    int threads; // per group
    bool holds;

    explicit ChoicePlan(int64_t n)
        : threads(static_cast<int>(std::clamp<int64_t>(next_power_of_two(ceil_div(n, held)), 32, 1024))),
          holds(n <= int64_t(held) * threads) {}

    Grid grid(int64_t rows) const {
        const int groups = std::max(1, 128 / threads);
        return {ceil_div(rows, groups), groups * threads};
    }
};

// Calls visit(Number<V>) for the V of the plan.
template<class Visitor>
opdock::Status visit_choice(const ChoicePlan &plan, Visitor &&visit) {
    return plan.holds ? visit(Number<ChoicePlan::held>{}) : visit(Number<0>{});
}

} // namespace gpu
