// rmsnorm_bwd, rmsnorm_bwd_add and layernorm_bwd.
//
// grad_weight and grad_bias are sums over rows. Where they are wanted and a row fits, blocks stay and go through rows:
// each thread keeps the sums of its columns in registers while the rows after the one in work are on their way into
// shared memory, so that every tensor is read once. Where they are not, a group of threads has a row, as forward; rows
// that do not fit take that kernel and another one that reads the inputs again.
#include <algorithm>

#include "columns.cuh"
#include "copy_async.cuh"
#include "normalization.cuh"
#include "ops/ops.hpp"
#include "rows.cuh"
#include "shared_memory.hpp"

namespace gpu {
namespace {

enum class Norm { rms, rms_add, layer };

template<class T, class U>
struct Arguments {
    int64_t rows, n;
    bool zero_centered;
    const T *grad, *input, *add; // add: of rms_add
    const float *mu, *rsigma;    // mu: of layer
    const U *weight;
    T *grad_input;
};

// Until all stages but the last `open`, at most one, are there.
__device__ __forceinline__ void wait_for_stages(int open) {
    if (open == 0) {
        wait_for_copies_but<0>();
    } else {
        wait_for_copies_but<1>();
    }
}

// --- one pass --------------------------------------------------------------------------------------------------------

// What a row adds to its two sums, of gamma * grad times the input (less its mean) and of gamma * grad; and to the sums
// of its columns. The normalized input is never made: `factor` is taken out of the sums.
template<Norm norm, int N>
__device__ __forceinline__ void add_to_sums(const float (&grad)[N], const float (&x)[N], const float (&gamma)[N],
                                            float mean, float (&sums)[2]) {
#pragma unroll
    for (int k = 0; k < N; ++k) {
        const float centered = norm == Norm::layer ? x[k] - mean : x[k];
        sums[0] = fmaf(grad[k] * centered, gamma[k], sums[0]);
        if constexpr (norm == Norm::layer) {
            sums[1] = fmaf(grad[k], gamma[k], sums[1]);
        }
    }
}
template<Norm norm, int N>
__device__ __forceinline__ void add_to_columns(const float (&grad)[N], const float (&x)[N], float mean, float factor,
                                               float (&of_weight)[N], float (&of_bias)[N]) {
#pragma unroll
    for (int k = 0; k < N; ++k) {
        const float centered = norm == Norm::layer ? x[k] - mean : x[k];
        of_weight[k] = fmaf(grad[k] * centered, factor, of_weight[k]);
        if constexpr (norm == Norm::layer) {
            of_bias[k] += grad[k];
        }
    }
}

// A row's numbers for its gradient, from the sums over all of it.
struct Coefficients {
    float mean, factor, mean_of_d, of_input;
};
__device__ __forceinline__ Coefficients coefficients_of(const float (&sums)[2], float mean, float factor,
                                                        float inverse) {
    return {mean, factor, sums[1] * inverse, sums[0] * inverse * factor * factor};
}
// gamma * grad less its mean comes first, so that it is exactly 0 where it should be.
template<Norm norm, int N>
__device__ __forceinline__ void gradient(const float (&grad)[N], const float (&x)[N], const float (&gamma)[N],
                                         const Coefficients &row, float (&result)[N]) {
#pragma unroll
    for (int k = 0; k < N; ++k) {
        const float d = grad[k] * gamma[k];
        const float off = norm == Norm::layer ? d - row.mean_of_d : d;
        const float centered = norm == Norm::layer ? x[k] - row.mean : x[k];
        result[k] = row.factor * fmaf(-centered, row.of_input, off);
    }
}

// Threads of a block: with more sums each, fewer have registers enough.
template<Norm norm, int V, int N>
inline constexpr int most_threads = V *N *(norm == Norm::layer ? 2 : 1) > 32 ? 512 : 1024;

// `stages` rows, one or two, are in shared memory at a time, a slot for each vector of each thread: nobody but the
// thread itself reads it, so threads wait for each other in reductions alone. `parts` is null when no sum is wanted;
// else a group's sums are at parts[group], of the weight for all groups and then, for layer, of the bias.
template<class T, class U, int V, Norm norm>
__global__ void __launch_bounds__((most_threads<norm, V, wide<T>>))
    one_pass_kernel(Arguments<T, U> a, int threads, int stages, float *parts) {
    constexpr int N = wide<T>;
    constexpr int arrays = norm == Norm::rms_add ? 3 : 2;
    extern __shared__ __align__(16) unsigned char memory[];
    __shared__ float shared_of_rounds[2][2 * most_warps]; // in turn
    const int groups = static_cast<int>(blockDim.x) / threads;
    const int group = static_cast<int>(threadIdx.x) / threads;
    const int thread = static_cast<int>(threadIdx.x) - group * threads;
    const int vectors = static_cast<int>(a.n / N);
    const int64_t step = static_cast<int64_t>(gridDim.x) * groups;
    const int64_t rounds = (a.rows + step - 1) / step;
    const int64_t first = static_cast<int64_t>(blockIdx.x) * groups + group;

    const auto slot = [&](int stage, int array, int v) {
        return reinterpret_cast<Vector<T, N> *>(memory) +
               ((static_cast<size_t>(stage) * arrays + array) * V + v) * blockDim.x + threadIdx.x;
    };
    const auto vector_at = [](const T *p) { return reinterpret_cast<const Vector<T, N> *>(p); };
    const auto fetch_row = [&](int64_t round) {
        const int64_t row = first + round * step;
        if (round < rounds && row < a.rows) {
            const int stage = static_cast<int>(round % stages);
#pragma unroll
            for (int v = 0; v < V; ++v) {
                const int i = thread + v * threads;
                if (i < vectors) {
                    const int64_t at = row * a.n + static_cast<int64_t>(i) * N;
                    copy_async(slot(stage, 0, v), vector_at(a.grad + at));
                    copy_async(slot(stage, 1, v), vector_at(a.input + at));
                    if constexpr (norm == Norm::rms_add) {
                        copy_async(slot(stage, 2, v), vector_at(a.add + at));
                    }
                }
            }
        }
        end_group_of_copies();
    };

    float of_weight[V][N] = {}, of_bias[norm == Norm::layer ? V : 1][N] = {};
    const float inverse = 1.0f / static_cast<float>(a.n);
    for (int64_t round = 0; round + 1 < stages; ++round) {
        fetch_row(round);
    }
    // Of the next row: a number that is asked for when it is needed is waited for.
    float next_factor = first < a.rows ? a.rsigma[first] : 0.0f;
    float next_mean = norm == Norm::layer && first < a.rows ? a.mu[first] : 0.0f;
    for (int64_t round = 0; round < rounds; ++round) {
        fetch_row(round + stages - 1);
        wait_for_stages(stages - 1);
        const int stage = static_cast<int>(round % stages);
        const int64_t row = first + round * step;
        const bool exists = row < a.rows;
        const float factor = next_factor, mean = next_mean;
        if (row + step < a.rows) {
            next_factor = a.rsigma[row + step];
            next_mean = norm == Norm::layer ? a.mu[row + step] : 0.0f;
        }
        float *shared = shared_of_rounds[round & 1];
        float sums[2] = {0.0f, 0.0f}; // of d times the normalized input; of d
        if (exists) {
#pragma unroll
            for (int v = 0; v < V; ++v) {
                const int i = thread + v * threads;
                if (i < vectors) {
                    float grad[N], x[N], gamma[N];
                    widen(*slot(stage, 0, v), grad);
                    widen(*slot(stage, 1, v), x);
                    load_gamma(a.weight, static_cast<int64_t>(i) * N, a.zero_centered, gamma);
                    add_to_sums<norm>(grad, x, gamma, mean, sums);
                    if (parts != nullptr) {
                        add_to_columns<norm>(grad, x, mean, factor, of_weight[v], of_bias[norm == Norm::layer ? v : 0]);
                    }
                }
            }
        }
        if constexpr (norm == Norm::layer) {
            reduce<Sum>(sums, threads, shared);
        } else {
            sums[0] = reduce<Sum>(sums[0], threads, shared);
        }
        const Coefficients coefficients = coefficients_of(sums, mean, factor, inverse);
        if (exists) {
#pragma unroll
            for (int v = 0; v < V; ++v) {
                const int i = thread + v * threads;
                if (i < vectors) {
                    const int64_t at = static_cast<int64_t>(i) * N;
                    float grad[N], x[N], gamma[N], result[N];
                    widen(*slot(stage, 0, v), grad);
                    widen(*slot(stage, 1, v), x);
                    load_gamma(a.weight, at, a.zero_centered, gamma);
                    gradient<norm>(grad, x, gamma, coefficients, result);
                    if constexpr (norm == Norm::rms_add) {
                        float add[N];
                        widen(*slot(stage, 2, v), add);
#pragma unroll
                        for (int k = 0; k < N; ++k) {
                            result[k] += add[k];
                        }
                    }
                    store<N>(a.grad_input + row * a.n + at, result);
                }
            }
        }
    }
    const int64_t part = static_cast<int64_t>(blockIdx.x) * groups + group;
#pragma unroll
    for (int v = 0; v < V; ++v) {
        const int i = thread + v * threads;
        if (i < vectors) {
            store<N>(parts + part * a.n + static_cast<int64_t>(i) * N, of_weight[v]);
            if constexpr (norm == Norm::layer) {
                store<N>(parts + (step + part) * a.n + static_cast<int64_t>(i) * N, of_bias[v]);
            }
        }
    }
}

// --- other rows ------------------------------------------------------------------------------------------------------

template<class T, class U, int N, int V, Norm norm>
__global__ void __launch_bounds__(1024) grad_input_kernel(Arguments<T, U> a, int threads) {
    __shared__ float shared[2 * most_warps];
    const Place place = place_of(threads, a.rows);
    const int64_t begin = place.row * a.n, n = place.exists ? a.n : 0;
    Row<T, N, V> upstream(a.grad + begin, n, place), x(a.input + begin, n, place);
    const float factor = place.exists ? a.rsigma[place.row] : 0.0f;
    const float mean = norm == Norm::layer && place.exists ? a.mu[place.row] : 0.0f;
    const float inverse = 1.0f / static_cast<float>(a.n);
    float sums[2] = {0.0f, 0.0f};
    upstream.each(x, [&](int64_t i, const float(&grad)[N], const float(&values)[N]) {
        float gamma[N];
        load_gamma(a.weight, i, a.zero_centered, gamma);
        add_to_sums<norm>(grad, values, gamma, mean, sums);
    });
    upstream.stay_narrow();
    x.stay_narrow();
    reduce<Sum>(sums, threads, shared);
    const Coefficients coefficients = coefficients_of(sums, mean, factor, inverse);
    upstream.each(x, [&](int64_t i, const float(&grad)[N], const float(&values)[N]) {
        float gamma[N], result[N];
        load_gamma(a.weight, i, a.zero_centered, gamma);
        gradient<norm>(grad, values, gamma, coefficients, result);
        if constexpr (norm == Norm::rms_add) {
            float add[N];
            load<N>(a.add + begin + i, add);
#pragma unroll
            for (int k = 0; k < N; ++k) {
                result[k] += add[k];
            }
        }
        store<N>(a.grad_input + begin + i, result);
    });
}

template<class T, class U, int N, Norm norm>
__global__ void __launch_bounds__(256) weight_parts_kernel(Arguments<T, U> a, ColumnPlan plan, float *parts) {
    const ColumnPlace place = column_place(plan, a.rows);
    if (place.column >= a.n) {
        return;
    }
    float of_weight[N] = {}, of_bias[N] = {};
#pragma unroll 4
    for (int64_t row = place.begin; row < place.end; ++row) {
        float grad[N], x[N];
        load<N>(a.grad + row * a.n + place.column, grad);
        load<N>(a.input + row * a.n + place.column, x);
        add_to_columns<norm>(grad, x, norm == Norm::layer ? a.mu[row] : 0.0f, a.rsigma[row], of_weight, of_bias);
    }
    store<N>(parts + place.part * a.n + place.column, of_weight);
    if constexpr (norm == Norm::layer) {
        store<N>(parts + (plan.parts + place.part) * a.n + place.column, of_bias);
    }
}

// --- which of them ---------------------------------------------------------------------------------------------------

// For a row that one pass takes; held is 0 for one that it does not.
struct OnePass {
    int held, threads, groups, stages;
    int64_t blocks;
    size_t shared_bytes;

    int64_t parts() const { return blocks * groups; }
};

// Bytes of static shared memory, at most.
constexpr int64_t of_reductions = 1024;

// A vector takes 16 bytes of shared memory of each array and stage.
OnePass plan_one_pass(const opdock::Problem &problem, int64_t rows, int64_t n, int64_t bytes, Norm norm) {
    const auto knobs = ColumnKnobs::of(problem);
    const int width = static_cast<int>(16 / bytes);
    const int arrays = norm == Norm::rms_add ? 3 : 2;
    const int64_t vectors = n / width;
    const int64_t available = shared_memory(problem) - of_reductions;
    OnePass plan = {};
    if (n % width != 0 || vectors == 0) {
        return plan;
    }
    for (int64_t threads = std::min(next_power_of_two(std::max(knobs.threads, 1)), next_power_of_two(vectors));
         threads <= 1024; threads *= 2) {
        const int64_t held = next_power_of_two(ceil_div(vectors, threads));
        const int64_t sums = held * width * (norm == Norm::layer ? 2 : 1);
        const int64_t stage = arrays * held * 16 * std::max<int64_t>(threads, 128);
        if (held > (norm == Norm::layer ? 4 : 8) || sums > 64 || threads > (sums > 32 ? 512 : 1024) ||
            stage > available) {
            continue;
        }
        plan.held = static_cast<int>(held);
        plan.threads = static_cast<int>(threads);
        plan.groups = static_cast<int>(std::max<int64_t>(1, 128 / threads));
        const int64_t per_unit = std::max<int64_t>(1, std::min<int64_t>(knobs.blocks_per_unit, available / stage));
        // A third stage would take from the cache that the weights are in.
        plan.stages = static_cast<int>(std::clamp<int64_t>(available / per_unit / stage, 1, 2));
        plan.shared_bytes = static_cast<size_t>(stage * plan.stages);
        plan.blocks = std::max<int64_t>(
            1, std::min(ceil_div(rows, plan.groups), per_unit * static_cast<int64_t>(compute_units(problem))));
        return plan;
    }
    return plan;
}

template<Norm norm>
constexpr uint32_t weight_at = norm == Norm::rms ? 3 : 4;

template<Norm norm, class T, class U>
opdock::Status in_one_pass(const opdock::Call &call, const Arguments<T, U> &arguments, const OnePass &plan,
                           float *parts) {
    const auto start = [&](auto V) -> opdock::Status {
        const auto kernel = one_pass_kernel<T, U, decltype(V)::value, norm>;
        if (plan.shared_bytes + of_reductions > size_t(48) << 10) {
            opdock::Status status = allow_all_shared_memory(call, kernel, of_reductions);
            if (!status.ok()) {
                return status;
            }
        }
        return launch(call, {plan.blocks, plan.threads * plan.groups, plan.shared_bytes}, kernel, arguments,
                      plan.threads, plan.stages, parts);
    };
    switch (plan.held) {
    case 1:
        return start(Number<1>{});
    case 2:
        return start(Number<2>{});
    case 4:
        return start(Number<4>{});
    default:
        if constexpr (norm != Norm::layer) { // which has twice the sums, and no plan with so many
            return start(Number<8>{});
        }
        return opdock::unsupported("no plan has so many vectors for a thread");
    }
}

template<Norm norm>
opdock::Status run(const opdock::Call &call) {
    const DLTensor &shape = *call.input(0);
    constexpr uint32_t weight = weight_at<norm>;
    return visit_weighted(shape.dtype, call.input(weight)->dtype, [&](auto t, auto u) -> opdock::Status {
        using T = typename decltype(t)::type;
        using U = typename decltype(u)::type;
        Arguments<T, U> a = {};
        a.rows = row_count(shape);
        a.n = row_size(shape);
        a.zero_centered = call.get_bool(0);
        a.grad = static_cast<const T *>(input_data(call, 0));
        a.input = static_cast<const T *>(input_data(call, 1));
        a.add = norm == Norm::rms_add ? static_cast<const T *>(input_data(call, 2)) : nullptr;
        a.mu = norm == Norm::layer ? static_cast<const float *>(input_data(call, 2)) : nullptr;
        a.rsigma = static_cast<const float *>(input_data(call, weight - 1));
        a.weight = static_cast<const U *>(input_data(call, weight));
        a.grad_input = static_cast<T *>(output_data(call, 0));
        auto *grad_weight = static_cast<U *>(output_data(call, 1));
        auto *grad_bias = norm == Norm::layer ? static_cast<U *>(output_data(call, 2)) : nullptr;
        auto *parts = grad_weight != nullptr || grad_bias != nullptr ? static_cast<float *>(call.workspace()) : nullptr;

        const bool are_aligned = all_aligned(a.grad, a.input, a.add, a.weight, a.grad_input);
        const OnePass plan = plan_one_pass(call, a.rows, a.n, sizeof(T), norm);
        if (a.n == 0) {
            return {};
        }
        const auto sum_up = [&](int64_t count) {
            opdock::Status status =
                grad_weight == nullptr ? opdock::Status() : sum_parts(call, parts, count, a.n, grad_weight);
            return !status.ok() || grad_bias == nullptr ? std::move(status)
                                                        : sum_parts(call, parts + count * a.n, count, a.n, grad_bias);
        };
        if (are_aligned && plan.held != 0 && parts != nullptr) {
            opdock::Status status = in_one_pass<norm>(call, a, plan, parts);
            return status.ok() ? sum_up(plan.parts()) : std::move(status);
        }
        const int width = width_of<T>(a.n, are_aligned);
        const RowPlan rows = plan_rows(a.n, width, default_row_threads(a.n / width), 128, 4);
        return visit_plan<T>(rows, [&](auto vector, auto held) -> opdock::Status {
            constexpr int N = decltype(vector)::value, V = decltype(held)::value > 4 ? 0 : decltype(held)::value;
            opdock::Status first =
                launch(call, rows.grid(a.rows, 0), grad_input_kernel<T, U, N, V, norm>, a, rows.threads);
            if (!first.ok() || parts == nullptr) {
                return first;
            }
            const ColumnPlan columns = plan_columns(a.rows, a.n, N, compute_units(call));
            opdock::Status second = launch(call, columns.grid(), weight_parts_kernel<T, U, N, norm>, a, columns, parts);
            return second.ok() ? sum_up(columns.parts) : std::move(second);
        });
    });
}

// For whichever way the pointers' alignment leads to.
template<Norm norm>
uint64_t workspace_size(const opdock::Problem &problem) {
    if (!problem.has_output(1) && !(norm == Norm::layer && problem.has_output(2))) {
        return 0;
    }
    const DLTensor &shape = *problem.input(0);
    const int64_t rows = row_count(shape), n = row_size(shape), bytes = element_bytes(shape);
    const int units = compute_units(problem);
    const int64_t parts =
        std::max({plan_one_pass(problem, rows, n, bytes, norm).parts(), plan_columns(rows, n, 1, units).parts,
                  plan_columns(rows, n, static_cast<int>(16 / bytes), units).parts});
    return static_cast<uint64_t>(parts * n * (norm == Norm::layer ? 2 : 1)) * sizeof(float);
}

template<Norm norm>
Implementation implementation() {
    return {opdock::kernel<&run<norm>>, norm == Norm::layer ? Knobs::columns_twice : Knobs::columns, nullptr,
            opdock::workspace_size<&workspace_size<norm>>};
}

} // namespace

void add_normalization_bwd(Plugin &plugin) {
    namespace ops = opdock::ops;
    plugin.add(ops::rmsnorm_bwd, weighted, implementation<Norm::rms>());
    plugin.add(ops::rmsnorm_bwd_add, weighted, implementation<Norm::rms_add>());
    plugin.add(ops::layernorm_bwd, weighted, implementation<Norm::layer>());
}

} // namespace gpu
