// fused_cross_entropy: the loss, and its gradient, which overwrites the logits.
#include "copy_async.cuh"
#include "cross_entropy.cuh"
#include "ops/ops.hpp"
#include "shared_memory.hpp"

namespace gpu {
namespace {

// Threads of a block in a cluster: the device has registers for one such block per multiprocessor.
constexpr int cluster_threads = 512;
template<class T>
inline constexpr int held_in_cluster = 64 / wide<T>; // vectors per thread
template<int V, bool peels>
inline constexpr bool is_for_clusters = V > 0 && peels;

// For rows that fit into the registers of a block, or of a cluster's
// blocks. With V = 0: for rows that do not fit, or that have any alignment.
template<class T, int V, bool peels>
__global__ void __launch_bounds__((is_for_clusters<V, peels> ? cluster_threads : 1024))
    fused_kernel(CrossEntropy shape, int threads, int of_cluster, T *logits, const int64_t *targets, float *losses) {
    wait_for_earlier_kernels();
    let_the_next_start(128);
    constexpr int N = wide<T>;
    constexpr bool in_cluster = is_for_clusters<V, peels>;
    const int ranks = in_cluster ? of_cluster : 1;
    extern __shared__ float shared[];
    const auto share = Share<T, N, peels>::of(logits, shape.rows, shape.classes, threads, ranks);
    const Place &place = share.place;
    T *part = logits + share.begin;
    // Few rows are read before their targets are known; many rows, only if they are not ignored.
    int64_t target = shape.ignore_index;
    if constexpr (in_cluster) {
        arrive_at_cluster();
    } else if (place.exists) {
        target = targets[place.row];
    }
    const Vectors<N, peels> vectors(part, in_cluster || target != shape.ignore_index ? share.part.n : 0);
    Row<T, N, V> x(part + vectors.begin, V > 0 ? vectors.end - vectors.begin : 0, place);
    if constexpr (in_cluster) {
        target = targets[place.row];
    }
    const auto each = [&](auto body) {
        if constexpr (V > 0) {
            vectors.each_single(place, [&](int64_t i) {
                const float values[1] = {to_f32(part[i])};
                body(i, values);
            });
            x.each([&](int64_t i, const float(&values)[N]) { body(vectors.begin + i, values); });
        } else {
            each_in_batches(part, vectors, place, body);
        }
    };
    Statistics statistics = Statistics::of(shape, threads, shared, each);
    x.stay_narrow();
    const bool ignored = target == shape.ignore_index;
    const bool last_word = has_target(shape, share, target);
    const bool writes_target = last_word && !ignored && shape.is_class(target);
    T *row = logits + place.row * shape.classes;
    const float wanted = writes_target ? to_f32(row[target]) : NAN;
    if constexpr (in_cluster) {
        wait_for_arrivals();
        statistics.reduce_over_cluster(share.rank, ranks, shared + 2 * statistics_arrays * most_warps);
    }
    if (last_word) {
        losses[place.row] = ignored ? 0.0f : statistics.loss(shape, wanted);
    }
    if (ignored) {
        clear(part, share.vectors, place);
        return;
    }
    const Gradient gradient(shape, target, wanted, shape.scale, Exponential(log2_e, statistics.exponentials.largest),
                            statistics.exponentials.sum);
    visit_range(gradient.exponential, [&](auto is_in_range) {
        each([&](int64_t i, const auto &values) {
            constexpr int count = sizeof(values) / sizeof(float);
            float y[count];
            gradient.of<decltype(is_in_range)::value != 0>(values, y);
            store<count>(part + i, y);
        });
    });
    if (writes_target) {
        row[target] = from_f32<T>(gradient.at_target);
    }
}

// Rows that fused_long_kernel leaves: one block, with all threads, for each.
template<class T>
__global__ void __launch_bounds__(1024)
    fused_left_kernel(CrossEntropy shape, const uint8_t *left, T *logits, const int64_t *targets, float *losses) {
    wait_for_earlier_kernels();
    constexpr int N = wide<T>;
    __shared__ float shared[2 * statistics_arrays * most_warps];
    for (int64_t r = blockIdx.x; r < shape.rows; r += gridDim.x) {
        if (left[r] == 0) {
            continue;
        }
        const Place place = {r, static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x), true};
        T *row = logits + r * shape.classes;
        const int64_t target = targets[r];
        if (target == shape.ignore_index) {
            clear<N>(row, 0, shape.classes, place);
            if (place.thread == 0) {
                losses[r] = 0.0f;
            }
            continue;
        }
        const bool last_word = has_target(shape, Vectors<N, false>(row, shape.classes), place, target);
        const float wanted = last_word && shape.is_class(target) ? to_f32(row[target]) : NAN;
        wait_for_block(); // until all threads have left the previous row's reductions
        const Statistics statistics = Statistics::of(
            shape, place.threads, shared, [&](auto body) { each_in_batches<N>(row, shape.classes, place, body); });
        if (last_word) {
            losses[r] = statistics.loss(shape, wanted);
        }
        const Gradient gradient(shape, target, wanted, shape.scale,
                                Exponential(log2_e, statistics.exponentials.largest), statistics.exponentials.sum);
        each_in_batches<N>(row, shape.classes, place, [&](int64_t i, const float(&x)[N]) {
            float y[N];
            gradient.of<false>(x, y);
            store<N>(row + i, y);
        });
        if (last_word && shape.is_class(target)) {
            row[target] = from_f32<T>(gradient.at_target);
        }
    }
}

// Resident blocks, each with one row at a time. Between reading the logits and writing their gradient,
// they keep on chip what fits: some vectors per thread in registers, then `staged` vectors in shared
// memory. As the gradient is written, the next row replaces it on chip. The rest is read twice; its
// gradient is written first, while the logits are still in the cache that all blocks share.
//
// Rows that are ignored, and those whose logits are out of the range of Exponential, stay unchanged
// and are marked in `left`.
inline constexpr int long_held = 2;  // more would leave too few registers for the loops
inline constexpr int long_batch = 2; // registers have no room for more
inline constexpr int statistics_floats = 2 * statistics_arrays * most_warps; // rows alternate

// Writes a row's gradients, unless the row is left.
template<class T>
struct GradientWriter {
    const Gradient &gradient;
    T *row;
    bool leaves;

    __device__ __forceinline__ void operator()(int64_t i, const float (&x)[wide<T>]) const {
        if (!leaves) {
            float y[wide<T>];
            gradient.of<true>(x, y);
            store<wide<T>>(row + i, y);
        }
    }
};

// Each thread has vectors v * threads + thread: in registers for v < long_held, in shared memory for the next `staged`
// values of v. No thread reads what another thread has copied or will overwrite.
template<class T>
struct OnChip {
    static constexpr int N = wide<T>;
    static constexpr int groups = 4; // of copies; one group is processed while the next ones are copied
    Vector<T, N> *stage;
    int threads, first_staged;
    int64_t held_elements, elements; // of a row: in registers; in registers and shared memory
    int mine, group;                 // vectors in shared memory: the thread's (the last may be missing), and per group

    __device__ __forceinline__ OnChip(const CrossEntropy &shape, int staged, float *shared)
        : threads(static_cast<int>(blockDim.x)) {
        const int thread = static_cast<int>(threadIdx.x);
        stage = reinterpret_cast<Vector<T, N> *>(shared + statistics_floats) + thread;
        first_staged = long_held * threads + thread;
        held_elements = min(shape.classes, static_cast<int64_t>(long_held) * threads * N);
        elements = min(shape.classes, static_cast<int64_t>(long_held + staged) * threads * N);
        mine = (static_cast<int>(elements / N) - first_staged + threads - 1) / threads;
        group = (staged + groups - 1) / groups;
    }

    // Calls body(at) for group g; `at` is an offset from the thread's first staged vector, in shared and global memory.
    template<class Body>
    __device__ __forceinline__ void each_staged(int g, Body body) const {
        const int end = min((g + 1) * group, mine) * threads;
        for (int at = g * group * threads; at < end; at += threads) {
            body(at);
        }
    }
    __device__ __forceinline__ const Vector<T, N> *source(const T *row) const {
        return reinterpret_cast<const Vector<T, N> *>(row) + first_staged;
    }
    // Calls body(at) for all staged vectors, as they arrive.
    template<class Body>
    __device__ __forceinline__ void take_in(Body body) const {
        wait_for_copies_but<3>();
        each_staged(0, body);
        wait_for_copies_but<2>();
        each_staged(1, body);
        wait_for_copies_but<1>();
        each_staged(2, body);
        wait_for_copies_but<0>();
        each_staged(3, body);
    }
    // Writes the gradients of the staged vectors, and starts to copy the next row, unless it is null, to their place.
    __device__ __forceinline__ void write_and_fetch(const GradientWriter<T> &write, const T *next) const {
#pragma unroll
        for (int g = 0; g < groups; ++g) {
            each_staged(g, [&](int at) {
                float x[N];
                widen(stage[at], x);
                if (next != nullptr) {
                    copy_async(stage + at, source(next) + at);
                }
                write(static_cast<int64_t>(first_staged + at) * N, x);
            });
            end_group_of_copies();
        }
    }
};

template<class T>
__global__ void __launch_bounds__(1024)
    fused_long_kernel(CrossEntropy shape, int staged, T *logits, const int64_t *targets, float *losses, uint8_t *left) {
    wait_for_earlier_kernels();
    constexpr int N = wide<T>;
    extern __shared__ float shared[];
    const OnChip<T> chip(shape, staged, shared);
    Place place = {static_cast<int64_t>(blockIdx.x), static_cast<int>(threadIdx.x), chip.threads, true};
    T *row = logits + place.row * shape.classes;
#pragma unroll
    for (int g = 0; g < chip.groups; ++g) {
        chip.each_staged(g, [&](int at) { copy_async(chip.stage + at, chip.source(row) + at); });
        end_group_of_copies();
    }
    Row<T, N, long_held> held(row, chip.held_elements, place);
    for (int round = 0; place.row < shape.rows; ++round) {
        Statistics statistics;
        const auto add = [&](int64_t, const float(&x)[N]) { statistics.add<true>(shape, x); };
        chip.take_in([&](int at) {
            float x[N];
            widen(chip.stage[at], x);
            add(0, x);
        });
        held.each(add);
        held.stay_narrow();
        each_in_batches<N, long_batch>(row + chip.elements, shape.classes - chip.elements, place, add);
        // Not earlier: registers are scarce above, and the reduction waits anyway.
        const int64_t target = targets[place.row];
        const int64_t next = place.row + gridDim.x;
        const bool has_next = next < shape.rows;
        T *next_row = logits + next * shape.classes;
        const bool last_word = has_target(shape, Vectors<N, false>(row, shape.classes), place, target);
        const float wanted = last_word && shape.is_class(target) ? to_f32(row[target]) : NAN;
        statistics.reduce_over(chip.threads, shared + (round & 1) * statistics_arrays * most_warps);
        const Gradient gradient(shape, target, wanted, shape.scale,
                                Exponential(log2_e, statistics.exponentials.largest), statistics.exponentials.sum);
        const bool leaves = target == shape.ignore_index || !gradient.exponential.in_range();
        if (place.thread == 0) {
            left[place.row] = leaves ? 1 : 0;
        }
        if (last_word && !leaves) {
            losses[place.row] = statistics.loss(shape, wanted);
        }
        const GradientWriter<T> write = {gradient, row, leaves};
        each_in_batches<N, long_batch>(row + chip.elements, shape.classes - chip.elements, place,
                                       [&](int64_t i, const float(&x)[N]) { write(chip.elements + i, x); });
        held.each(write);
        if (has_next) {
            held = Row<T, N, long_held>(next_row, chip.held_elements, place);
        }
        chip.write_and_fetch(write, has_next ? next_row : nullptr);
        if (last_word && !leaves && shape.is_class(target)) {
            row[target] = from_f32<T>(gradient.at_target);
        }
        row = next_row;
        place.row = next;
    }
}

// A block's share of shared memory when a compute unit has 1024
// threads of such blocks. CUDA reserves 1 KB of each block's.
size_t shared_share(const opdock::Problem &problem, int threads) {
    return static_cast<size_t>((shared_memory(problem) + 1024) / (1024 / threads) - 1024);
}

template<class T>
opdock::Status fused_long(const opdock::Call &call, const CrossEntropy &shape, int threads, T *logits,
                          const int64_t *target, float *loss) {
    const size_t statistics = statistics_floats * sizeof(float);
    const size_t of_each = static_cast<size_t>(threads) * 16; // bytes for a vector of each thread
    const int64_t vectors = ceil_div(shape.classes / wide<T>, threads);
    const int64_t room = static_cast<int64_t>((shared_share(call, threads) - statistics) / of_each);
    const int staged = static_cast<int>(std::clamp<int64_t>(vectors - long_held, 0, room));
    const size_t bytes = statistics + static_cast<size_t>(staged) * of_each;
#ifndef __HIP__
    opdock::Status allowed = allow_all_shared_memory(call, fused_long_kernel<T>, 0);
    if (!allowed.ok()) {
        return allowed;
    }
    const cudaError_t error =
        cudaFuncSetAttribute(reinterpret_cast<const void *>(&fused_long_kernel<T>),
                             cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared);
    if (error != cudaSuccess) {
        return checked("setting the preference for shared memory", error);
    }
#endif
    auto *left = static_cast<uint8_t *>(call.workspace());
    const int64_t blocks = std::min<int64_t>(shape.rows, static_cast<int64_t>(compute_units(call)) * (1024 / threads));
    opdock::Status status =
        launch(call, {blocks, threads, bytes}, fused_long_kernel<T>, shape, staged, logits, target, loss, left);
    if (!status.ok()) {
        return status;
    }
    return after_the_first(launch(call, {blocks, threads}, fused_left_kernel<T>, shape, left, logits, target, loss));
}

// One mark for each row.
uint64_t fused_workspace(const opdock::Problem &problem) {
    return static_cast<uint64_t>(row_count(*problem.input(0)));
}

opdock::Status fused(const opdock::Call &call) {
    CrossEntropy shape = shape_of(call, 0);
    shape.scale = static_cast<float>(call.get_float(2));
    const RowKnobs knobs = RowKnobs::of(call);
    return visit_floating(call.input(0)->dtype, [&](auto t) {
        using T = typename decltype(t)::type;
        auto *logits = static_cast<T *>(input_data(call, 0));
        const auto *target = static_cast<const int64_t *>(input_data(call, 1));
        auto *loss = static_cast<float *>(output_data(call, 0));
        const bool peels = width_of<T>(shape.classes, aligned(logits)) == 1;
        RowPlan plan = plan_rows(shape.classes, wide<T>, knobs.threads, knobs.block, peels ? 0 : 8);
        const int64_t held = int64_t(held_in_cluster<T>) * cluster_threads;
        const int ranks = hold_few_rows(call, plan, shape.rows, shape.classes / wide<T> + 2, cluster_threads, held);
        Grid grid = plan.grid(shape.rows * ranks, 2 * statistics_arrays + 1);
        grid.cluster = ranks;
        const auto start = [&](auto V, auto anywhere) {
            return launch(call, grid, fused_kernel<T, decltype(V)::value, decltype(anywhere)::value != 0>, shape,
                          plan.threads, ranks, logits, target, loss);
        };
        if (ranks > 1) {
            return start(Number<held_in_cluster<T>>{}, Number<1>{});
        }
        if (peels) {
            return start(Number<0>{}, Number<1>{});
        }
        if (plan.held == 0) {
            return fused_long<T>(call, shape, std::max(plan.threads, 64), logits, target, loss);
        }
        return visit_plan<T>(plan, [&](auto, auto V) { return start(V, Number<decltype(V)::value == 0>{}); });
    });
}

} // namespace

void add_fused_cross_entropy(Plugin &plugin) {
    plugin.add(opdock::ops::fused_cross_entropy, any_float,
               {opdock::kernel<&fused>, Knobs::rows, nullptr, opdock::workspace_size<&fused_workspace>});
}

} // namespace gpu
