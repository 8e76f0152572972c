// Sampling from a row of logits, as defined in opdock/ops/sampling.h:
// one block per row, or, for few rows, one cluster of blocks.
//
// Each filter keeps the logits down to a smallest one, and of those equal to it possibly only the first
// few by index. It is found digit by digit from the top, using counts of elements for top-k and sums of
// their weights for top-p. Integer sums do not depend on the order. Then the row is divided by index into
// ever smaller stretches, down to the vector in which the sum of the weights passes the random number.
#pragma once

#include "choice.cuh"
#include "clusters.cuh"
#include "philox.cuh"

namespace gpu {

constexpr int sampling_threads = 1024;
constexpr int sampling_digits = 256;
constexpr int sampling_copies = 16; // of the sums for each digit, so that threads of a warp seldom collide
constexpr int stretches = 32;       // each with as many threads

// --- order and weights of logits -------------------------------------------------------------------------------------

// A number that grows with the logit; 0 for NaN. For 16-bit types only the upper 16 bits matter.
template<class T>
__device__ __forceinline__ uint32_t place_in_order(T logit) {
    uint32_t bits;
    if constexpr (sizeof(T) == 4) {
        bits = __float_as_uint(logit);
    } else {
        bits = static_cast<uint32_t>(*reinterpret_cast<const uint16_t *>(&logit)) << 16;
    }
    bits = bits == 0x80000000u ? 0 : bits; // both zeros are equal
    const float value = to_f32(logit);
    constexpr uint32_t counts = sizeof(T) == 4 ? 0xffffffffu : 0xffff0000u;
    return value != value ? 0 : (bits >> 31) != 0 ? ~bits & counts : bits | 0x80000000u;
}

template<class T>
__device__ __forceinline__ float logit_at(uint32_t order) {
    const uint32_t bits = (order >> 31) != 0 ? order & 0x7fffffffu : ~order;
    if constexpr (sizeof(T) == 4) {
        return __uint_as_float(bits);
    } else {
        const auto half = static_cast<uint16_t>(bits >> 16);
        return to_f32(*reinterpret_cast<const T *>(&half));
    }
}

struct Weights {
    uint32_t largest; // of the row, as place_in_order()
    float logit;      // the value of `largest`

    template<class T>
    __device__ __forceinline__ uint64_t of(uint32_t order) const {
        if (order == largest) {
            return uint64_t(1) << 40;
        }
        const float below = logit - logit_at<T>(order);
        if (!(below < 32.0f)) { // also true for NaN
            return 0;
        }
        const uint64_t y = uint64_t(3098164009u) * static_cast<uint32_t>(below * 134217728.0f);
        const auto f = static_cast<uint32_t>(y >> 26);
        uint32_t a = __umulhi(f, 4035806u);
        a = __umulhi(f, 39487045u - a);
        a = __umulhi(f, 237459814u - a);
        a = __umulhi(f, 1031553340u - a);
        a = __umulhi(f, 2977028413u - a);
        return ((uint64_t(1) << 32) - a) << 8 >> (y >> 58);
    }
};

// Shuffles among the 32 threads of a stretch, which may be half a warp.
__device__ __forceinline__ uint32_t shuffle_up(uint32_t value, int by) {
#ifdef __HIP__
    return __shfl_up(value, static_cast<unsigned>(by), stretches);
#else
    return __shfl_up_sync(0xffffffffu, value, static_cast<unsigned>(by));
#endif
}
__device__ __forceinline__ uint32_t shuffle_from(uint32_t value, int lane) {
#ifdef __HIP__
    return __shfl(value, lane, stretches);
#else
    return __shfl_sync(0xffffffffu, value, lane);
#endif
}
template<class Shuffle>
__device__ __forceinline__ uint64_t shuffled(uint64_t value, Shuffle shuffle) {
    const uint32_t high = shuffle(static_cast<uint32_t>(value >> 32));
    return static_cast<uint64_t>(high) << 32 | shuffle(static_cast<uint32_t>(value));
}
// Inclusive prefix sum over the threads of a stretch.
__device__ __forceinline__ uint64_t sum_up_to(uint64_t value) {
    const int lane = static_cast<int>(threadIdx.x) % stretches;
#pragma unroll
    for (int by = 1; by < stretches; by *= 2) {
        const uint64_t before = shuffled(value, [=](uint32_t half) { return shuffle_up(half, by); });
        value += lane >= by ? before : 0;
    }
    return value;
}
__device__ __forceinline__ uint64_t value_from(uint64_t value, int lane) {
    return shuffled(value, [=](uint32_t half) { return shuffle_from(half, lane); });
}

// A logit is kept if the weights before it sum to less than this.
__device__ __forceinline__ uint64_t least_sum(float p, uint64_t sum) {
    const auto share = static_cast<uint64_t>(p > 0.0f ? floor(static_cast<double>(p) * 4294967296.0) : 0.0);
    const uint64_t least = share * (sum >> 32) + ((share * (sum & 0xffffffffu) + 0xffffffffu) >> 32);
    return least > 0 ? least : 1;
}

// --- a row -----------------------------------------------------------------------------------------------------------

// The aligned vectors of a row, beginning with the one that has its first element.
template<class T>
struct SampledRow {
    const T *row;
    int n, vectors;
    int ahead; // elements of the first vector before the row

    __device__ __forceinline__ SampledRow(const T *begin, int size) : row(begin), n(size) {
        ahead = static_cast<int>(reinterpret_cast<uintptr_t>(begin) % 16 / sizeof(T));
        vectors = (n + ahead + wide<T> - 1) / wide<T>;
    }

    // Elements outside the row are NaN.
    __device__ __forceinline__ Vector<T, wide<T>> vector(int v) const {
        const int first = v * wide<T> - ahead;
        Vector<T, wide<T>> read;
        if (first >= 0 && first + wide<T> <= n) {
            read = *reinterpret_cast<const Vector<T, wide<T>> *>(row + first);
        } else {
            for (int e = 0; e < wide<T>; ++e) {
                const bool exists = first + e >= 0 && first + e < n;
                read.elements[e] = exists ? row[first + e] : from_f32<T>(NAN);
            }
        }
        return read;
    }

    // Calls body(place in the order) for the elements of every step-th vector from `first` on, prefetching one vector.
    // Not more: code that runs only once has to be small.
    template<class Body>
    __device__ __forceinline__ void each(int first, int end, int step, Body body) const {
        Vector<T, wide<T>> next;
        if (first < end) {
            next = vector(first);
        }
#pragma unroll 1
        for (int v = first; v < end; v += step) {
            const Vector<T, wide<T>> here = next;
            if (v + step < end) {
                next = vector(v + step);
            }
#pragma unroll
            for (int e = 0; e < wide<T>; ++e) {
                body(place_in_order(here.elements[e]));
            }
        }
    }
};

// The elements that are kept: those above `order`, and of those equal to it the first `ties` by index.
struct Limit {
    uint32_t order = 0;
    uint64_t ties = 0;
};

struct SamplingShared {
    uint32_t low[sampling_digits * sampling_copies], high[sampling_digits * sampling_copies];
    uint64_t sums[2][sampling_digits]; // of this block, for the others of the cluster; alternating
    uint64_t totals[sampling_digits];  // over all blocks: from this digit on
    uint64_t masses[stretches], ties[stretches];
    uint64_t keys[most_warps];
    uint64_t found[2];
};

// The blocks of a row, each with a part of its vectors. Functions that wait are called by all threads of all blocks.
template<class T>
class Sampler {
  public:
    __device__ __forceinline__ Sampler(SamplingShared &shared, SampledRow<T> row, int ranks)
        : shared_(shared), row_(row), ranks_(ranks), rank_(static_cast<int>(blockIdx.x) % ranks) {
        const int part = (row.vectors + ranks - 1) / ranks;
        begin_ = min(rank_ * part, row.vectors);
        end_ = min(begin_ + part, row.vectors);
    }

    // The drawn index in the threads that find it; -2 in all others.
    __device__ __forceinline__ int draw(int k, float p, uint64_t number) {
        uint32_t most = 0;
        row_.each(begin_ + thread(), end_, sampling_threads,
                  [&](uint32_t order) { most = order > most ? order : most; });
        weights_.largest = largest_of_all(most);
        weights_.logit = logit_at<T>(weights_.largest);
        if (!(weights_.largest > place_in_order(from_f32<T>(-INFINITY)))) {
            return rank_ == 0 && thread() == 0 ? -1 : -2;
        }
        filter(k > 0 && k < row_.n ? static_cast<uint64_t>(k) : 0, p);
        return find(number);
    }

  private:
    // The digits of an order that are known.
    struct Prefix {
        uint32_t order = 0, known = 0;

        __device__ __forceinline__ bool begins(uint32_t other) const { return ((other ^ order) & known) == 0; }
    };

    static constexpr int last_shift = sizeof(T) == 4 ? 0 : 16;

    static __device__ __forceinline__ int thread() { return static_cast<int>(threadIdx.x); }
    static __device__ __forceinline__ int lane() { return thread() % stretches; }

    // After threads wrote to sums[turn_]: waits for all blocks; then calls combine(value) with each block's sum.
    __device__ __forceinline__ void wait_for_all() { ranks_ > 1 ? wait_for_cluster() : __syncthreads(); }
    template<class Combine>
    __device__ __forceinline__ void each_of_all(int i, Combine combine) const {
        if (ranks_ == 1) {
            combine(shared_.sums[turn_][i]);
            return;
        }
        for (int rank = 0; rank < ranks_; ++rank) {
            combine(load_from_cluster(&shared_.sums[turn_][i], rank));
        }
    }
    // All reads of sums[turn_] are done before it is written again, two turns later.
    __device__ __forceinline__ void take_turns() { turn_ ^= 1; }

    __device__ __forceinline__ uint32_t largest_of_all(uint32_t mine) {
        const uint64_t largest = largest_of_group(static_cast<uint64_t>(mine), sampling_threads, shared_.keys);
        if (thread() == 0) {
            shared_.sums[turn_][0] = largest;
        }
        wait_for_all();
        uint64_t most = 0;
        each_of_all(0, [&](uint64_t value) { most = larger(most, value); });
        take_turns();
        return static_cast<uint32_t>(most);
    }

    // totals[digit]: over the elements above the limit that begin with the prefix and continue
    // with that digit or a larger one, the sum of their weights, or their count.
    __device__ __forceinline__ void collect(Prefix prefix, int shift, bool by_weight) {
        for (int i = thread(); i < sampling_digits * sampling_copies; i += sampling_threads) {
            shared_.low[i] = 0;
            shared_.high[i] = 0;
        }
        __syncthreads();
        const int copy = thread() % sampling_copies;
        row_.each(begin_ + thread(), end_, sampling_threads, [&](uint32_t order) {
            if (order > limit_.order && prefix.begins(order)) {
                const uint64_t amount = by_weight ? weights_.template of<T>(order) : 1;
                const int at = static_cast<int>(order >> shift & (sampling_digits - 1)) * sampling_copies + copy;
                const auto low = static_cast<uint32_t>(amount);
                const uint32_t before = low == 0 ? 0 : atomicAdd(shared_.low + at, low);
                const uint32_t high = static_cast<uint32_t>(amount >> 32) + (before + low < before ? 1u : 0u);
                if (high != 0) {
                    atomicAdd(shared_.high + at, high);
                }
            }
        });
        __syncthreads();
        uint64_t total = 0;
        if (thread() < sampling_digits) {
            for (int c = 0; c < sampling_copies; ++c) {
                const int at = thread() * sampling_copies + (c + thread()) % sampling_copies; // avoids bank conflicts
                total += static_cast<uint64_t>(shared_.high[at]) << 32 | shared_.low[at];
            }
            shared_.sums[turn_][thread()] = total;
        }
        wait_for_all();
        if (thread() < sampling_digits) {
            total = 0;
            each_of_all(thread(), [&](uint64_t sum) { total += sum; });
            shared_.totals[thread()] = total;
        }
        take_turns();
        for (int step = 1; step < sampling_digits; step *= 2) {
            __syncthreads();
            const uint64_t further = thread() + step < sampling_digits ? shared_.totals[thread() + step] : 0;
            __syncthreads();
            if (thread() < sampling_digits) {
                shared_.totals[thread()] += further;
            }
        }
        __syncthreads();
    }

    // Appends the digit at which the sum from the top reaches `needed`, and subtracts the sum
    // above that digit. Such a digit exists, since totals[0] >= needed.
    __device__ __forceinline__ void add_digit(Prefix &prefix, int shift, uint64_t &needed) {
        if (thread() < sampling_digits) {
            const uint64_t above = thread() + 1 < sampling_digits ? shared_.totals[thread() + 1] : 0;
            if (above < needed && shared_.totals[thread()] >= needed) {
                shared_.found[0] = static_cast<uint64_t>(thread());
                shared_.found[1] = above;
            }
        }
        __syncthreads();
        prefix.order |= static_cast<uint32_t>(shared_.found[0]) << shift;
        prefix.known |= static_cast<uint32_t>(sampling_digits - 1) << shift;
        needed -= shared_.found[1];
        __syncthreads();
    }

    // Applies both filters. Each may keep everything: top-k if there is no k, top-p if p >= 1.
    __device__ __forceinline__ void filter(uint64_t k, float p) {
#pragma unroll 1
        for (int by_weight = 0; by_weight < 2; ++by_weight) {
            if (by_weight != 0 ? !(p < 1.0f) : k == 0) {
                continue;
            }
            Prefix prefix;
            uint64_t needed = k;
#pragma unroll 1
            for (int shift = 24; shift >= last_shift; shift -= 8) {
                collect(prefix, shift, by_weight != 0);
                if (shift == 24) {
                    const uint64_t above = shared_.totals[0];
                    if (by_weight == 0 && above < k) { // the others are NaN
                        break;
                    }
                    if (by_weight != 0 && stays_at_limit(above, p, needed)) {
                        return;
                    }
                }
                add_digit(prefix, shift, needed);
            }
            if (prefix.known != 0) {
                const uint64_t weight = by_weight != 0 ? weights_.template of<T>(prefix.order) : 1;
                limit_ = {prefix.order, (needed + weight - 1) / weight};
            }
        }
    }

    // True if the top-p filter keeps everything above the limit, whose weights sum to `above`, and only drops ties. If
    // false, `needed` is the sum that it needs.
    __device__ __forceinline__ bool stays_at_limit(uint64_t above, float p, uint64_t &needed) {
        const uint64_t of_tie = weights_.template of<T>(limit_.order);
        needed = least_sum(p, above + limit_.ties * of_tie);
        if (needed <= above) {
            return false;
        }
        limit_.ties = (needed - above + of_tie - 1) / of_tie;
        return true;
    }

    // The number of ties that are kept in a stretch, which has `there` of them, after `before` earlier ones.
    __device__ __forceinline__ uint64_t ties_left(uint64_t before, uint64_t there) const {
        const uint64_t left = limit_.ties > before ? limit_.ties - before : 0;
        return there < left ? there : left;
    }

    // Sums over each of the stretches, of `length` vectors each, of the vectors [begin, end).
    __device__ __forceinline__ void sum_stretches(int begin, int end, int length) {
        const int stretch = thread() / stretches;
        const int first = min(begin + stretch * length, end);
        uint64_t mass = 0, ties = 0;
        row_.each(first + lane(), min(first + length, end), stretches, [&](uint32_t order) {
            mass += order > limit_.order ? weights_.template of<T>(order) : 0;
            ties += order == limit_.order && order != 0 ? 1 : 0;
        });
        mass = sum_up_to(mass);
        ties = sum_up_to(ties);
        __syncthreads(); // until the previous sums were read
        if (lane() == stretches - 1) {
            shared_.masses[stretch] = mass;
            shared_.ties[stretch] = ties;
        }
        __syncthreads();
    }

    // The threads of a stretch have successive parts, each with the weight above the limit and
    // the number of ties in it. Returns the first part at which the sum exceeds the target;
    // subtracts the sum before it from the target, and adds the ties before it to ties_before.
    __device__ __forceinline__ int part_of(uint64_t mass, uint64_t ties, uint64_t &target,
                                           uint64_t &ties_before) const {
        const uint64_t before = ties_before + sum_up_to(ties) - ties;
        const uint64_t own = mass + ties_left(before, ties) * weights_.template of<T>(limit_.order);
        const uint64_t sum = sum_up_to(own);
        const uint64_t parts_before = value_from(sum_up_to(sum <= target ? 1 : 0), stretches - 1);
        const int part = static_cast<int>(parts_before);
        target -= value_from(sum - own, part);
        ties_before = value_from(before, part);
        return part;
    }

    // Finds the kept element at which the sum of weights exceeds the fraction `number` / 2^64 of the total.
    __device__ __forceinline__ int find(uint64_t number) {
        int begin = begin_, end = end_;
        uint64_t target = 0, ties = 0;
#pragma unroll 1
        for (bool is_first = true; is_first || end - begin > 1; is_first = false) {
            const int length = max((end - begin + stretches - 1) / stretches, 1);
            sum_stretches(begin, end, length);
            if (is_first && choose_rank(number, target, ties) != rank_) {
                return -2;
            }
            const int stretch = part_of(shared_.masses[lane()], shared_.ties[lane()], target, ties);
            begin += stretch * length;
            end = min(begin + length, end);
        }
        const Vector<T, wide<T>> read = row_.vector(begin);
        uint32_t order = 0;
#pragma unroll
        for (int e = 0; e < wide<T>; ++e) {
            order = e == lane() ? place_in_order(read.elements[e]) : order;
        }
        const int element = part_of(order > limit_.order ? weights_.template of<T>(order) : 0,
                                    order == limit_.order && order != 0 ? 1 : 0, target, ties);
        return thread() == 0 ? begin * wide<T> - row_.ahead + element : -2;
    }

    // After the first sums: finds the block that has the element, and the target and ties relative to that block.
    __device__ __forceinline__ int choose_rank(uint64_t number, uint64_t &target, uint64_t &ties) {
        const uint64_t mass = value_from(sum_up_to(shared_.masses[lane()]), stretches - 1);
        const uint64_t ties_here = value_from(sum_up_to(shared_.ties[lane()]), stretches - 1);
        if (thread() == 0) {
            shared_.sums[turn_][0] = mass;
            shared_.sums[turn_][1] = ties_here;
        }
        wait_for_all();
        uint64_t of_rank[2] = {0, 0}, all[2] = {0, 0}; // thread i has the sums of block i
        for (int of = 0; of < 2; ++of) {
            int rank = 0;
            each_of_all(of, [&](uint64_t sum) {
                all[of] += sum;
                of_rank[of] = rank++ == lane() ? sum : of_rank[of];
            });
        }
        const uint64_t of_tie = weights_.template of<T>(limit_.order);
        target = __umul64hi(number, all[0] + ties_left(0, all[1]) * of_tie);
        return part_of(of_rank[0], of_rank[1], target, ties);
    }

    SamplingShared &shared_;
    const SampledRow<T> row_;
    const int ranks_, rank_;
    int begin_, end_; // vectors of this block
    int turn_ = 0;
    Weights weights_ = {};
    Limit limit_;
};

} // namespace gpu
