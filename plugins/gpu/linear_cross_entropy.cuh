// Losses of rows of f32 logits, and their gradients in place of the logits.
//
// Gradients are of type T, so that a row of them takes the first half of the row of logits, or all of it. They are only
// written once all logits stored there were read: for a row held in registers by several blocks, all of its logits.
#pragma once

#include "clusters.cuh"
#include "copy_async.cuh"
#include "cross_entropy.cuh"
#include "shared_memory.hpp"

namespace gpu {

template<class T>
struct LogitRows {
    CrossEntropy shape;
    int64_t step; // floats between rows; a multiple of 4
    float *logits;
    const T *bias; // added to the logits unless null
    const int64_t *target;
    const float *scale; // a factor of the gradients; null for 1
    float *loss;

    __device__ __forceinline__ float at(int64_t row, int64_t i) const {
        const float logit = logits[row * step + i];
        return bias == nullptr ? logit : logit + to_f32(bias[i]);
    }
    // Adds the bias to four logits, and replaces those past the last class by minus infinity.
    __device__ __forceinline__ void take(int64_t i, float (&x)[4]) const {
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            const bool exists = i + k < shape.classes;
            if (exists && bias != nullptr) {
                x[k] += to_f32(bias[i + k]);
            }
            x[k] = exists ? x[k] : -INFINITY;
        }
    }
    __device__ __forceinline__ void load(int64_t row, int64_t i, float (&x)[4]) const {
        gpu::load<4>(logits + row * step + i, x);
        take(i, x);
    }
    __device__ __forceinline__ void store(int64_t row, int64_t i, const float (&y)[4]) const {
        gpu::store<4>(reinterpret_cast<T *>(logits + row * step) + i, y);
    }
    __device__ __forceinline__ Gradient gradient(int64_t row, float wanted, const ExpSum &exponentials) const {
        return {shape,
                target[row],
                wanted,
                scale == nullptr ? 1.0f : *scale,
                Exponential(log2_e, exponentials.largest),
                exponentials.sum};
    }
    // Writes the gradients of logits x.
    __device__ __forceinline__ void replace(int64_t row, int64_t i, const float (&x)[4], const Gradient &gradient,
                                            int64_t of_target) const {
        float y[4];
        visit_range(gradient.exponential, [&](auto in_range) { gradient.of<decltype(in_range)::value != 0>(x, y); });
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            y[k] = i + k == of_target ? gradient.at_target : y[k];
        }
        store(row, i, y);
    }
    __device__ __forceinline__ void clear(int64_t row, int64_t first, int64_t stride) const {
        constexpr float zeros[4] = {};
        for (int64_t i = first; i < shape.classes; i += stride) {
            store(row, i, zeros);
        }
        if (first == 0) {
            loss[row] = 0.0f;
        }
    }
};

// --- rows held by a cluster ------------------------------------------------------------------------------------------

constexpr int held_logits = 8;     // vectors per thread
constexpr int most_of_cluster = 8; // blocks

// Combines the statistics of a cluster's blocks. `shared` holds
// statistics_arrays * (most_warps + most_of_cluster) floats.
template<bool is_in_range, int threads>
__device__ __forceinline__ Statistics gather(const CrossEntropy &shape, int64_t first, int64_t stride, int blocks,
                                             const float (&x)[held_logits][4], float *shared) {
    constexpr Relative relative = is_in_range ? Relative::to_offset : Relative::to_element;
    ExpSum mine;
    mine.add<is_in_range>(reinterpret_cast<const float(&)[held_logits * 4]>(*x), log2_e);
    float values[statistics_arrays] = {mine.largest, mine.sum, 0.0f};
    if (shape.smoothing != 0.0f) {
#pragma unroll
        for (int v = 0; v < held_logits; ++v) {
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                values[2] += first + v * stride + k < shape.classes ? x[v][k] : 0.0f;
            }
        }
    }
    reduce_exp_sum<relative>(values, log2_e, threads, shared);
    Statistics all;
    all.exponentials = {values[0], values[1]};
    all.sum = values[2];
    if (blocks == 1) {
        return all;
    }
    float *of_blocks = shared + statistics_arrays * most_warps;
    if (static_cast<int>(threadIdx.x) < blocks) {
        const int rank = static_cast<int>(blockIdx.x) % blocks;
#pragma unroll
        for (int a = 0; a < statistics_arrays; ++a) {
            store_in_cluster(of_blocks + a * most_of_cluster + rank, static_cast<int>(threadIdx.x), values[a]);
        }
    }
    wait_for_cluster();
    ExpSum &total = all.exponentials;
    for (int b = 0; b < blocks; ++b) {
        total.largest = Largest::of(total.largest, of_blocks[b]);
    }
    total.sum = all.sum = 0.0f;
    for (int b = 0; b < blocks; ++b) {
        const ExpSum one = {of_blocks[b], of_blocks[most_of_cluster + b]};
        total.sum += one.template relative_to<relative>(total.largest, log2_e);
        all.sum += of_blocks[2 * most_of_cluster + b];
    }
    return all;
}

// Resident clusters of `blocks` blocks, each with one row at a time. Logits are read once: into shared memory while the
// cluster works on the previous row, and from there into registers. A compute unit has two blocks of 512 threads: one
// proceeds while the other waits for the rest of its cluster.
template<class T, int threads>
__global__ void __launch_bounds__(threads, 1024 / threads) held_logits_kernel(LogitRows<T> rows, int blocks) {
    wait_for_earlier_kernels();
    using Four = Vector<float, 4>;
    extern __shared__ Four staged[];
    __shared__ float shared[2][2][statistics_arrays * (most_warps + most_of_cluster)];
    const int64_t clusters = gridDim.x / static_cast<unsigned>(blocks);
    const int64_t first = (static_cast<int64_t>(blockIdx.x) % blocks * threads + threadIdx.x) * 4;
    const int64_t stride = static_cast<int64_t>(blocks) * threads * 4;
    const CrossEntropy &shape = rows.shape;
    Four *const own = staged + threadIdx.x; // each thread only reads its own copies
    const auto fetch = [&](int64_t row) {
        if (row < shape.rows) {
#pragma unroll
            for (int v = 0; v < held_logits; ++v) {
                const int64_t i = first + v * stride;
                if (i < shape.classes) {
                    copy_async(own + v * threads, reinterpret_cast<const Four *>(rows.logits + row * rows.step + i));
                }
            }
        }
        end_group_of_copies();
    };
    int64_t row = static_cast<int64_t>(blockIdx.x) / blocks;
    fetch(row);
    if (blocks > 1) {
        wait_for_cluster(); // until the other blocks run and their shared memory can be written
    }
    for (int round = 0; row < shape.rows; ++round, row += clusters) {
        const int64_t target = rows.target[row];
        const float wanted = shape.is_class(target) ? rows.at(row, target) : NAN;
        float x[held_logits][4];
        wait_for_copies_but<0>();
#pragma unroll
        for (int v = 0; v < held_logits; ++v) {
            widen(own[v * threads], x[v]);
            rows.take(first + v * stride, x[v]);
        }
        fetch(row + clusters);
        if (target == shape.ignore_index) {
            rows.clear(row, first, stride);
            continue;
        }
        Statistics statistics = gather<true, threads>(shape, first, stride, blocks, x, shared[round & 1][0]);
        if (!Exponential(log2_e, statistics.exponentials.largest).in_range()) {
            statistics = gather<false, threads>(shape, first, stride, blocks, x, shared[round & 1][1]);
        }
        if (first == 0) {
            rows.loss[row] = statistics.loss(shape, wanted);
        }
        const Gradient gradient = rows.gradient(row, wanted, statistics.exponentials);
#pragma unroll
        for (int v = 0; v < held_logits; ++v) {
            const int64_t i = first + v * stride;
            if (i < shape.classes) {
                rows.replace(row, i, x[v], gradient, target);
            }
        }
    }
}

// --- longer rows -----------------------------------------------------------------------------------------------------

// One block per row, which it reads twice.
template<class T>
__global__ void __launch_bounds__(1024) long_logits_kernel(LogitRows<T> rows) {
    wait_for_earlier_kernels();
    __shared__ float shared[2 * statistics_arrays * most_warps];
    constexpr int threads = 1024, step = threads * 4, batch_of_4 = 4;
    const int64_t row = blockIdx.x, first = static_cast<int64_t>(threadIdx.x) * 4;
    const CrossEntropy &shape = rows.shape;
    const int64_t target = rows.target[row];
    if (target == shape.ignore_index) {
        rows.clear(row, first, step);
        return;
    }
    const float wanted = shape.is_class(target) ? rows.at(row, target) : NAN;
    const int64_t whole = shape.classes / 4 * 4;
    const Statistics statistics = Statistics::of(shape, threads, shared, [&](auto body) {
        for (int64_t i = first; i < whole; i += step) {
            float x[4];
            rows.load(row, i, x);
            body(i, x);
        }
        if (whole + static_cast<int>(threadIdx.x) < shape.classes) {
            const float x[1] = {rows.at(row, whole + threadIdx.x)};
            body(whole, x);
        }
    });
    if (first == 0) {
        rows.loss[row] = statistics.loss(shape, wanted);
    }
    const Gradient gradient = rows.gradient(row, wanted, statistics.exponentials);
    for (int64_t begin = first; begin - first < shape.classes; begin += batch_of_4 * step) {
        float x[batch_of_4][4] = {};
#pragma unroll
        for (int v = 0; v < batch_of_4; ++v) {
            if (begin + v * step < shape.classes) {
                rows.load(row, begin + v * step, x[v]);
            }
        }
        wait_for_block(); // the next writes overlap logits that other threads read
#pragma unroll
        for (int v = 0; v < batch_of_4; ++v) {
            if (begin + v * step < shape.classes) {
                rows.replace(row, begin + v * step, x[v], gradient, target);
            }
        }
    }
}

// Launches as many clusters as the device can run at a time.
template<class T, int threads>
opdock::Status replace_held(const opdock::Call &call, const LogitRows<T> &rows, int64_t blocks) {
    const auto kernel = held_logits_kernel<T, threads>;
    const size_t bytes = held_logits * threads * 16;
    const int of_unit = 1024 / threads;
    int64_t clusters = compute_units(call) * of_unit / blocks;
#ifndef __HIP__
    if (opdock::Status status = allow_all_shared_memory(call, kernel, 4096); !status.ok()) {
        return status;
    }
    if (blocks > 1) {
        cudaLaunchAttribute cluster = {};
        cluster.id = cudaLaunchAttributeClusterDimension;
        cluster.val.clusterDim = {static_cast<unsigned>(blocks), 1, 1};
        cudaLaunchConfig_t config = {};
        config.gridDim = dim3(static_cast<unsigned>(clusters * blocks));
        config.blockDim = dim3(threads);
        config.dynamicSmemBytes = bytes;
        config.attrs = &cluster;
        config.numAttrs = 1;
        int most = 0;
        const cudaError_t error = cudaOccupancyMaxActiveClusters(&most, kernel, &config);
        if (error != cudaSuccess) {
            return checked("querying how many clusters fit", error);
        }
        clusters = std::min<int64_t>(clusters, most);
    }
#endif
    const int64_t count = std::min(rows.shape.rows, std::max<int64_t>(clusters, 1)) * blocks;
    return launch(call, {count, threads, bytes, static_cast<int>(blocks)}, kernel, rows, static_cast<int>(blocks));
}

template<class T>
opdock::Status replace_logits(const opdock::Call &call, const LogitRows<T> &rows) {
    const int64_t of_block = held_logits * 4 * 512, classes = rows.shape.classes;
    const int64_t most = has_clusters(call) ? most_of_cluster : 1;
    if (classes <= most * of_block) {
        return replace_held<T, 512>(call, rows, next_power_of_two(ceil_div(classes, of_block)));
    }
    if (classes <= most * of_block * 2 && shared_memory(call) >= int64_t(132) << 10) {
        return replace_held<T, 1024>(call, rows, most);
    }
    return launch(call, {rows.shape.rows, 1024}, long_logits_kernel<T>, rows);
}

} // namespace gpu
