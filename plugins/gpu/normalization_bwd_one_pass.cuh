// Backward normalizations with gradients of weight and bias, for rows that fit a block or a cluster of two. Resident
// blocks loop over rows. Each thread keeps the sums of its columns in registers, while the rows after the current one
// are copied to shared memory, so that every tensor is read once.
#pragma once

#include <algorithm>

#include "clusters.cuh"
#include "columns.cuh"
#include "copy_async.cuh"
#include "normalization_bwd.cuh"
#include "shared_memory.hpp"

namespace gpu {

// Waits for all stages but the most recent `open` (at most two).
__device__ __forceinline__ void wait_for_stages(int open) {
    if (open == 0) {
        wait_for_copies_but<0>();
    } else if (open == 1) {
        wait_for_copies_but<1>();
    } else {
        wait_for_copies_but<2>();
    }
}

// Limit for the threads of a block, which leaves each of them 128 registers.
inline constexpr int most_one_pass_threads = 512;

// A thread's vectors of a row are 32 apart, so that their addresses are one pointer plus constants.
inline constexpr int apart = 32;

// Location of a thread's weights: f32 in registers, where access costs no instructions, if there is room. 4096 f32 rows
// of 16384, with a cluster for each, took 234 us that way, and 332 us with weights read through a cache.
enum class Weights { registers, shared_memory, cache };

template<Norm norm, int V, int N>
inline constexpr Weights weights_in = V *N *(norm == Norm::layer ? 3 : 2) <= 64 ? Weights::registers
                                      : norm == Norm::layer                     ? Weights::shared_memory
                                                                                : Weights::cache;

// Distribution of rows over blocks.
struct OnePassShape {
    int threads; // per row in a block, at least 32
    int stages;  // rows in shared memory at a time, one to three
    int blocks;  // blocks per row: one, or a cluster of two
};

// A thread's columns and rows: at most V vectors of every step-th row.
template<int V, int N>
struct OnePassThread {
    int threads, groups, group, lane; // of the thread's row in its block; its lane in a warp
    int vectors;                      // from the thread's first one to the end of the block's part of a row
    int64_t column;
    int64_t part, all_parts;

    __device__ __forceinline__ OnePassThread(const OnePassShape &shape, int64_t n)
        : threads(shape.threads), groups(static_cast<int>(blockDim.x) / threads),
          group(static_cast<int>(threadIdx.x) / threads) {
        const int thread = static_cast<int>(threadIdx.x) - group * threads;
        lane = thread % apart;
        // Each block of a cluster of two has half of the row's vectors.
        const int rank = shape.blocks == 1 ? 0 : static_cast<int>(blockIdx.x) % 2;
        const int all_vectors = static_cast<int>(n / N);
        const int of_first = shape.blocks == 1 ? all_vectors : (all_vectors + 1) / 2;
        const int first_vector = (thread - lane) * V + lane;
        vectors = (rank == 0 ? of_first : all_vectors - of_first) - first_vector;
        column = (static_cast<int64_t>(rank) * of_first + first_vector) * N;
        part = shape.blocks == 1 ? blockIdx.x : blockIdx.x / 2;
        all_parts = shape.blocks == 1 ? gridDim.x : gridDim.x / 2;
    }
    __device__ __forceinline__ bool has(int v) const { return v * apart < vectors; }
    __device__ __forceinline__ int warp_slot() const { return (static_cast<int>(threadIdx.x) - lane) * V; }
};

// Starts to copy a thread's vectors of a row into a stage: the gradient, the input and, for rms_add, the added tensor.
template<Norm norm, int V, int N, class T, class U>
__device__ __forceinline__ void fetch_row(const BwdArguments<T, U> &a, const OnePassThread<V, N> &mine, int64_t row,
                                          Vector<T, N> *to) {
    using Slot = Vector<T, N>;
    if (row < a.rows) {
        const int64_t at = row * a.n + mine.column;
        const auto *grad = reinterpret_cast<const Slot *>(a.grad + at);
        const auto *input = reinterpret_cast<const Slot *>(a.input + at);
#pragma unroll
        for (int v = 0; v < V; ++v) {
            if (mine.has(v)) {
                copy_async(to + v * apart, grad + v * apart);
                copy_async(to + (V + v) * apart, input + v * apart);
                if constexpr (norm == Norm::rms_add) {
                    copy_async(to + (2 * V + v) * apart, reinterpret_cast<const Slot *>(a.add + at) + v * apart);
                }
            }
        }
    }
    end_group_of_copies();
}

// The weights of a thread's columns, in f32.
template<Weights are_in, int V, int N, class T, class U>
struct OnePassWeights {
    const BwdArguments<T, U> &a;
    const OnePassThread<V, N> &mine;
    float *shared;
    float held[are_in == Weights::registers ? V : 1][N] = {};

    __device__ __forceinline__ OnePassWeights(const BwdArguments<T, U> &arguments, const OnePassThread<V, N> &thread,
                                              float *of_block)
        : a(arguments), mine(thread), shared(of_block + mine.warp_slot() * N + mine.lane * 4) {
        if constexpr (are_in != Weights::cache) {
#pragma unroll
            for (int v = 0; v < V; ++v) {
                float gamma[N] = {};
                if (mine.has(v)) {
                    load_gamma(a.weight, mine.column + v * apart * N, a.zero_centered, gamma);
                }
#pragma unroll
                for (int k = 0; k < N; ++k) {
                    if constexpr (are_in == Weights::registers) {
                        held[v][k] = gamma[k];
                    } else {
                        shared[(v * N + k / 4 * 4) * apart + k % 4] = gamma[k];
                    }
                }
            }
        }
    }
    __device__ __forceinline__ void get(int v, float (&gamma)[N]) const {
        if constexpr (are_in == Weights::cache) {
            load_gamma(a.weight, mine.column + v * apart * N, a.zero_centered, gamma);
        } else if constexpr (are_in == Weights::registers) {
#pragma unroll
            for (int k = 0; k < N; ++k) {
                gamma[k] = held[v][k];
            }
        } else {
            float(&quarters)[N / 4][4] = reinterpret_cast<float(&)[N / 4][4]>(gamma);
#pragma unroll
            for (int q = 0; q < N / 4; ++q) {
                load<4>(shared + (v * N + q * 4) * apart, quarters[q]);
            }
        }
    }
};

// The sums of a thread's columns.
template<Norm norm, int V, int N>
struct OnePassSums {
    float of_weight[V][N] = {}, of_bias[norm == Norm::layer ? V : 1][N] = {};
};

// Adds a row to the column sums, and to `sums`: d times the (centered) input, and d.
template<Norm norm, int V, int N, class T, class OfColumns>
__device__ __forceinline__ void take_in_row(const Vector<T, N> *stage, const OnePassThread<V, N> &mine,
                                            const OfColumns &weights, float mean, float factor, float (&sums)[2],
                                            OnePassSums<norm, V, N> &columns) {
#pragma unroll
    for (int v = 0; v < V; ++v) {
        if (mine.has(v)) {
            float grad[N], x[N], gamma[N];
            widen(stage[v * apart], grad);
            widen(stage[(V + v) * apart], x);
            weights.get(v, gamma);
            add_to_sums<norm>(grad, x, gamma, mean, sums);
            add_to_columns<norm>(grad, x, mean, factor, columns.of_weight[v],
                                 columns.of_bias[norm == Norm::layer ? v : 0]);
        }
    }
}

// Writes the gradient of a row, beginning at `to`.
template<Norm norm, int V, int N, class T, class OfColumns>
__device__ __forceinline__ void write_row(const Vector<T, N> *stage, const OnePassThread<V, N> &mine,
                                          const OfColumns &weights, const RowCoefficients &coefficients, T *to) {
#pragma unroll
    for (int v = 0; v < V; ++v) {
        if (mine.has(v)) {
            float grad[N], x[N], gamma[N], result[N];
            widen(stage[v * apart], grad);
            widen(stage[(V + v) * apart], x);
            weights.get(v, gamma);
            input_gradient<norm>(grad, x, gamma, coefficients, result);
            if constexpr (norm == Norm::rms_add) {
                float add[N];
                widen(stage[(2 * V + v) * apart], add);
#pragma unroll
                for (int k = 0; k < N; ++k) {
                    result[k] += add[k];
                }
            }
            store<N>(to + v * apart * N, result);
        }
    }
}

// Merges the groups of a block into one part, in the stages' memory: per group, each array of a stage has room for one
// row, and two arrays have at least the bytes of the group's sums.
template<Norm norm, int V, int N>
__device__ __forceinline__ void put_parts(const OnePassSums<norm, V, N> &columns, const OnePassThread<V, N> &mine,
                                          int64_t n, float *sums_of_groups, float *parts) {
#pragma unroll
    for (int kind = 0; kind < (norm == Norm::layer ? 2 : 1); ++kind) {
        float *const of_kind = parts + (kind * mine.all_parts + mine.part) * n;
        float *const to = mine.groups == 1 ? of_kind : sums_of_groups + mine.group * n;
        __syncthreads();
#pragma unroll
        for (int v = 0; v < V; ++v) {
            if (mine.has(v)) {
                store<N>(to + mine.column + v * apart * N,
                         kind == 0 ? columns.of_weight[v] : columns.of_bias[norm == Norm::layer ? v : 0]);
            }
        }
        __syncthreads();
        if (mine.groups > 1) {
            for (int64_t c = threadIdx.x; c < n; c += blockDim.x) {
                float sum = sums_of_groups[c];
                for (int g = 1; g < mine.groups; ++g) {
                    sum += sums_of_groups[g * n + c];
                }
                of_kind[c] = sum;
            }
        }
    }
}

// Each thread has its own slot of a stage for each of its vectors, which no other thread reads:
// threads only wait for each other in reductions. A block's (or cluster's) sums are at parts[its
// number]: first those of the weight for all parts, then, for layer, those of the bias.
template<class T, class U, int V, Norm norm>
__global__ void __launch_bounds__(most_one_pass_threads)
    one_pass_kernel(BwdArguments<T, U> a, OnePassShape shape, float *parts) {
    wait_for_earlier_kernels();
    constexpr int N = wide<T>;
    constexpr int arrays = norm == Norm::rms_add ? 3 : 2;
    constexpr int kinds = norm == Norm::layer ? 2 : 1;
    using Slot = Vector<T, N>;
    extern __shared__ __align__(16) unsigned char memory[];
    __shared__ float shared_of_rounds[2][kinds * most_warps]; // alternating
    const OnePassThread<V, N> mine(shape, a.n);
    const int64_t step = mine.all_parts * mine.groups;
    int64_t row = mine.part * mine.groups + mine.group;
    // The slots of a warp are adjacent, and so are those of an array.
    const int stage_slots = arrays * V * static_cast<int>(blockDim.x);
    Slot *const first_stage = reinterpret_cast<Slot *>(memory) + mine.warp_slot() * arrays + mine.lane;
    Slot *const last_stage = first_stage + (shape.stages - 1) * stage_slots;
    for (int i = 0; i + 1 < shape.stages; ++i) {
        fetch_row<norm>(a, mine, row + i * step, first_stage + i * stage_slots);
    }
    const OnePassWeights<weights_in<norm, V, N>, V, N, T, U> weights(
        a, mine, reinterpret_cast<float *>(reinterpret_cast<Slot *>(memory) + shape.stages * stage_slots));
    OnePassSums<norm, V, N> columns;
    const float inverse = 1.0f / static_cast<float>(a.n);
    // Loaded a row ahead, since the thread would wait for a value loaded when it is needed.
    float next_factor = row < a.rows ? a.rsigma[row] : 0.0f;
    float next_mean = norm == Norm::layer && row < a.rows ? a.mu[row] : 0.0f;
    if (shape.blocks != 1) {
        wait_for_cluster(); // until the other block runs and its shared memory can be written
    }
    Slot *stage = first_stage;
    const int rounds = static_cast<int>((a.rows + step - 1) / step);
    for (int round = 0; round < rounds; ++round, row += step) {
        fetch_row<norm>(a, mine, row + (shape.stages - 1) * step,
                        stage == first_stage ? last_stage : stage - stage_slots);
        wait_for_stages(shape.stages - 1);
        const float factor = next_factor, mean = next_mean;
        if (row + step < a.rows) {
            next_factor = a.rsigma[row + step];
            next_mean = norm == Norm::layer ? a.mu[row + step] : 0.0f;
        }
        float sums[2] = {0.0f, 0.0f};
        if (row < a.rows) {
            take_in_row(stage, mine, weights, mean, factor, sums, columns);
        }
        float(&used_sums)[kinds] = reinterpret_cast<float(&)[kinds]>(sums);
        if (shape.blocks == 1) {
            reduce<Sum>(used_sums, mine.threads, shared_of_rounds[round & 1]);
        } else {
            reduce_in_cluster<Sum>(used_sums, shared_of_rounds[round & 1]);
        }
        const RowCoefficients coefficients = coefficients_of(sums, mean, factor, inverse);
        if (row < a.rows) {
            write_row<norm>(stage, mine, weights, coefficients, a.grad_input + row * a.n + mine.column);
        }
        stage = stage == last_stage ? first_stage : stage + stage_slots;
    }
    wait_for_copies_but<0>();
    put_parts(columns, mine, a.n, reinterpret_cast<float *>(memory), parts);
}

// Plan for rows that one pass can process; held is 0 if it cannot.
struct OnePass {
    int held, groups;
    OnePassShape shape;
    int64_t parts;
    size_t shared_bytes;

    Grid grid() const { return {parts * shape.blocks, shape.threads * groups, shared_bytes, shape.blocks}; }
};

// Upper bound for the bytes of static shared memory.
constexpr int64_t of_reductions = 1024;

// Requirements: at least `threads` in each of a row's `blocks`, with at most `most_held` vectors each, of 16 bytes per
// array and stage; `per_unit` blocks on a compute unit; room for `least_stages`.
struct OnePassWish {
    int64_t threads, most_held, per_unit, least_stages;
    int blocks;
};
inline OnePass plan_one_pass(const opdock::Problem &problem, int64_t rows, int64_t vectors, int width, Norm norm,
                             const OnePassWish &wish) {
    OnePass plan = {};
    const int64_t of_block = ceil_div(vectors, wish.blocks);
    const int64_t enough = next_power_of_two(ceil_div(of_block, wish.most_held));
    const int64_t threads = std::max({std::min(wish.threads, next_power_of_two(of_block)), enough, int64_t(apart)});
    const int64_t held = next_power_of_two(ceil_div(of_block, threads));
    const int64_t units = compute_units(problem);
    int64_t groups = wish.blocks == 1 ? std::max<int64_t>(1, most_one_pass_threads / threads) : 1;
    while (groups * threads > 128 && groups > 1 && ceil_div(rows, groups) < units) {
        groups /= 2; // few rows: spreads them over all units
    }
    const bool are_weights_shared = norm == Norm::layer && 3 * held * width > 64;
    const int64_t weights = are_weights_shared ? held * width * 4 * threads * groups : 0;
    const int64_t stage = (norm == Norm::rms_add ? 3 : 2) * held * 16 * threads * groups;
    const int64_t available = shared_memory(problem) - of_reductions;
    if (threads > most_one_pass_threads || weights + wish.least_stages * stage > available) {
        return plan;
    }
    const int64_t per_unit = std::clamp<int64_t>(wish.per_unit, 1, available / (weights + stage));
    plan.held = static_cast<int>(held);
    plan.groups = static_cast<int>(groups);
    plan.shape.threads = static_cast<int>(threads);
    plan.shape.stages = static_cast<int>(std::clamp<int64_t>((available / per_unit - weights) / stage, 1, 3));
    plan.shape.blocks = wish.blocks;
    plan.shared_bytes = static_cast<size_t>(stage * plan.shape.stages + weights);
    const int64_t at_once = std::max<int64_t>(1, units * per_unit / wish.blocks);
    plan.parts = std::max<int64_t>(1, std::min(ceil_div(rows, groups), at_once));
    return plan;
}

// Prefers one block per row with room to prefetch the next row, then two such blocks, then one or two without that
// room. Not more: an H200 runs 30 clusters of four at a time, on 120 of its 132 units; this differs among devices.
inline OnePass plan_one_pass(const opdock::Problem &problem, int64_t rows, int64_t n, int64_t bytes, Norm norm) {
    const int width = static_cast<int>(16 / bytes);
    if (n % width != 0 || n == 0) {
        return {};
    }
    const auto knobs = ColumnKnobs::of(problem);
    const int64_t threads = std::min<int64_t>(next_power_of_two(std::max(knobs.threads, 1)), most_one_pass_threads);
    const int64_t held = norm == Norm::layer ? 16 / width : 4; // the thread's sums and weights then fit registers
    for (const int64_t stages : {2, 1}) {
        for (const int blocks : {1, 2}) {
            for (const int64_t most_held : {held, std::min<int64_t>(2 * held, 8)}) {
                const OnePassWish wish = {threads, most_held, blocks == 1 ? knobs.blocks_per_unit : 1, stages, blocks};
                const OnePass plan = plan_one_pass(problem, rows, n / width, width, norm, wish);
                if (plan.held != 0 && (blocks == 1 || has_clusters(problem))) {
                    return plan;
                }
            }
        }
    }
    return {};
}

template<Norm norm, class T, class U>
opdock::Status in_one_pass(const opdock::Call &call, const BwdArguments<T, U> &arguments, const OnePass &plan,
                           float *parts) {
    const auto start = [&](auto V) -> opdock::Status {
        const auto kernel = one_pass_kernel<T, U, decltype(V)::value, norm>;
        if (plan.shared_bytes + of_reductions > size_t(48) << 10) {
            opdock::Status status = allow_all_shared_memory(call, kernel, of_reductions);
            if (!status.ok()) {
                return status;
            }
        }
        return launch(call, plan.grid(), kernel, arguments, plan.shape, parts);
    };
    switch (plan.held) {
    case 1:
        return start(Number<1>{});
    case 2:
        return start(Number<2>{});
    case 4:
        return start(Number<4>{});
    default:
        if constexpr (norm != Norm::layer || sizeof(T) == 4) { // otherwise twice the sums, and no plan has so many
            return start(Number<8>{});
        }
        return opdock::unsupported("no plan has so many vectors per thread");
    }
}

} // namespace gpu
