// multi_tensor_adam, multi_tensor_sgd, multi_tensor_l2norm and multi_tensor_scale.
//
// Pointers and sizes travel with the launch, as a kernel's parameter: a list costs no copy, and a captured graph holds
// what it needs. Lists too long for that take several launches.
#include <algorithm>
#include <cfloat>
#include <cmath>

#include "elementwise.cuh"
#include "ops/ops.hpp"

namespace gpu {
namespace {

// Tensors of lists of the same sizes, cut into chunks of `chunk` elements, of which none crosses two tensors.
template<int lists>
struct Table {
    // 3800 bytes for them, of the 4096 that a kernel's parameters may have.
    static constexpr int capacity = 3800 / (8 * lists + 8 + 4);

    int32_t count;
    int32_t chunk;
    int64_t sizes[capacity];
    void *data[lists][capacity];
    int32_t ends[capacity]; // chunks of this tensor and of those before it
};

// Elements begin to end of one tensor.
struct Chunk {
    int tensor;
    int64_t begin, end;
};

template<int lists>
__device__ __forceinline__ Chunk find_chunk(const Table<lists> &table, int32_t number) {
    int low = 0, high = table.count - 1; // the first tensor whose end is past the number
    while (low < high) {
        const int middle = (low + high) / 2;
        if (table.ends[middle] > number) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    const int32_t before = low == 0 ? 0 : table.ends[low - 1];
    const int64_t begin = static_cast<int64_t>(number - before) * table.chunk;
    return {low, begin, min(begin + table.chunk, table.sizes[low])};
}

template<int lists>
__device__ __forceinline__ bool tensor_aligned(const Table<lists> &table, int tensor) {
    uintptr_t bits = 0;
#pragma unroll
    for (int l = 0; l < lists; ++l) {
        bits |= reinterpret_cast<uintptr_t>(table.data[l][tensor]);
    }
    return bits % 16 == 0;
}

// start(table, its chunks) for tables that together have all tensors with elements.
template<int lists, class Start>
opdock::Status for_tables(const opdock::Call &call, int32_t chunk, Start start) {
    Table<lists> table;
    table.count = 0;
    table.chunk = chunk;
    int64_t chunks = 0;
    const auto tensors = call.inputs_of(0);
    for (uint32_t item = 0; item < tensors.size(); ++item) {
        const int64_t n = element_count(*tensors[item]);
        if (n == 0) {
            continue;
        }
        const int64_t more = ceil_div(n, chunk);
        if (table.count != 0 && (table.count == Table<lists>::capacity || chunks + more > INT32_MAX)) {
            if (opdock::Status status = start(table, chunks); !status.ok()) {
                return status;
            }
            table.count = 0;
            chunks = 0;
        }
        chunks += more;
        table.sizes[table.count] = n;
        for (uint32_t l = 0; l < static_cast<uint32_t>(lists); ++l) {
            table.data[l][table.count] = input_data(call, l, item);
        }
        table.ends[table.count] = static_cast<int32_t>(chunks);
        ++table.count;
    }
    return table.count == 0 ? opdock::Status() : start(table, chunks);
}

// Threads of a block at most, so that what they hold stays in registers.
template<int unroll>
inline constexpr int most_threads = unroll == 4 ? 512 : 1024;

// Threads of a block, and elements of its chunk with vectors of N.
template<int N, int unroll>
struct Block {
    int threads;
    int32_t chunk;

    explicit Block(const opdock::Problem &problem)
        : threads(std::min(ElementwiseKnobs::of(problem).threads, most_threads<unroll>)), chunk(threads * unroll * N) {}
};

// A Step says what happens to the elements at one place of all lists:
//   lists, N            how many lists there are, and elements of a vector
//   Held<n>             what was read of n elements
//   read(held, data, i) from element i on; data are the lists' pointers
//   now()               scalars from device memory; where its `skip` is set, nothing is written
//   write(held, data, i, now)
// A block has one chunk; each thread reads all of its vectors before it writes the first.
template<int unroll, class Step>
__global__ void __launch_bounds__(most_threads<unroll>) step_kernel(Step step, Table<Step::lists> table) {
    constexpr int N = Step::N;
    const Chunk chunk = find_chunk(table, static_cast<int32_t>(blockIdx.x));
    const int threads = static_cast<int>(blockDim.x), thread = static_cast<int>(threadIdx.x);
    void *data[Step::lists];
#pragma unroll
    for (int l = 0; l < Step::lists; ++l) {
        data[l] = table.data[l][chunk.tensor];
    }
    const int vectors = tensor_aligned(table, chunk.tensor) ? static_cast<int>((chunk.end - chunk.begin) / N) : 0;
    typename Step::template Held<N> held[unroll];
#pragma unroll
    for (int u = 0; u < unroll; ++u) {
        const int i = u * threads + thread;
        if (i < vectors) {
            step.template read<N>(held[u], data, chunk.begin + static_cast<int64_t>(i) * N);
        }
    }
    const auto now = step.now();
    if (now.skip) {
        return;
    }
#pragma unroll
    for (int u = 0; u < unroll; ++u) {
        const int i = u * threads + thread;
        if (i < vectors) {
            step.template write<N>(held[u], data, chunk.begin + static_cast<int64_t>(i) * N, now);
        }
    }
    // What is left of a tensor's end, or all of a tensor that is not aligned.
    for (int64_t i = chunk.begin + static_cast<int64_t>(vectors) * N + thread; i < chunk.end; i += threads) {
        typename Step::template Held<1> one;
        step.template read<1>(one, data, i);
        step.template write<1>(one, data, i, now);
    }
}

template<class Step>
opdock::Status run_step(const opdock::Call &call, const Step &step) {
    return visit_unroll(ElementwiseKnobs::of(call).unroll, [&](auto unroll) {
        constexpr int u = decltype(unroll)::value;
        const Block<Step::N, u> block(call);
        return for_tables<Step::lists>(call, block.chunk, [&](const Table<Step::lists> &table, int64_t chunks) {
            return launch(call, {chunks, block.threads}, step_kernel<u, Step>, step, table);
        });
    });
}

template<class T, int n>
__device__ __forceinline__ Vector<T, n> read_vector(const void *data, int64_t i) {
    return *reinterpret_cast<const Vector<T, n> *>(static_cast<const T *>(data) + i);
}

template<int n, class T>
__device__ __forceinline__ void write_vector(void *data, int64_t i, const float (&values)[n]) {
    store<n>(static_cast<T *>(data) + i, values);
}

// What one step of Adam takes from device memory, computed once: there are pow and divisions of f64 in it.
struct alignas(16) AdamFactors {
    float shrink;     // what is left of the parameters before the step
    float rate;       // lr / (1 - beta1^step)
    float root_scale; // 1 / sqrt(1 - beta2^step)
    int32_t skip;
};

__global__ void adam_begin_kernel(const float *lr, float *step, const int32_t *noop, double beta1, double beta2,
                                  double decay, AdamFactors *factors) {
    if (noop != nullptr && *noop != 0) {
        *factors = {0, 0, 0, 1};
        return;
    }
    // Nobody else reads step: the kernels that follow have the factors.
    *step += 1.0f;
    const double steps = *step, rate = *lr;
    *factors = {static_cast<float>(1 - rate * decay), static_cast<float>(rate / (1 - pow(beta1, steps))),
                static_cast<float>(1 / sqrt(1 - pow(beta2, steps))), 0};
}

template<class T, class U>
struct Adam {
    static constexpr int lists = 4, N = 4; // grads, params, exp_avg, exp_avg_sq

    template<int n>
    struct Held {
        Vector<T, n> grad;
        Vector<U, n> param;
        Vector<float, n> average, average_of_squares;
    };

    float beta1, rest1;      // 1 - beta1
    float beta2, root_rest2; // the root of 1 - beta2
    float coupled_decay;     // of the parameters, added to their gradient
    float eps;
    const AdamFactors *factors;

    __device__ __forceinline__ AdamFactors now() const { return *factors; }

    template<int n>
    __device__ __forceinline__ void read(Held<n> &held, void *const (&data)[lists], int64_t i) const {
        held.grad = read_vector<T, n>(data[0], i);
        held.param = read_vector<U, n>(data[1], i);
        held.average = read_vector<float, n>(data[2], i);
        held.average_of_squares = read_vector<float, n>(data[3], i);
    }

    template<int n>
    __device__ __forceinline__ void write(const Held<n> &held, void *const (&data)[lists], int64_t i,
                                          const AdamFactors &now) const {
        float params[n], averages[n], averages_of_squares[n];
#pragma unroll
        for (int k = 0; k < n; ++k) {
            const float p = to_f32(held.param.elements[k]);
            const float g = fmaf(p, coupled_decay, to_f32(held.grad.elements[k]));
            const float m = fmaf(held.average.elements[k], beta1, g * rest1);
            // Squared last, so that it overflows only where the average does.
            const float part = g * root_rest2;
            const float v = fmaf(held.average_of_squares.elements[k], beta2, part * part);
            params[k] = fmaf(-now.rate, m / fmaf(sqrtf(v), now.root_scale, eps), p * now.shrink);
            averages[k] = m;
            averages_of_squares[k] = v;
        }
        write_vector<n, U>(data[1], i, params);
        write_vector<n, float>(data[2], i, averages);
        write_vector<n, float>(data[3], i, averages_of_squares);
    }
};

uint64_t adam_workspace(const opdock::Problem & /*problem*/) {
    return sizeof(AdamFactors);
}

opdock::Status adam(const opdock::Call &call) {
    const double beta1 = call.get_float(0), beta2 = call.get_float(1), decay = call.get_float(3);
    const bool decoupled = call.get_bool(4);
    auto *factors = static_cast<AdamFactors *>(call.workspace());
    opdock::Status begun =
        launch(call, {1, 1}, adam_begin_kernel, static_cast<const float *>(input_data(call, 4)),
               static_cast<float *>(input_data(call, 5)), static_cast<const int32_t *>(input_data(call, 6)), beta1,
               beta2, decoupled ? decay : 0.0, factors);
    if (!begun.ok() || call.inputs_of(0).empty()) {
        return begun;
    }
    return visit_weighted(call.inputs_of(0)[0]->dtype, call.inputs_of(1)[0]->dtype, [&](auto t, auto u) {
        Adam<typename decltype(t)::type, typename decltype(u)::type> step;
        step.beta1 = static_cast<float>(beta1);
        step.rest1 = static_cast<float>(1 - beta1);
        step.beta2 = static_cast<float>(beta2);
        step.root_rest2 = static_cast<float>(std::sqrt(1 - beta2));
        step.coupled_decay = static_cast<float>(decoupled ? 0 : decay);
        step.eps = static_cast<float>(call.get_float(2));
        step.factors = factors;
        return run_step(call, step);
    });
}

struct SgdNow {
    float lr;
    bool skip;
};

template<class T, class U>
struct Sgd {
    static constexpr int lists = 3, N = 4; // grads, params, momentum_buffers

    template<int n>
    struct Held {
        Vector<T, n> grad;
        Vector<U, n> param;
        Vector<float, n> buffer;
    };

    float decay;
    float momentum;
    float taken;       // how much of the gradient goes into the buffer
    bool has_momentum; // or the buffers are not touched
    bool reads_buffer; // the first run does not: there may be anything in it
    bool nesterov;
    const float *lr;
    const int32_t *noop; // null when absent

    __device__ __forceinline__ SgdNow now() const { return {*lr, noop != nullptr && *noop != 0}; }

    template<int n>
    __device__ __forceinline__ void read(Held<n> &held, void *const (&data)[lists], int64_t i) const {
        held.grad = read_vector<T, n>(data[0], i);
        held.param = read_vector<U, n>(data[1], i);
        if (reads_buffer) {
            held.buffer = read_vector<float, n>(data[2], i);
        }
    }

    template<int n>
    __device__ __forceinline__ void write(const Held<n> &held, void *const (&data)[lists], int64_t i,
                                          const SgdNow &now) const {
        float params[n], buffers[n];
#pragma unroll
        for (int k = 0; k < n; ++k) {
            const float p = to_f32(held.param.elements[k]);
            float step = fmaf(p, decay, to_f32(held.grad.elements[k]));
            if (has_momentum) {
                buffers[k] = reads_buffer ? fmaf(held.buffer.elements[k], momentum, step * taken) : step;
                step = nesterov ? fmaf(buffers[k], momentum, step) : buffers[k];
            }
            params[k] = fmaf(-now.lr, step, p);
        }
        write_vector<n, U>(data[1], i, params);
        if (has_momentum) {
            write_vector<n, float>(data[2], i, buffers);
        }
    }
};

opdock::Status sgd(const opdock::Call &call) {
    if (call.inputs_of(0).empty()) {
        return {};
    }
    return visit_weighted(call.inputs_of(0)[0]->dtype, call.inputs_of(1)[0]->dtype, [&](auto t, auto u) {
        Sgd<typename decltype(t)::type, typename decltype(u)::type> step;
        step.decay = static_cast<float>(call.get_float(2));
        step.momentum = static_cast<float>(call.get_float(0));
        step.taken = static_cast<float>(1 - call.get_float(1));
        step.has_momentum = call.get_float(0) != 0;
        step.reads_buffer = step.has_momentum && !call.get_bool(4);
        step.nesterov = call.get_bool(3);
        step.lr = static_cast<const float *>(input_data(call, 3));
        step.noop = static_cast<const int32_t *>(input_data(call, 4));
        return run_step(call, step);
    });
}

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
    int32_t *found_inf; // null when absent

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
            *found_inf = 1; // the same from whoever writes it
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

// The sum of squares of a vector. It is taken in f32, and again in f64 where it passes the range of f32 at either end:
// f64 for all elements would cost more than reading them.
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

// The sum over the block, for thread 0; the others get parts of it. Any count of threads.
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

// Each block goes through every gridDim.x-th chunk and leaves one sum.
template<int unroll, class T>
__global__ void __launch_bounds__(most_threads<unroll>) squares_kernel(Table<1> table, int32_t chunks, double *sums) {
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
    double sum = 0;
    for (int64_t i = threadIdx.x; i < count; i += norm_threads) {
        sum += sums[i];
    }
    sum = sum_of_block(sum);
    if (threadIdx.x == 0) {
        *norm = static_cast<float>(sqrt(sum));
    }
}

// Blocks of one launch: they stay, eight on each compute unit.
int64_t norm_blocks(const opdock::Problem &problem, int64_t chunks) {
    return std::min<int64_t>(chunks, 8 * static_cast<int64_t>(compute_units(problem)));
}

// One f64 for each block of each launch.
uint64_t norm_workspace(const opdock::Problem &problem) {
    const auto tensors = static_cast<int64_t>(problem.inputs_of(0).size());
    // A launch more: a table may also be full by its chunks.
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
    plugin.add(ops::multi_tensor_adam, weighted,
               {opdock::kernel<&adam>, Knobs::elementwise, nullptr, opdock::workspace_size<&adam_workspace>});
    plugin.add(ops::multi_tensor_sgd, weighted, {opdock::kernel<&sgd>, Knobs::elementwise});
    plugin.add(ops::multi_tensor_l2norm, any_float,
               {opdock::kernel<&norm>, Knobs::elementwise, nullptr, opdock::workspace_size<&norm_workspace>});
    plugin.add(ops::multi_tensor_scale, any_float, {opdock::kernel<&scale>, Knobs::elementwise});
}

} // namespace gpu
