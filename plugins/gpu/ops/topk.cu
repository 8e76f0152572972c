// topk: a block per row, or, for few rows, a cluster of blocks, each of which finds the largest k of its part.
//
// A block gathers and sorts the elements that are not less than a bound. With the maximum of each of at least 2 k
// groups of threads, the k-th largest maximum is such a bound, and few elements lie between it and the k-th largest
// element. If they are too many, or k is large, the bound is found digit by digit from the top, by counting in shared
// memory how many elements have each digit, until a block can sort the elements that are not less than the bound.
#include "choice.cuh"
#include "clusters.cuh"
#include "ops/ops.hpp"
#include "row_batches.cuh"

namespace gpu {
namespace {

constexpr int most_k = 2048;                      // also the number of keys that a block sorts
constexpr int digits = 256, copies = 16;          // of the counts per digit
constexpr int most_bounded = most_k / most_ranks; // largest k for which groups of threads give a bound

// The bits of order_of() that depend on a value of type T; the others follow from its sign.
template<class T>
inline constexpr uint32_t significant = sizeof(T) == 4            ? 0xffffffffu
                                        : std::is_same_v<T, bf16> ? 0xffff0000u
                                                                  : 0xffffe000u;

// An element and its place as one nonzero number, larger for elements that come sooner: NaN first, ties by place.
template<class T>
__device__ __forceinline__ uint64_t key_of(float element, int64_t place) {
    return static_cast<uint64_t>(order_of(element) & significant<T>) << 32 |
           (0xffffffffu - static_cast<uint32_t>(place));
}

__device__ __forceinline__ int64_t place_of(uint64_t key) {
    return static_cast<int64_t>(0xffffffffu - static_cast<uint32_t>(key));
}

// Calls body(index of the first, elements as f32) for a thread's elements of a part.
template<class T, class Body>
__device__ __forceinline__ void each_element(const T *row, Part part, Body body) {
    const Vectors<wide<T>, true> vectors(row + part.begin, part.n);
    const Place place = {0, thread_in_block(), threads_of_block(), true};
    each_in_batches(row + part.begin, vectors, place,
                    [&](int64_t i, const auto &elements) { body(part.begin + i, elements); });
}

// The known part of the smallest key that is taken.
struct Threshold {
    uint64_t key = 0, known = 0; // `known` masks the bits of `key` that are known
    uint32_t wanted;             // elements to take from those that begin with the known bits
    uint32_t above = 0;          // elements whose keys are larger in any case
    bool is_enough = false;      // a block can sort these and the ones that begin with the known bits
};

// Counts the digits of the elements that begin as the threshold does. Digits are often equal, and atomics
// on one address wait for each other, so neighbouring threads use different copies of the counts.
template<class T>
__device__ __forceinline__ void count_digits(const Threshold &threshold, int shift, const T *row, Part part,
                                             uint32_t *counts) {
    uint32_t *const copy = counts + thread_in_block() % copies;
    if (shift >= 32) {
        const auto begin = static_cast<uint32_t>(threshold.key >> 32),
                   known = static_cast<uint32_t>(threshold.known >> 32);
        each_element(row, part, [&](int64_t, const auto &elements) {
#pragma unroll
            for (const float element : elements) {
                const uint32_t order = order_of(element) & significant<T>;
                if (((order ^ begin) & known) == 0) {
                    atomicAdd(copy + (order >> (shift - 32) & (digits - 1)) * copies, 1u);
                }
            }
        });
        return;
    }
    each_element(row, part, [&](int64_t i, const auto &elements) {
#pragma unroll
        for (int e = 0; e < static_cast<int>(sizeof(elements) / sizeof(float)); ++e) {
            const uint64_t key = key_of<T>(elements[e], i + e);
            if (((key ^ threshold.key) & threshold.known) == 0) {
                atomicAdd(copy + (static_cast<uint32_t>(key) >> shift & (digits - 1)) * copies, 1u);
            }
        }
    });
}

// Finds the next digit. `counts` has digits * copies elements; all threads of the block (at least `digits`) call it.
template<class T>
__device__ __forceinline__ void narrow_down(Threshold &threshold, int shift, const T *row, Part part,
                                            uint32_t *counts) {
    __shared__ uint32_t sums[digits], chosen[3];
    const int thread = thread_in_block();
    for (int i = thread; i < digits * copies; i += threads_of_block()) {
        counts[i] = 0;
    }
    __syncthreads();
    count_digits(threshold, shift, row, part, counts);
    __syncthreads();
    uint32_t count = 0;
    if (thread < digits) {
        for (int c = 0; c < copies; ++c) {
            count += counts[thread * copies + (c + thread) % copies]; // avoids bank conflicts
        }
        sums[thread] = count;
    }
    __syncthreads();
    // sums[d]: the sum of the counts from d on.
    for (int step = 1; step < digits; step *= 2) {
        const uint32_t further = thread + step < digits ? sums[thread + step] : 0;
        __syncthreads();
        if (thread < digits) {
            sums[thread] += further;
        }
        __syncthreads();
    }
    if (thread < digits) {
        const uint32_t above = sums[thread] - count;
        if (above < threshold.wanted && sums[thread] >= threshold.wanted) {
            chosen[0] = static_cast<uint32_t>(thread);
            chosen[1] = above;
            chosen[2] = count;
        }
    }
    __syncthreads();
    threshold.key |= static_cast<uint64_t>(chosen[0]) << shift;
    threshold.known |= static_cast<uint64_t>(digits - 1) << shift;
    threshold.wanted -= chosen[1];
    threshold.above += chosen[1];
    threshold.is_enough = threshold.above + chosen[2] <= most_k;
    __syncthreads(); // until no thread uses the counts and `chosen` any more
}

// Sorts the largest first; `size` is a power of two.
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

// Returns a key such that the elements that are not less number at least k, and at most as many as a block sorts.
// `counts` has digits * copies elements.
template<class T>
__device__ __noinline__ uint64_t least_of(uint32_t k, const T *row, Part part, uint32_t *counts) {
    Threshold threshold;
    threshold.wanted = k;
    for (int shift = 56; shift >= 0 && !threshold.is_enough; shift -= 8) {
        if (shift >= 32 && ((significant<T>) >> (shift - 32) & (digits - 1)) == 0) {
            threshold.known |= static_cast<uint64_t>(digits - 1) << shift;
        } else if (shift < 32 && (part.begin + part.n - 1) >> shift == 0) {
            threshold.key |= static_cast<uint64_t>(digits - 1) << shift;
            threshold.known |= static_cast<uint64_t>(digits - 1) << shift;
        } else {
            narrow_down(threshold, shift, row, part, counts);
        }
    }
    return threshold.key;
}

// Returns a key that at least k elements of the part reach, for k <= most_bounded and at most half of the threads.
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
    __syncthreads(); // until no thread uses the keys any more
    return bound;
}

// Stores the keys that are at least `bound` in `keys`, as long as there is room, and returns their total number.
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

// Sorts the first `count` keys.
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
    __shared__ uint64_t keys[most_k]; // also used for counts
    static_assert(digits * copies * sizeof(uint32_t) <= sizeof(keys));
    const int rank = static_cast<int>(blockIdx.x) & (ranks - 1);
    const auto row_index = static_cast<int64_t>(blockIdx.x >> (31 - __clz(ranks)));
    const T *row = input + row_index * n;
    const Part part = part_of(row, n, rank, ranks);
    const bool has_bound = k <= most_bounded && 2 * k <= threads_of_block();
    int count = has_bound ? gather(bound_of(k, row, part, keys), row, part, keys) : most_k + 1;
    if (count > most_k) {
        count =
            gather(least_of(static_cast<uint32_t>(k), row, part, reinterpret_cast<uint32_t *>(keys)), row, part, keys);
    }
    sort_some(keys, count);
    if (ranks > 1) {
        wait_for_cluster();
        for (int i = k + thread_in_block(); i < ranks * k && rank == 0; i += threads_of_block()) {
            keys[i] = load_from_cluster(keys + i % k, i / k);
        }
        wait_for_cluster(); // no block still reads another one's memory
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
        return opdock::unsupported("k: this implementation takes at most 2048");
    }
    return row_size(*problem.input(0)) < INT32_MAX ? opdock::Status()
                                                   : opdock::unsupported("it needs rows of fewer than 2^31 elements");
}

// As many blocks as keep most of the device busy, each with more than k elements.
int blocks_for_row(const opdock::Problem &problem, int64_t rows, int64_t n, int64_t k) {
    int blocks = 1;
    while (has_clusters(problem) && 2 * blocks * k <= most_k && blocks < most_ranks &&
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
        // One batch of vectors per thread. With many blocks, they are small: one sorts while others read.
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
