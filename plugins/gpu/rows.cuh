// Rows that a group of threads works on together, in one pass over memory where they fit into registers.
//
// A Row<T, N, V> is one row of T as one thread of the group sees it: every `threads`-th vector of N elements. With
// V > 0 its vectors, at most V, stay in registers as they came from memory; with V = 0 each pass reads them again, from
// a cache if the row is short enough.
#pragma once

#include <cstdint>
#include <type_traits>

#include "implementation.hpp"
#include "launch.hpp"
#include "numbers.cuh"
#include "reduce.cuh"
#include "tensors.hpp"

namespace gpu {

// Where a thread stands: its row, and its place in the group that has it.
struct Place {
    int64_t row;
    int thread;  // in the group
    int threads; // of the group
    bool exists; // the last block may have groups without a row; they take part in reductions
};

// `threads` is a power of two.
__device__ __forceinline__ Place place_of(int threads, int64_t rows) {
    const int shift = 31 - __clz(threads); // divisions by a number that is not a constant take long
    const int groups = static_cast<int>(blockDim.x) >> shift;
    const int group = static_cast<int>(threadIdx.x) >> shift;
    const int64_t row = static_cast<int64_t>(blockIdx.x) * groups + group;
    return {row, static_cast<int>(threadIdx.x) - (group << shift), threads, row < rows};
}

template<class T, int N, int V>
class Row {
    // Counts vectors. A row that is not in registers may have more than an int holds.
    using Index = std::conditional_t<(V > 0), int, int64_t>;

  public:
    // Reads what stays in registers. `n` is 0 for a row that does not exist.
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

    // body(element, values): the position in the row of the first of N elements, and they as f32.
    template<class Body>
    __device__ __forceinline__ void each(Body body) const {
        each_vector([&](int v, Index i) {
            float values[N];
            get(v, i, values);
            body(static_cast<int64_t>(i) * N, values);
        });
    }

    // body(element, values of this, values of the other).
    template<class U, class Body>
    __device__ __forceinline__ void each(const Row<U, N, V> &other, Body body) const {
        each_vector([&](int v, Index i) {
            float values[N], others[N];
            get(v, i, values);
            other.get(v, i, others);
            body(static_cast<int64_t>(i) * N, values, others);
        });
    }

    // body(v, i): the number of the thread's vector, and its place in the row.
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

    // Turns the signs of what is in registers.
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

    // Between two passes over vectors in registers: has the second one widen them again. The compiler would keep what
    // the first one widened, which takes twice the registers of 16-bit types and then does not fit.
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
    // Leaves the value as it is, in a register of which the compiler knows nothing.
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

// How rows of n elements are shared out.
struct RowPlan {
    int width;         // elements of a vector: 16 bytes, or 1 where rows are not aligned
    int held;          // vectors of a thread, 0 when they are read again
    int threads;       // of a group, a power of two
    int rows_of_block; // groups

    int block() const { return threads * rows_of_block; }
    Grid grid(int64_t rows, int arrays = 1) const {
        return {ceil_div(rows, rows_of_block), block(), static_cast<size_t>(arrays) * most_warps * sizeof(float)};
    }
};

// Threads of a row that nobody tuned. Few rows leave compute units idle: two vectors for each of many threads have the
// result soonest. Of many rows, few threads with much in registers: several rows are in work on a compute unit, and one
// is read while another is written. Long rows take eight vectors of each thread, short ones four.
inline int64_t default_row_threads(int64_t rows, int64_t vectors, int compute_units) {
    const int64_t soonest = std::min<int64_t>(next_power_of_two(ceil_div(vectors, 2)), 512);
    if (rows <= 8 * int64_t(compute_units) && rows * soonest <= 1024 * int64_t(compute_units)) {
        return soonest;
    }
    return std::clamp<int64_t>(next_power_of_two(ceil_div(vectors, vectors >= 1024 ? 8 : 4)), 1, 1024);
}

// `threads` of the group as asked for, made to fit: more where a thread would have more vectors than `most_held`, for
// which the kernel has code. That is 0 where no row is held.
inline RowPlan plan_rows(int64_t n, int width, int64_t threads, int64_t block, int most_held = 8) {
    RowPlan plan;
    plan.width = width;
    const int64_t vectors = std::max<int64_t>(n / width, 1);
    const int64_t enough = most_held == 0 || width == 1 ? 1 : next_power_of_two(ceil_div(vectors, most_held));
    const int64_t wanted = std::max(next_power_of_two(threads), enough <= 1024 ? enough : 1);
    plan.threads = static_cast<int>(std::min(std::clamp<int64_t>(wanted, 1, 1024), next_power_of_two(vectors)));
    const int64_t each = next_power_of_two(ceil_div(vectors, plan.threads));
    plan.held = width == 1 || each > most_held ? 0 : static_cast<int>(each);
    // A block is whole warps, so that all of a warp take part in its shuffles.
    const int64_t smallest = next_power_of_two(std::clamp<int64_t>(block, 64, 1024));
    plan.rows_of_block = static_cast<int>(std::max<int64_t>(1, smallest / plan.threads));
    return plan;
}

// Elements of a vector for rows of `n` elements of the given types, when all pointers are aligned; else 1.
template<class T>
int width_of(int64_t n, bool are_aligned) {
    return are_aligned && n % wide<T> == 0 ? wide<T> : 1;
}

// visit(Number<N>, Number<V>): the vector width and how many of them stay in registers.
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

// Kernels for rows wherever they are hold four vectors at most.
template<class Rows>
inline constexpr int most_held_of = std::is_same_v<Rows, DenseRows> ? 8 : 4;

// The same for kernels whose plan holds four vectors at most: one kernel for all that it holds.
template<class T, class Visitor>
opdock::Status visit_short_and_long(const RowPlan &plan, Visitor &&visit) {
    if (plan.width == 1) {
        return visit(Number<1>{}, Number<0>{});
    }
    return plan.held == 0 ? visit(Number<wide<T>>{}, Number<0>{}) : visit(Number<wide<T>>{}, Number<4>{});
}

// Whichever of the two is for such rows.
template<class T, class Rows, class Visitor>
opdock::Status visit_plan_of(const Rows & /*rows*/, const RowPlan &plan, Visitor &&visit) {
    if constexpr (std::is_same_v<Rows, DenseRows>) {
        return visit_plan<T>(plan, visit);
    } else {
        return visit_short_and_long<T>(plan, visit);
    }
}

} // namespace gpu
