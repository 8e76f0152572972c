// topk: a block per row, or, of few rows, a cluster of blocks, each of which finds the largest k of its part.
//
// A block gathers the elements that are not less than a bound, and sorts them. Of the largest elements of groups of
// threads, of which there are at least twice as many as k, the k-th is such a bound, and few elements are between it
// and the k-th of all. Where they are too many, or k is large, the bound is the k-th of all: it is found digit by digit
// from the top, from counts in shared memory of how many elements have each digit.
#include "choice.cuh"
#include "clusters.cuh"
#include "ops/ops.hpp"
#include "row_batches.cuh"

namespace gpu {
namespace {

constexpr int most_k = 2048; // and keys that a block sorts
constexpr int digits = 256;
constexpr int most_bounded = most_k / most_ranks; // k up to which groups of threads have a bound

// The bits of an order that a T has; the others are the same for all of a sign.
template<class T>
inline constexpr uint32_t significant = sizeof(T) == 4            ? 0xffffffffu
                                        : std::is_same_v<T, bf16> ? 0xffff0000u
                                                                  : 0xffffe000u;

// An element and its place as one number, not 0, the larger the sooner it comes: NaN first, equals by place.
template<class T>
__device__ __forceinline__ uint64_t key_of(float element, int64_t place) {
    return static_cast<uint64_t>(order_of(element) & significant<T>) << 32 |
           (0xffffffffu - static_cast<uint32_t>(place));
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
__device__ __forceinline__ void narrow_down(Threshold &threshold, int shift, const T *row, Part part, uint32_t *counts,
                                            uint32_t *chosen) {
    const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
    uint32_t *const sums = counts + digits;
    if (thread < digits) {
        counts[thread] = 0;
    }
    __syncthreads();
    for (int64_t begin = 0; begin < part.n; begin += threads) {
        const int64_t i = part.begin + begin + thread;
        const bool exists = begin + thread < part.n;
        const uint64_t key = exists ? key_of<T>(to_f32(row[i]), i) : 0;
        const bool begins_so = exists && ((key ^ threshold.key) & threshold.known) == 0;
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

__device__ __forceinline__ uint64_t shuffled(uint64_t key, int mask) {
    const auto half = [&](uint64_t bits) {
        return static_cast<uint64_t>(__float_as_uint(shuffle_xor(__uint_as_float(static_cast<uint32_t>(bits)), mask)));
    };
    return half(key >> 32) << 32 | half(key);
}

// The k-th largest key of a part of a row.
template<class T>
__device__ __noinline__ uint64_t least_of(uint32_t k, const T *row, Part part) {
    __shared__ uint32_t counts[2 * digits], chosen[2];
    Threshold threshold;
    threshold.wanted = k;
    for (int shift = 56; shift >= 0 && !threshold.is_exact; shift -= 8) {
        if (shift >= 32 && ((significant<T>) >> (shift - 32) & (digits - 1)) == 0) {
            threshold.known |= static_cast<uint64_t>(digits - 1) << shift;
        } else if (shift < 32 && (part.begin + part.n - 1) >> shift == 0) {
            threshold.key |= static_cast<uint64_t>(digits - 1) << shift;
            threshold.known |= static_cast<uint64_t>(digits - 1) << shift;
        } else {
            narrow_down(threshold, shift, row, part, counts, chosen);
        }
    }
    return threshold.key;
}

// body(place in the row of the first, elements as f32) for what a thread has of a part.
template<class T, class Body>
__device__ __forceinline__ void each_element(const T *row, Part part, Body body) {
    const Vectors<wide<T>, true> vectors(row + part.begin, part.n);
    const Place place = {0, thread_in_block(), threads_of_block(), true};
    each_in_batches(row + part.begin, vectors, place,
                    [&](int64_t i, const auto &elements) { body(part.begin + i, elements); });
}

// A key that at least k elements of the part are not less than, of k <= most_bounded and half of the threads.
template<class T>
__device__ __forceinline__ uint64_t bound_of(int k, const T *row, Part part, uint64_t *keys) {
    const int thread = thread_in_block(), threads = threads_of_block();
    uint64_t best = 0;
    each_element(row, part, [&](int64_t i, const auto &elements) {
#pragma unroll
        for (int e = 0; e < static_cast<int>(sizeof(elements) / sizeof(float)); ++e) {
            best = larger(best, key_of<T>(elements[e], i + e));
        }
    });
    int groups = threads, lanes = 1;
    while (lanes < warp_size() && groups >= 4 * k) {
        best = larger(best, shuffled(best, lanes));
        groups /= 2;
        lanes *= 2;
    }
    if (thread % lanes == 0) {
        keys[thread / lanes] = best;
    }
    __syncthreads();
    sort_keys(keys, groups);
    const uint64_t bound = keys[k - 1];
    __syncthreads(); // until nobody needs the keys
    return bound;
}

// Puts the keys from `bound` on into `keys`, as long as there is room, and returns how many there are.
template<class T>
__device__ __forceinline__ int gather(uint64_t bound, const T *row, Part part, uint64_t *keys) {
    __shared__ int gathered;
    if (thread_in_block() == 0) {
        gathered = 0;
    }
    __syncthreads();
    each_element(row, part, [&](int64_t i, const auto &elements) {
#pragma unroll
        for (int e = 0; e < static_cast<int>(sizeof(elements) / sizeof(float)); ++e) {
            const uint64_t key = key_of<T>(elements[e], i + e);
            if (key >= bound) {
                const int at = atomicAdd(&gathered, 1);
                if (at < most_k) {
                    keys[at] = key;
                }
            }
        }
    });
    __syncthreads();
    const int count = gathered;
    __syncthreads();
    return count;
}

// Sorts the first `count` of them.
__device__ __forceinline__ void sort_some(uint64_t *keys, int count) {
    int size = 1;
    while (size < count) {
        size *= 2;
    }
    for (int i = count + thread_in_block(); i < size; i += threads_of_block()) {
        keys[i] = 0;
    }
    __syncthreads();
    sort_keys(keys, size);
}

template<class T>
__global__ void __launch_bounds__(1024)
    topk_kernel(int64_t n, int k, int ranks, const T *input, T *values, int64_t *indices) {
    wait_for_earlier_kernels();
    let_the_next_start(128);
    __shared__ uint64_t keys[most_k];
    const int rank = static_cast<int>(blockIdx.x) & (ranks - 1);
    const auto row_index = static_cast<int64_t>(blockIdx.x >> (31 - __clz(ranks)));
    const T *row = input + row_index * n;
    const Part part = part_of(row, n, rank, ranks);
    const bool has_bound = k <= most_bounded && 2 * k <= threads_of_block();
    int count = has_bound ? gather(bound_of(k, row, part, keys), row, part, keys) : most_k + 1;
    if (count > most_k) {
        count = gather(least_of(static_cast<uint32_t>(k), row, part), row, part, keys);
    }
    sort_some(keys, count);
    if (ranks > 1) {
        wait_for_cluster();
        for (int i = k + thread_in_block(); i < ranks * k && rank == 0; i += threads_of_block()) {
            keys[i] = load_from_cluster(keys + i % k, i / k);
        }
        wait_for_cluster(); // nobody reads what another block has had
        if (rank != 0) {
            return;
        }
        sort_some(keys, ranks * k);
    }
    for (int i = thread_in_block(); i < k; i += threads_of_block()) {
        const int64_t place = place_of(keys[i]);
        values[row_index * k + i] = row[place];
        indices[row_index * k + i] = place;
    }
}

opdock::Status supports(const opdock::Problem &problem) {
    if (problem.get_int(0) > most_k) {
        return opdock::unsupported("k: it takes at most 2048");
    }
    return row_size(*problem.input(0)) < INT32_MAX ? opdock::Status()
                                                   : opdock::unsupported("it needs rows of fewer than 2^31 elements");
}

// So many blocks that most of the device is at work, and each has more than k elements.
int blocks_for_row(const opdock::Problem &problem, int64_t rows, int64_t n, int64_t k) {
    int blocks = 1;
    while (has_clusters(problem) && k <= most_bounded && blocks < most_ranks &&
           rows * blocks <= compute_units(problem) && n >= int64_t(8192) * blocks) {
        blocks *= 2;
    }
    return blocks;
}

opdock::Status run(const opdock::Call &call) {
    const int64_t rows = row_count(*call.input(0)), n = row_size(*call.input(0));
    const auto k = static_cast<int>(call.get_int(0));
    if (k == 0) {
        return {};
    }
    const int ranks = blocks_for_row(call, rows, n, k);
    return visit_floating(call.input(0)->dtype, [&](auto t) {
        using T = typename decltype(t)::type;
        // A batch of vectors each. Blocks are small where there are many: one sorts while others read.
        const int64_t most = rows * ranks <= compute_units(call) ? 1024 : 512;
        const int64_t threads = next_power_of_two(ceil_div(n, int64_t(batch) * wide<T> * ranks));
        Grid grid = {rows * ranks, static_cast<int>(std::clamp<int64_t>(threads, digits, most))};
        grid.cluster = ranks;
        return launch(call, grid, topk_kernel<T>, n, k, ranks, static_cast<const T *>(input_data(call, 0)),
                      static_cast<T *>(output_data(call, 0)), static_cast<int64_t *>(output_data(call, 1)));
    });
}

} // namespace

void add_topk(Plugin &plugin) {
    plugin.add(opdock::ops::topk, any_float, {opdock::kernel<&run>, Knobs::none, opdock::supports<&supports>});
}

} // namespace gpu
