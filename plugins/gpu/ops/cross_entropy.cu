// cross_entropy_fwd, cross_entropy_bwd and fused_cross_entropy.
//
// Targets are on the device, where nobody can be told of one that is neither a class nor ignore_index. Such a row gets
// NaN as its loss and as its gradient.
#include "copy_async.cuh"
#include "exp_sum.cuh"
#include "ops/ops.hpp"
#include "row_batches.cuh"
#include "rows.cuh"

namespace gpu {
namespace {

struct CrossEntropy {
    int64_t rows, classes;
    int64_t ignore_index;
    float smoothing;
    float hit;    // 1 - smoothing
    float spread; // smoothing / classes
    float scale;  // fused: the gradient of every loss

    __device__ __forceinline__ bool is_class(int64_t target) const { return target >= 0 && target < classes; }
};

// The thread of a group that has the target's logit. It alone reads it for the loss, before it overwrites it.
template<int N>
__device__ __forceinline__ bool has_target(const CrossEntropy &shape, const Place &place, int64_t target) {
    return shape.is_class(target) ? target / N % place.threads == place.thread : place.thread == 0;
}

// What a thread gathers of a row.
struct Statistics {
    ExpSum exponentials;
    float sum = 0.0f; // of the logits, where the loss is smoothed

    template<int N>
    __device__ __forceinline__ void add(const CrossEntropy &shape, const float (&x)[N]) {
        exponentials.add(x, log2_e);
        if (shape.smoothing != 0.0f) {
            float added = 0.0f;
#pragma unroll
            for (int k = 0; k < N; ++k) {
                added += x[k];
            }
            sum += added;
        }
    }

    // `shared` holds 2 * most_warps floats.
    __device__ __forceinline__ void reduce_over(int threads, float *shared) {
        exponentials = reduce_exp_sum(exponentials, sum, log2_e, threads, shared);
    }

    __device__ __forceinline__ float lse() const {
        return exponentials.largest + logf(exponentials.sum);
    }

    // lse - (1 - e) logits[target] - e mean(logits), with the difference of large numbers taken first.
    __device__ __forceinline__ float loss(const CrossEntropy &shape, float wanted) const {
        const float above_largest = logf(exponentials.sum);
        const float loss = exponentials.largest - wanted + above_largest;
        if (shape.smoothing == 0.0f) { // 0 times a logit of minus infinity is no number
            return loss;
        }
        const float mean = sum / static_cast<float>(shape.classes);
        return shape.hit * loss + shape.smoothing * (exponentials.largest - mean + above_largest);
    }
};

// Makes gradients of logits: factor * (exp(x - from) * share - (1 - e) * onehot(target) - e / v).
struct Gradient {
    float from, share, spread, hit, factor;
    int64_t target;

    // For a target that is no class the factor is NaN.
    __device__ __forceinline__ Gradient(const CrossEntropy &shape, int64_t row_target, float of_loss, float x,
                                        float part)
        : from(x), share(part), spread(shape.spread), hit(shape.hit),
          factor(shape.is_class(row_target) ? of_loss : NAN), target(row_target) {}

    // Of N logits from class i on.
    template<int N>
    __device__ __forceinline__ void of(int64_t i, const float (&x)[N], float (&to)[N]) const {
        const int64_t offset = target - i;
#pragma unroll
        for (int k = 0; k < N; ++k) {
            to[k] = fmaf(exp2_of((x[k] - from) * log2_e), share, -spread);
        }
        if (offset >= 0 && offset < N) {
#pragma unroll
            for (int k = 0; k < N; ++k) {
                to[k] -= k == static_cast<int>(offset) ? hit : 0.0f;
            }
        }
#pragma unroll
        for (int k = 0; k < N; ++k) {
            to[k] *= factor;
        }
    }
};

// body(class of the first, N logits) for a row that is read in batches.
template<int N, int V = batch, class T, class Body>
__device__ __forceinline__ void each_in_batches(const T *row, int64_t n, const Place &place, Body body) {
    in_batches<N, V>(n, place, [&](int64_t from, int64_t count) {
        const Row<T, N, V> part(row + from, count, place);
        part.each([&](int64_t i, const float(&x)[N]) { body(from + i, x); });
    });
}

// The losses of rows; `lses` may be null.
template<class T, int N>
__global__ void __launch_bounds__(1024) forward_kernel(CrossEntropy shape, int threads, const T *logits,
                                                       const int64_t *targets, float *losses, float *lses) {
    extern __shared__ float shared[];
    const Place place = place_of(threads, shape.rows);
    const T *row = logits + place.row * shape.classes;
    const int64_t target = place.exists ? targets[place.row] : shape.ignore_index;
    const bool ignored = target == shape.ignore_index;
    const bool last_word = place.exists && has_target<N>(shape, place, target);
    float wanted = NAN;
    if (last_word && !ignored && shape.is_class(target)) {
        wanted = to_f32(row[target]);
    }
    Statistics statistics;
    const int64_t n = place.exists && !(ignored && lses == nullptr) ? shape.classes : 0;
    each_in_batches<N>(row, n, place, [&](int64_t, const float(&x)[N]) { statistics.add(shape, x); });
    statistics.reduce_over(threads, shared);
    if (last_word) {
        losses[place.row] = ignored ? 0.0f : statistics.loss(shape, wanted);
        if (lses != nullptr) {
            lses[place.row] = statistics.lse();
        }
    }
}

template<class T, int N>
__global__ void __launch_bounds__(1024)
    backward_kernel(CrossEntropy shape, int threads, const float *grad_losses, const T *logits, const int64_t *targets,
                    const float *lses, T *grad_logits) {
    const Place place = place_of(threads, shape.rows);
    if (!place.exists) {
        return;
    }
    const T *row = logits + place.row * shape.classes;
    T *to = grad_logits + place.row * shape.classes;
    const int64_t target = targets[place.row];
    if (target == shape.ignore_index) {
        clear<N>(to, 0, shape.classes, place);
        return;
    }
    const Gradient gradient(shape, target, grad_losses[place.row], lses[place.row], 1.0f);
    each_in_batches<N>(row, shape.classes, place, [&](int64_t i, const float(&x)[N]) {
        float y[N];
        gradient.of(i, x, y);
        store<N>(to + i, y);
    });
}

// Rows that fit into registers, and those that are not aligned.
template<class T, int N, int V>
__global__ void __launch_bounds__(1024)
    fused_kernel(CrossEntropy shape, int threads, T *logits, const int64_t *targets, float *losses) {
    extern __shared__ float shared[];
    const Place place = place_of(threads, shape.rows);
    T *row = logits + place.row * shape.classes;
    const int64_t target = place.exists ? targets[place.row] : shape.ignore_index;
    const bool ignored = target == shape.ignore_index;
    const bool last_word = place.exists && has_target<N>(shape, place, target);
    float wanted = NAN;
    if (last_word && !ignored && shape.is_class(target)) {
        wanted = to_f32(row[target]);
    }
    const int64_t n = place.exists && !ignored ? shape.classes : 0;
    Row<T, N, V> x(row, n, place);
    const auto each = [&](auto body) {
        if constexpr (V > 0) {
            x.each(body);
        } else {
            each_in_batches<N>(row, n, place, body);
        }
    };
    Statistics statistics;
    each([&](int64_t, const float(&values)[N]) { statistics.add(shape, values); });
    x.stay_narrow();
    statistics.reduce_over(threads, shared);
    if (last_word) {
        losses[place.row] = ignored ? 0.0f : statistics.loss(shape, wanted);
    }
    const Gradient gradient(shape, target, shape.scale, statistics.exponentials.largest,
                            1.0f / statistics.exponentials.sum);
    each([&](int64_t i, const float(&values)[N]) {
        float y[N];
        gradient.of(i, values, y);
        store<N>(row + i, y);
    });
    if (ignored && place.exists) {
        clear<N>(row, 0, shape.classes, place);
    }
}

// A block for each row, which keeps on chip what it can between reading the logits and writing their gradient: so many
// vectors of each thread in registers, then `staged` in shared memory. The rest is read twice, the second time first of
// all, while it is in the cache that all blocks share.
inline constexpr int long_held = 6;
inline constexpr int long_batch = 2; // all that registers are left for

template<class T>
__global__ void __launch_bounds__(1024)
    fused_long_kernel(CrossEntropy shape, int staged, T *logits, const int64_t *targets, float *losses) {
    constexpr int N = wide<T>;
    extern __shared__ float shared[];
    const int threads = static_cast<int>(blockDim.x);
    const int thread = static_cast<int>(threadIdx.x);
    const Place place = {static_cast<int64_t>(blockIdx.x), thread, threads, true};
    T *row = logits + place.row * shape.classes;
    const int64_t target = targets[place.row];

    // Of each thread: vectors v * threads + thread in registers for v < long_held, in shared memory for the next
    // `staged` v. Nobody reads what another thread has copied or will overwrite.
    const auto *source = reinterpret_cast<const Vector<T, N> *>(row);
    auto *stage = reinterpret_cast<Vector<T, N> *>(shared + 2 * most_warps);
    const int vectors = static_cast<int>(shape.classes / N);
    constexpr int groups = 4; // of copies; work on one goes on while the next ones are under way
    const int group = (staged + groups - 1) / groups;
    // body(place in the row, place in shared memory) for the vectors of a group
    const auto each_staged = [&](int from, auto body) {
        for (int s = from; s < min(from + group, staged); ++s) {
            const int i = (long_held + s) * threads + thread;
            if (i < vectors) {
                body(i, s * threads + thread);
            }
        }
    };
#pragma unroll
    for (int g = 0; g < groups; ++g) {
        each_staged(g * group, [&](int i, int at) { copy_async(stage + at, source + i); });
        end_group_of_copies();
    }

    const int64_t held_elements = min(shape.classes, static_cast<int64_t>(long_held) * threads * N);
    Row<T, N, long_held> held(row, held_elements, place);
    if (target == shape.ignore_index) { // looked at only here: the row is on its way meanwhile
        wait_for_copies_but<0>();
        clear<N>(row, 0, shape.classes, place);
        if (thread == 0) {
            losses[place.row] = 0.0f;
        }
        return; // the whole block does
    }

    const bool last_word = has_target<N>(shape, place, target);
    float wanted = NAN;
    if (last_word && shape.is_class(target)) {
        wanted = to_f32(row[target]);
    }
    const int64_t on_chip = min(shape.classes, static_cast<int64_t>(long_held + staged) * threads * N);

    Statistics statistics;
    held.each([&](int64_t, const float(&x)[N]) { statistics.add(shape, x); });
    held.stay_narrow();
    const auto take_in = [&](int, int at) {
        float x[N];
        widen(stage[at], x);
        statistics.add(shape, x);
    };
    wait_for_copies_but<3>();
    each_staged(0, take_in);
    wait_for_copies_but<2>();
    each_staged(group, take_in);
    wait_for_copies_but<1>();
    each_staged(2 * group, take_in);
    wait_for_copies_but<0>();
    each_staged(3 * group, take_in);
    each_in_batches<N, long_batch>(row + on_chip, shape.classes - on_chip, place,
                                   [&](int64_t, const float(&x)[N]) { statistics.add(shape, x); });
    statistics.reduce_over(threads, shared);
    if (last_word) {
        losses[place.row] = statistics.loss(shape, wanted);
    }

    const Gradient gradient(shape, target, shape.scale, statistics.exponentials.largest,
                            1.0f / statistics.exponentials.sum);
    const auto write = [&](int64_t i, const float(&x)[N]) {
        float y[N];
        gradient.of(i, x, y);
        store<N>(row + i, y);
    };
    each_in_batches<N, long_batch>(row + on_chip, shape.classes - on_chip, place,
                                   [&](int64_t i, const float(&x)[N]) { write(on_chip + i, x); });
    held.each(write);
    for (int s = 0; s < staged; ++s) {
        const int i = (long_held + s) * threads + thread;
        if (i < vectors) {
            float x[N];
            widen(stage[s * threads + thread], x);
            write(static_cast<int64_t>(i) * N, x);
        }
    }
}

CrossEntropy shape_of(const opdock::Problem &problem, uint32_t logits) {
    const DLTensor &tensor = *problem.input(logits);
    const double smoothing = problem.get_float(1);
    CrossEntropy shape = {};
    shape.rows = row_count(tensor);
    shape.classes = row_size(tensor);
    shape.ignore_index = problem.get_int(0);
    shape.smoothing = static_cast<float>(smoothing);
    shape.hit = static_cast<float>(1 - smoothing);
    shape.spread = static_cast<float>(smoothing / static_cast<double>(std::max<int64_t>(shape.classes, 1)));
    shape.scale = 1.0f;
    return shape;
}

// visit(Number<N>, plan) for kernels that read rows in batches.
template<class T, class Visitor>
opdock::Status visit_width(const opdock::Call &call, const CrossEntropy &shape, bool are_aligned, Visitor &&visit) {
    const RowKnobs knobs = RowKnobs::of(call);
    const int width = width_of<T>(shape.classes, are_aligned);
    const RowPlan plan = plan_rows(shape.classes, width, knobs.threads, knobs.block);
    return width == 1 ? visit(Number<1>{}, plan) : visit(Number<wide<T>>{}, plan);
}

opdock::Status forward(const opdock::Call &call) {
    const CrossEntropy shape = shape_of(call, 0);
    return visit_floating(call.input(0)->dtype, [&](auto t) {
        using T = typename decltype(t)::type;
        const auto *logits = static_cast<const T *>(input_data(call, 0));
        const auto *target = static_cast<const int64_t *>(input_data(call, 1));
        auto *loss = static_cast<float *>(output_data(call, 0));
        auto *lse = static_cast<float *>(output_data(call, 1));
        return visit_width<T>(call, shape, aligned(logits), [&](auto N, const RowPlan &plan) {
            return launch(call, plan.grid(shape.rows, 2), forward_kernel<T, decltype(N)::value>, shape, plan.threads,
                          logits, target, loss, lse);
        });
    });
}

opdock::Status backward(const opdock::Call &call) {
    const CrossEntropy shape = shape_of(call, 1);
    return visit_floating(call.input(1)->dtype, [&](auto t) {
        using T = typename decltype(t)::type;
        const auto *grad_loss = static_cast<const float *>(input_data(call, 0));
        const auto *logits = static_cast<const T *>(input_data(call, 1));
        const auto *target = static_cast<const int64_t *>(input_data(call, 2));
        const auto *lse = static_cast<const float *>(input_data(call, 3));
        auto *grad_logits = static_cast<T *>(output_data(call, 0));
        return visit_width<T>(call, shape, all_aligned(logits, grad_logits), [&](auto N, const RowPlan &plan) {
            return launch(call, plan.grid(shape.rows, 0), backward_kernel<T, decltype(N)::value>, shape, plan.threads,
                          grad_loss, logits, target, lse, grad_logits);
        });
    });
}

// Shared memory of a block when 1024 threads of such blocks are on a compute unit together. CUDA keeps 1 KB of each
// block for itself.
size_t shared_share(const opdock::Problem &problem, int threads) {
    const opdock_device_properties *properties = problem.device_properties();
    const uint64_t most =
        properties != nullptr && properties->shared_memory != 0 ? properties->shared_memory : 48 << 10;
    return static_cast<size_t>((most + 1024) / static_cast<uint64_t>(1024 / threads) - 1024);
}

template<class T>
opdock::Status fused_long(const opdock::Call &call, const CrossEntropy &shape, int threads, T *logits,
                          const int64_t *target, float *loss) {
    const size_t statistics = 2 * most_warps * sizeof(float);
    const size_t of_each = static_cast<size_t>(threads) * 16; // bytes of a vector of each thread
    const int64_t vectors = ceil_div(shape.classes / wide<T>, threads);
    const int64_t room = static_cast<int64_t>((shared_share(call, threads) - statistics) / of_each);
    const int staged = static_cast<int>(std::clamp<int64_t>(vectors - long_held, 0, room));
    const size_t bytes = statistics + static_cast<size_t>(staged) * of_each;
#ifndef __HIP__
    // More than 48 KB has to be asked for, on each device; it costs less than to remember where that was done.
    const auto *kernel = reinterpret_cast<const void *>(&fused_long_kernel<T>);
    cudaError_t error =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
    if (error == cudaSuccess) {
        error = cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                                     cudaSharedmemCarveoutMaxShared);
    }
    if (error != cudaSuccess) {
        return checked("asking for shared memory", error);
    }
#endif
    return launch(call, {shape.rows, threads, bytes}, fused_long_kernel<T>, shape, staged, logits, target, loss);
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
        const int width = width_of<T>(shape.classes, aligned(logits));
        const RowPlan plan = plan_rows(shape.classes, width, knobs.threads, knobs.block);
        if (plan.width > 1 && plan.held == 0) {
            return fused_long<T>(call, shape, std::max(plan.threads, 64), logits, target, loss);
        }
        return visit_plan<T>(plan, [&](auto N, auto V) {
            return launch(call, plan.grid(shape.rows, 2), fused_kernel<T, decltype(N)::value, decltype(V)::value>,
                          shape, plan.threads, logits, target, loss);
        });
    });
}

} // namespace

void add_cross_entropy(Plugin &plugin) {
    namespace ops = opdock::ops;
    plugin.add(ops::cross_entropy_fwd, any_float, {opdock::kernel<&forward>, Knobs::rows});
    plugin.add(ops::cross_entropy_bwd, any_float, {opdock::kernel<&backward>, Knobs::rows});
    plugin.add(ops::fused_cross_entropy, any_float, {opdock::kernel<&fused>, Knobs::rows});
}

} // namespace gpu
