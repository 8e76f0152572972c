// Rows that a group of threads processes together, in one pass over memory if they fit into registers.
//
// A Row<T, N, V> is a row of T as one thread of the group sees it: every `threads`-th vector of N elements. With V > 0
// its vectors, at most V, stay in registers in the format of memory. With V = 0 each pass reads them again, from a
// cache if the row is short enough.
#pragma once

#include <cstdint>
#include <type_traits>

#include "implementation.hpp"
#include "launch.hpp"
#include "numbers.cuh"
#include "reduce.cuh"
#include "tensors.hpp"

namespace gpu {

// A thread's row, and its place in the group that has this row.
struct Place {
    int64_t row;
    int thread;  // in the group
    int threads; // per group
    bool exists; // the last block may have groups without a row; they take part in reductions
};

// `threads` is a power of two.
__device__ __forceinline__ Place place_of(int threads, int64_t rows) {
    const int shift = 31 - __clz(threads); // avoids slow divisions by numbers that are not constant
    const int groups = static_cast<int>(blockDim.x) >> shift;
    const int group = static_cast<int>(threadIdx.x) >> shift;
    const int64_t row = static_cast<int64_t>(blockIdx.x) * groups + group;
    return {row, static_cast<int>(threadIdx.x) - (group << shift), threads, row < rows};
}

template<class T, int N, int V>
class Row {
    // Counts vectors. A row that is not in registers may have more than an int can hold.
    using Index = std::conditional_t<(V > 0), int, int64_t>;

  public:
    // Reads the vectors that stay in registers. `n` is 0 for a row that does not exist.
    __device__ __forceinline__ Row(const T *row, int64_t n, const Place &place)
        : row_(row), vectors_(static_cast<Index>(n / N)), first_(place.thread), step_(place.threads) {
        if constexpr (V > 0) {
#pragma unroll
            for (int v = 0; v < V; ++v) {
                const int i = first_ + v * step_;
                if (i < vectors_) {
                    held_[v] = reinterpret_cast<const Vector<T, N> *>(row)[i];
                }
            }
        }
    }

    // Calls body(i, values) with the index of the first of N elements, and their values as f32.
    template<class Body>
    __device__ __forceinline__ void each(Body body) const {
        each_vector([&](int v, Index i) {
            float values[N];
            get(v, i, values);
            body(static_cast<int64_t>(i) * N, values);
        });
    }

    // Calls body(i, values of this row, values of the other row).
    template<class U, class Body>
    __device__ __forceinline__ void each(const Row<U, N, V> &other, Body body) const {
        each_vector([&](int v, Index i) {
            float values[N], others[N];
            get(v, i, values);
            other.get(v, i, others);
            body(static_cast<int64_t>(i) * N, values, others);
        });
    }

    // Calls body(v, i) with a vector's number in the thread, and its index in the row.
    template<class Body>
    __device__ __forceinline__ void each_vector(Body body) const {
        if constexpr (V > 0) {
#pragma unroll
            for (int v = 0; v < V; ++v) {
                const int i = first_ + v * step_;
                if (i < vectors_) {
                    body(v, i);
                }
            }
        } else {
            for (Index i = first_; i < vectors_; i += step_) {
                body(0, i);
            }
        }
    }

    __device__ __forceinline__ void get(int v, Index i, float (&values)[N]) const {
        if constexpr (V > 0) {
            widen(held_[v], values);
        } else {
            load<N>(row_ + static_cast<int64_t>(i) * N, values);
        }
    }

    // Replaces a vector that is in registers.
    __device__ __forceinline__ void set(int v, const float (&values)[N]) {
        static_assert(V > 0);
        held_[v] = narrow<T, N>(values);
    }

    // Negates the elements in registers.
    __device__ __forceinline__ void negate() {
        static_assert(V > 0);
        constexpr uint32_t signs = sizeof(T) == 2 ? 0x80008000u : 0x80000000u;
        static_assert(sizeof(T) * N % 4 == 0 && (sizeof(T) == 2 || sizeof(T) == 4));
#pragma unroll
        for (int v = 0; v < V; ++v) {
            auto *words = reinterpret_cast<uint32_t *>(held_[v].elements);
#pragma unroll
            for (int w = 0; w < static_cast<int>(sizeof(T)) * N / 4; ++w) {
                words[w] ^= signs;
            }
        }
    }

    // Placed between two passes over vectors in registers, so that the second one widens them again. The compiler would
    // keep the widened values of the first pass; for 16-bit types they take twice the registers and would not fit.
    __device__ __forceinline__ void stay_narrow() {
        if constexpr (V > 0 && sizeof(T) < 4 && sizeof(T) * N % 4 == 0) {
#pragma unroll
            for (int v = 0; v < V; ++v) {
                auto *words = reinterpret_cast<uint32_t *>(held_[v].elements);
#pragma unroll
                for (int w = 0; w < static_cast<int>(sizeof(T)) * N / 4; ++w) {
                    opaque(words[w]);
                }
            }
        }
    }

  private:
    // Leaves the value as it is, but opaque to the compiler.
    static __device__ __forceinline__ void opaque(uint32_t &word) {
#ifdef __HIP_DEVICE_COMPILE__
        asm volatile("" : "+v"(word));
#elif defined(__CUDA_ARCH__)
        asm volatile("" : "+r"(word));
#else
        static_cast<void>(word);
#endif
    }

    const T *row_;
    Index vectors_;
    int first_, step_;
    Vector<T, N> held_[V > 0 ? V : 1];
};

// Distribution of rows of n elements.
struct RowPlan {
    int width;         // elements per vector: 16 bytes, or 1 if rows are not aligned
    int held;          // vectors per thread; 0 if they are read again
    int threads;       // per group, a power of two
    int rows_of_block; // groups

    int block() const { return threads * rows_of_block; }
    Grid grid(int64_t rows, int arrays = 1) const {
        return {ceil_div(rows, rows_of_block), block(), static_cast<size_t>(arrays) * most_warps * sizeof(float)};
    }
};

// Default for the threads of a row. Few rows leave compute units idle: many threads with two vectors each finish first.
// For many rows, few threads with much data in registers are best: a compute unit has several rows in flight, and reads
// one while it writes another. Long rows have eight vectors per thread, short ones four.
inline int64_t default_row_threads(int64_t rows, int64_t vectors, int compute_units) {
    const int64_t soonest = std::min<int64_t>(next_power_of_two(ceil_div(vectors, 2)), 512);
    if (rows <= 8 * int64_t(compute_units) && rows * soonest <= 1024 * int64_t(compute_units)) {
        return soonest;
    }
    return std::clamp<int64_t>(next_power_of_two(ceil_div(vectors, vectors >= 1024 ? 8 : 4)), 1, 1024);
}

// Adapts the requested `threads` of a group: more if a thread would have more than `most_held` vectors, the limit of
// the kernel's code, which is 0 if no row is held.
inline RowPlan plan_rows(int64_t n, int width, int64_t threads, int64_t block, int most_held = 8) {
    RowPlan plan;
    plan.width = width;
    const int64_t vectors = std::max<int64_t>(n / width, 1);
    const int64_t enough = most_held == 0 || width == 1 ? 1 : next_power_of_two(ceil_div(vectors, most_held));
    const int64_t wanted = std::max(next_power_of_two(threads), enough <= 1024 ? enough : 1);
    plan.threads = static_cast<int>(std::min(std::clamp<int64_t>(wanted, 1, 1024), next_power_of_two(vectors)));
    const int64_t each = next_power_of_two(ceil_div(vectors, plan.threads));
    plan.held = width == 1 || each > most_held ? 0 : static_cast<int>(each);
    // A block consists of whole warps, so that all threads of a warp take part in its shuffles.
    const int64_t smallest = next_power_of_two(std::clamp<int64_t>(block, 64, 1024));
    plan.rows_of_block = static_cast<int>(std::max<int64_t>(1, smallest / plan.threads));
    return plan;
}

// Elements per vector for rows of `n` elements of the given types, if all pointers are aligned; otherwise 1.
template<class T>
int width_of(int64_t n, bool are_aligned) {
    return are_aligned && n % wide<T> == 0 ? wide<T> : 1;
}

// Calls visit(Number<N>, Number<V>) with the vector width and the number of vectors that stay in registers.
template<class T, class Visitor>
opdock::Status visit_plan(const RowPlan &plan, Visitor &&visit) {
    if (plan.width == 1) {
        return visit(Number<1>{}, Number<0>{});
    }
    switch (plan.held) {
    case 1:
        return visit(Number<wide<T>>{}, Number<1>{});
    case 2:
        return visit(Number<wide<T>>{}, Number<2>{});
    case 4:
        return visit(Number<wide<T>>{}, Number<4>{});
    case 8:
        return visit(Number<wide<T>>{}, Number<8>{});
    default:
        return visit(Number<wide<T>>{}, Number<0>{});
    }
}

// Kernels for rows with any strides hold at most four vectors.
template<class Rows>
inline constexpr int most_held_of = std::is_same_v<Rows, DenseRows> ? 8 : 4;

// The same for kernels whose plan holds at most four vectors: one kernel for all numbers of held vectors.
template<class T, class Visitor>
opdock::Status visit_short_and_long(const RowPlan &plan, Visitor &&visit) {
    if (plan.width == 1) {
        return visit(Number<1>{}, Number<0>{});
    }
    return plan.held == 0 ? visit(Number<wide<T>>{}, Number<0>{}) : visit(Number<wide<T>>{}, Number<4>{});
}

// Chooses between the two for the given kind of rows.
template<class T, class Rows, class Visitor>
opdock::Status visit_plan_of(const Rows & /*rows*/, const RowPlan &plan, Visitor &&visit) {
    if constexpr (std::is_same_v<Rows, DenseRows>) {
        return visit_plan<T>(plan, visit);
    } else {
        return visit_short_and_long<T>(plan, visit);
    }
}

} // namespace gpu
