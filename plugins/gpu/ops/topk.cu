// topk: a block per row. It finds the smallest key that is among the largest k, digit by digit from the top, counting
// in shared memory how many elements have each digit; then it gathers those k, and sorts them.
#include "launch.hpp"
#include "numbers.cuh"
#include "ops/ops.hpp"
#include "tensors.hpp"

namespace gpu {
namespace {

constexpr int most_k = 2048;
constexpr int digits = 256;

// The bits of an order that a T has; the others are the same for all of a sign.
template<class T>
inline constexpr uint32_t significant = sizeof(T) == 4            ? 0xffffffffu
                                        : std::is_same_v<T, bf16> ? 0xffff0000u
                                                                  : 0xffffe000u;

// An element and its place as one number, the larger the sooner it comes: NaN first, equals by place.
template<class T>
__device__ __forceinline__ uint64_t key_of(T element, int64_t place) {
    const float value = to_f32(element) + 0.0f; // one zero
    const uint32_t bits = __float_as_uint(value);
    const uint32_t order = value != value ? 0xffffffffu : (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
    return static_cast<uint64_t>(order & significant<T>) << 32 | (0xffffffffu - static_cast<uint32_t>(place));
}

__device__ __forceinline__ int64_t place_of(uint64_t key) {
    return static_cast<int64_t>(0xffffffffu - static_cast<uint32_t>(key));
}

// Adds one to counts[digit] for each thread of a warp that `counts_it`; all of the warp call it. Digits are often
// alike, and atomics on one address wait for each other.
__device__ __forceinline__ void count_digit(uint32_t *counts, bool counts_it, int digit) {
#ifdef __HIP__
    if (counts_it) {
        atomicAdd(counts + digit, 1u);
    }
#else
    const unsigned alike = __match_any_sync(0xffffffffu, counts_it ? digit : digits);
    if (counts_it && static_cast<int>(threadIdx.x) % 32 == __ffs(static_cast<int>(alike)) - 1) {
        atomicAdd(counts + digit, static_cast<uint32_t>(__popc(alike)));
    }
#endif
}

// What is known of the smallest key that is taken.
struct Threshold {
    uint64_t key = 0, known = 0; // known: its bits that are
    uint32_t wanted;             // of the elements that begin so
    bool is_exact = false;       // all of them are
};

// The next digit. `counts` has two arrays of digits; all threads of the block call it.
template<class T>
__device__ __forceinline__ void narrow_down(Threshold &threshold, int shift, const T *row, int64_t n, uint32_t *counts,
                                            uint32_t *chosen) {
    const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
    uint32_t *const sums = counts + digits;
    if (thread < digits) {
        counts[thread] = 0;
    }
    __syncthreads();
    for (int64_t begin = 0; begin < n; begin += threads) {
        const int64_t i = begin + thread;
        const uint64_t key = i < n ? key_of(row[i], i) : 0;
        const bool begins_so = i < n && ((key ^ threshold.key) & threshold.known) == 0;
        count_digit(counts, begins_so, static_cast<int>(key >> shift) & (digits - 1));
    }
    __syncthreads();
    // sums[d]: of the counts from d on.
    if (thread < digits) {
        sums[thread] = counts[thread];
    }
    __syncthreads();
    for (int step = 1; step < digits; step *= 2) {
        const uint32_t further = thread + step < digits ? sums[thread + step] : 0;
        __syncthreads();
        if (thread < digits) {
            sums[thread] += further;
        }
        __syncthreads();
    }
    if (thread < digits) {
        const uint32_t above = sums[thread] - counts[thread];
        if (above < threshold.wanted && sums[thread] >= threshold.wanted) {
            chosen[0] = static_cast<uint32_t>(thread);
            chosen[1] = threshold.wanted - above;
        }
    }
    __syncthreads();
    threshold.key |= static_cast<uint64_t>(chosen[0]) << shift;
    threshold.known |= static_cast<uint64_t>(digits - 1) << shift;
    threshold.wanted = chosen[1];
    threshold.is_exact = counts[chosen[0]] == threshold.wanted;
    __syncthreads(); // until nobody needs the counts
}

// The largest first; `size` is a power of two.
__device__ __forceinline__ void sort_keys(uint64_t *keys, int size) {
    for (int run = 2; run <= size; run *= 2) {
        for (int step = run / 2; step > 0; step /= 2) {
            for (int t = static_cast<int>(threadIdx.x); t < size / 2; t += static_cast<int>(blockDim.x)) {
                const int i = t / step * 2 * step + t % step;
                const uint64_t a = keys[i], b = keys[i + step];
                if ((a < b) == ((i & run) == 0)) {
                    keys[i] = b;
                    keys[i + step] = a;
                }
            }
            __syncthreads();
        }
    }
}

// `size`: k rounded up to a power of two.
template<class T>
__global__ void __launch_bounds__(1024)
    topk_kernel(int64_t n, int k, int size, const T *input, T *values, int64_t *indices) {
    wait_for_earlier_kernels();
    extern __shared__ uint64_t keys[];
    __shared__ uint32_t counts[2 * digits], chosen[2], gathered;
    const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
    const T *row = input + static_cast<int64_t>(blockIdx.x) * n;
    Threshold threshold;
    threshold.wanted = static_cast<uint32_t>(k);
    for (int shift = 56; shift >= 0 && !threshold.is_exact; shift -= 8) {
        if (shift >= 32 && ((significant<T>) >> (shift - 32) & (digits - 1)) == 0) {
            threshold.known |= static_cast<uint64_t>(digits - 1) << shift;
        } else if (shift < 32 && (n - 1) >> shift == 0) {
            threshold.key |= static_cast<uint64_t>(digits - 1) << shift;
            threshold.known |= static_cast<uint64_t>(digits - 1) << shift;
        } else {
            narrow_down(threshold, shift, row, n, counts, chosen);
        }
    }
    if (thread == 0) {
        gathered = 0;
    }
    for (int i = k + thread; i < size; i += threads) {
        keys[i] = 0;
    }
    __syncthreads();
    for (int64_t i = thread; i < n; i += threads) {
        const uint64_t key = key_of(row[i], i);
        if (key >= threshold.key) {
            keys[atomicAdd(&gathered, 1u)] = key;
        }
    }
    __syncthreads();
    sort_keys(keys, size);
    for (int i = thread; i < k; i += threads) {
        const int64_t place = place_of(keys[i]);
        values[static_cast<int64_t>(blockIdx.x) * k + i] = row[place];
        indices[static_cast<int64_t>(blockIdx.x) * k + i] = place;
    }
}

opdock::Status supports(const opdock::Problem &problem) {
    if (problem.get_int(0) > most_k) {
        return opdock::unsupported("k: it takes at most 2048");
    }
    return row_size(*problem.input(0)) < INT32_MAX ? opdock::Status()
                                                   : opdock::unsupported("it needs rows of fewer than 2^31 elements");
}

opdock::Status run(const opdock::Call &call) {
    const int64_t n = row_size(*call.input(0));
    const auto k = static_cast<int>(call.get_int(0));
    if (k == 0) {
        return {};
    }
    const int size = static_cast<int>(next_power_of_two(k));
    const auto threads = static_cast<int>(std::clamp<int64_t>(next_power_of_two(n / 16 + 1), digits, 1024));
    return visit_floating(call.input(0)->dtype, [&](auto t) {
        using T = typename decltype(t)::type;
        return launch(call, {row_count(*call.input(0)), threads, static_cast<size_t>(size) * sizeof(uint64_t)},
                      topk_kernel<T>, n, k, size, static_cast<const T *>(input_data(call, 0)),
                      static_cast<T *>(output_data(call, 0)), static_cast<int64_t *>(output_data(call, 1)));
    });
}

} // namespace

void add_topk(Plugin &plugin) {
    plugin.add(opdock::ops::topk, any_float, {opdock::kernel<&run>, Knobs::none, opdock::supports<&supports>});
}

} // namespace gpu
