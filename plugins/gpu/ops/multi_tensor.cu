// multi_tensor_l2norm and multi_tensor_scale.
#include <cfloat>
#include <cmath>

#include "multi_tensor.cuh"
#include "ops/ops.hpp"

namespace gpu {
namespace {

struct ScaleNow {
    float scale;
    bool skip;
};

template<class T>
struct Scale {
    static constexpr int lists = 1, N = wide<T>;

    template<int n>
    struct Held {
        Vector<T, n> values;
    };

    const float *scale;
    int32_t *found_inf; // null if absent

    __device__ __forceinline__ ScaleNow now() const { return {*scale, false}; }

    template<int n>
    __device__ __forceinline__ void read(Held<n> &held, void *const (&data)[lists], int64_t i) const {
        held.values = read_vector<T, n>(data[0], i);
    }

    template<int n>
    __device__ __forceinline__ void write(const Held<n> &held, void *const (&data)[lists], int64_t i,
                                          const ScaleNow &now) const {
        float values[n];
        widen(held.values, values);
#pragma unroll
        for (int k = 0; k < n; ++k) {
            values[k] *= now.scale;
        }
        const Vector<T, n> stored = narrow<T, n>(values);
        *reinterpret_cast<Vector<T, n> *>(static_cast<T *>(data[0]) + i) = stored;
        bool finite = true;
        widen(stored, values);
#pragma unroll
        for (int k = 0; k < n; ++k) {
            finite = finite && fabsf(values[k]) <= FLT_MAX; // false for NaN
        }
        if (!finite && found_inf != nullptr) {
            *found_inf = 1; // all threads that write it write the same value
        }
    }
};

opdock::Status scale(const opdock::Call &call) {
    if (call.inputs_of(0).empty()) {
        return {};
    }
    return visit_floating(call.inputs_of(0)[0]->dtype, [&](auto tag) {
        Scale<typename decltype(tag)::type> step;
        step.scale = static_cast<const float *>(input_data(call, 1));
        step.found_inf = static_cast<int32_t *>(input_data(call, 2));
        return run_step(call, step);
    });
}

// The sum of squares of a vector: in f32, and again in f64 if it exceeds the range of f32
// at either end. Using f64 for all elements would take longer than reading them.
template<int n>
__device__ __forceinline__ double squares(const float (&values)[n]) {
    float sum = 0;
#pragma unroll
    for (int k = 0; k < n; ++k) {
        sum = fmaf(values[k], values[k], sum);
    }
    if (sum > 1e-30f && sum <= FLT_MAX) {
        return sum;
    }
    double exact = 0;
#pragma unroll
    for (int k = 0; k < n; ++k) {
        const double value = values[k];
        exact += value * value;
    }
    return exact;
}

// The block's sum, for thread 0; the other threads get partial sums. Works for any number of threads.
__device__ __forceinline__ double sum_of_block(double value) {
    __shared__ double shared[1024];
    const int threads = static_cast<int>(blockDim.x), thread = static_cast<int>(threadIdx.x);
    shared[thread] = value;
    int count = threads;
    while (count > 1) {
        const int half = (count + 1) / 2;
        __syncthreads();
        if (thread + half < count) {
            shared[thread] += shared[thread + half];
        }
        count = half;
    }
    return shared[thread];
}

// Each block loops over every gridDim.x-th chunk and writes one sum.
template<int unroll, class T>
__global__ void __launch_bounds__(most_threads<unroll>) squares_kernel(Table<1> table, int32_t chunks, double *sums) {
    wait_for_earlier_kernels();
    constexpr int N = wide<T>;
    const int threads = static_cast<int>(blockDim.x), thread = static_cast<int>(threadIdx.x);
    double sum = 0;
    for (int64_t number = blockIdx.x; number < chunks; number += gridDim.x) {
        const Chunk chunk = find_chunk(table, static_cast<int32_t>(number));
        const T *data = static_cast<const T *>(table.data[0][chunk.tensor]) + chunk.begin;
        const int size = static_cast<int>(chunk.end - chunk.begin);
        const int vectors = tensor_aligned(table, chunk.tensor) ? size / N : 0;
        Vector<T, N> held[unroll];
#pragma unroll
        for (int u = 0; u < unroll; ++u) {
            const int i = u * threads + thread;
            if (i < vectors) {
                held[u] = reinterpret_cast<const Vector<T, N> *>(data)[i];
            }
        }
#pragma unroll
        for (int u = 0; u < unroll; ++u) {
            if (u * threads + thread < vectors) {
                float values[N];
                widen(held[u], values);
                sum += squares(values);
            }
        }
        for (int i = vectors * N + thread; i < size; i += threads) {
            const float value[1] = {to_f32(data[i])};
            sum += squares(value);
        }
    }
    sum = sum_of_block(sum);
    if (thread == 0) {
        sums[blockIdx.x] = sum;
    }
}

constexpr int norm_threads = 256;

__global__ void __launch_bounds__(norm_threads) norm_kernel(const double *sums, int64_t count, float *norm) {
    wait_for_earlier_kernels();
    double sum = 0;
    for (int64_t i = threadIdx.x; i < count; i += norm_threads) {
        sum += sums[i];
    }
    sum = sum_of_block(sum);
    if (threadIdx.x == 0) {
        *norm = static_cast<float>(sqrt(sum));
    }
}

// Resident blocks of one launch, eight per compute unit.
int64_t norm_blocks(const opdock::Problem &problem, int64_t chunks) {
    return std::min<int64_t>(chunks, 8 * static_cast<int64_t>(compute_units(problem)));
}

// One f64 for each block of each launch.
uint64_t norm_workspace(const opdock::Problem &problem) {
    const auto tensors = static_cast<int64_t>(problem.inputs_of(0).size());
    // One more launch, since a table may also be full because of its chunks.
    const int64_t launches = ceil_div(tensors, Table<1>::capacity) + 1;
    return static_cast<uint64_t>(launches * norm_blocks(problem, INT32_MAX)) * sizeof(double);
}

opdock::Status norm(const opdock::Call &call) {
    auto *sums = static_cast<double *>(call.workspace());
    int64_t count = 0;
    if (!call.inputs_of(0).empty()) {
        opdock::Status status = visit_floating(call.inputs_of(0)[0]->dtype, [&](auto tag) {
            using T = typename decltype(tag)::type;
            return visit_unroll(ElementwiseKnobs::of(call).unroll, [&](auto unroll) {
                constexpr int u = decltype(unroll)::value;
                const Block<wide<T>, u> block(call);
                return for_tables<1>(call, block.chunk, [&](const Table<1> &table, int64_t chunks) {
                    const int64_t blocks = norm_blocks(call, chunks);
                    double *first = sums + count;
                    count += blocks;
                    return launch(call, {blocks, block.threads}, squares_kernel<u, T>, table, chunks, first);
                });
            });
        });
        if (!status.ok()) {
            return status;
        }
    }
    return launch(call, {1, norm_threads}, norm_kernel, sums, count, static_cast<float *>(output_data(call, 0)));
}

} // namespace

void add_multi_tensor(Plugin &plugin) {
    namespace ops = opdock::ops;
    plugin.add(ops::multi_tensor_l2norm, any_float,
               {opdock::kernel<&norm>, Knobs::elementwise, nullptr, opdock::workspace_size<&norm_workspace>});
    plugin.add(ops::multi_tensor_scale, any_float, {opdock::kernel<&scale>, Knobs::elementwise});
}

} // namespace gpu
