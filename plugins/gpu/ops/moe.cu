// moe_align, moe_permute and moe_unpermute, with the gradients of the latter two.
//
// Launches do not depend on data on the device. The host cannot check that data; invalid values are skipped here: an
// invalid expert counts as dropped, and a place outside the rows is neither read nor written.
#include "ops/ops.hpp"
#include "rows.cuh"

namespace gpu {
namespace {

// Choices per block of moe_align; threads per block.
constexpr int chunk = 1024, align_block = 256;

struct Align {
    int64_t choices, chunks;
    int experts;

    explicit Align(const opdock::Problem &problem)
        : choices(element_count(*problem.input(0))), chunks(std::max<int64_t>(1, ceil_div(choices, chunk))),
          experts(static_cast<int>(problem.get_int(0))) {}

    // One per expert, and one for dropped choices.
    __host__ __device__ int buckets() const { return experts + 1; }
};

// The buckets of a block's choices; -1 past the last choice.
struct alignas(16) Buckets {
    int of[chunk];

    __device__ __forceinline__ void load(const Align &shape, const int32_t *indices) {
        const int64_t begin = static_cast<int64_t>(blockIdx.x) * chunk;
        for (int i = static_cast<int>(threadIdx.x); i < chunk; i += align_block) {
            const bool exists = begin + i < shape.choices;
            const int index = exists ? indices[begin + i] : -1;
            of[i] = !exists ? -1 : index < 0 || index > shape.experts ? shape.experts : index;
        }
        __syncthreads();
    }

    // Calls body(i) for the choices of a bucket, in order. Reads 16 at a time.
    template<class Body>
    __device__ __forceinline__ void each(int bucket, int64_t choices, Body body) const {
        const int64_t left = choices - static_cast<int64_t>(blockIdx.x) * chunk;
        const int count = left < chunk ? static_cast<int>(left) : chunk;
        for (int first = 0; first < count; first += 16) {
            int found[16];
#pragma unroll
            for (int i = 0; i < 16; i += 4) {
                *reinterpret_cast<int4 *>(found + i) = *reinterpret_cast<const int4 *>(of + first + i);
            }
#pragma unroll
            for (int i = 0; i < 16; ++i) {
                if (found[i] == bucket) {
                    body(first + i);
                }
            }
        }
    }
};

// Writes counts[chunk][bucket]. A thread has every align_block-th bucket, and scans all choices of the chunk.
__global__ void __launch_bounds__(align_block) count_kernel(Align shape, const int32_t *indices, int *counts) {
    wait_for_earlier_kernels();
    __shared__ Buckets buckets;
    buckets.load(shape, indices);
    counts += static_cast<int64_t>(blockIdx.x) * shape.buckets();
    for (int bucket = static_cast<int>(threadIdx.x); bucket < shape.buckets(); bucket += align_block) {
        int found = 0;
        buckets.each(bucket, shape.choices, [&](int) { ++found; });
        counts[bucket] = found;
    }
}

// Turns counts into the offsets of each chunk's choices in their bucket, and computes the starts
// of the buckets. A single block, with one thread for each of up to 1024 buckets at a time.
__global__ void __launch_bounds__(1024) starts_kernel(Align shape, int *counts, int32_t *starts) {
    wait_for_earlier_kernels();
    __shared__ int ends[1024];
    int before = 0;
    for (int from = 0; from < shape.buckets(); from += 1024) {
        const int bucket = from + static_cast<int>(threadIdx.x);
        int mine = 0;
        if (bucket < shape.buckets()) {
            constexpr int64_t batch = 32; // these reads overlap
            for (int64_t c = 0; c < shape.chunks; c += batch) {
                int *const of_chunks = counts + c * shape.buckets() + bucket;
                int found[batch];
#pragma unroll
                for (int64_t i = 0; i < batch; ++i) {
                    found[i] = c + i < shape.chunks ? of_chunks[i * shape.buckets()] : 0;
                }
#pragma unroll
                for (int64_t i = 0; i < batch; ++i) {
                    if (c + i < shape.chunks) {
                        of_chunks[i * shape.buckets()] = mine;
                    }
                    mine += found[i];
                }
            }
        }
        int end = mine;
        ends[threadIdx.x] = end;
        for (unsigned distance = 1; distance < 1024; distance *= 2) {
            __syncthreads();
            const int added = threadIdx.x >= distance ? ends[threadIdx.x - distance] : 0;
            __syncthreads();
            end += added;
            ends[threadIdx.x] = end;
        }
        __syncthreads();
        if (bucket < shape.buckets()) {
            starts[bucket] = before + end - mine;
        }
        before += ends[1023];
        __syncthreads();
    }
}

__global__ void __launch_bounds__(align_block) place_kernel(Align shape, const int32_t *indices, const int *begins,
                                                            const int32_t *starts, int32_t *places, int32_t *order) {
    wait_for_earlier_kernels();
    __shared__ Buckets buckets;
    buckets.load(shape, indices);
    const int64_t begin = static_cast<int64_t>(blockIdx.x) * chunk;
    begins += static_cast<int64_t>(blockIdx.x) * shape.buckets();
    for (int bucket = static_cast<int>(threadIdx.x); bucket < shape.buckets(); bucket += align_block) {
        int place = starts[bucket] + begins[bucket];
        buckets.each(bucket, shape.choices, [&](int i) {
            places[begin + i] = bucket == shape.experts ? -1 - place : place;
            order[place++] = static_cast<int32_t>(begin + i);
        });
    }
}

uint64_t align_workspace(const opdock::Problem &problem) {
    const Align shape(problem);
    return static_cast<uint64_t>(shape.chunks) * static_cast<uint64_t>(shape.buckets()) * sizeof(int);
}

opdock::Status align(const opdock::Call &call) {
    const Align shape(call);
    const auto *indices = static_cast<const int32_t *>(input_data(call, 0));
    auto *counts = static_cast<int *>(call.workspace());
    auto *starts = static_cast<int32_t *>(output_data(call, 2));
    const Grid grid = {shape.chunks, align_block};
    opdock::Status counted = launch(call, grid, count_kernel, shape, indices, counts);
    if (!counted.ok()) {
        return counted;
    }
    opdock::Status begun = launch(call, {1, 1024}, starts_kernel, shape, counts, starts);
    if (!begun.ok()) {
        return begun;
    }
    return launch(call, grid, place_kernel, shape, indices, counts, starts,
                  static_cast<int32_t *>(output_data(call, 0)), static_cast<int32_t *>(output_data(call, 1)));
}

struct Choices {
    int64_t tokens, n;
    int k;

    Choices(const DLTensor &places, const DLTensor &rows)
        : tokens(places.shape[0]), n(rows.shape[1]), k(static_cast<int>(places.shape[1])) {}

    __host__ __device__ int64_t rows() const { return tokens * k; }
    // True if the choice is not dropped.
    __device__ __forceinline__ bool has(int place) const { return place >= 0 && place < rows(); }
};

// One group of threads per choice.
template<class Bits>
__global__ void __launch_bounds__(1024)
    permute_few_kernel(Choices shape, int64_t n, int threads, const Bits *input, const int32_t *places, Bits *output) {
    wait_for_earlier_kernels();
    let_the_next_start(128);
    const Place place = place_of(threads, shape.rows());
    if (!place.exists) {
        return;
    }
    const int at = places[place.row];
    const bool is_dropped = at < 0;
    const int64_t to = is_dropped ? -1 - at : at;
    input += place.row / shape.k * n;
    for (int64_t i = place.thread; i < n; i += threads) {
        const Bits element = input[i];
        if (to < shape.rows()) {
            output[to * n + i] = is_dropped ? Bits{} : element;
        }
    }
}

// One group of threads per token, which reads it once and writes its k rows.
template<class Bits>
__global__ void __launch_bounds__(1024)
    permute_kernel(Choices shape, int64_t n, int threads, const Bits *input, const int32_t *places, Bits *output) {
    wait_for_earlier_kernels();
    let_the_next_start(128);
    const Place place = place_of(threads, shape.tokens);
    if (!place.exists) {
        return;
    }
    places += place.row * shape.k;
    for (int64_t i = place.thread; i < n; i += threads) {
        const Bits element = input[place.row * n + i];
        for (int j = 0; j < shape.k; ++j) {
            const bool is_dropped = places[j] < 0;
            const int to = is_dropped ? -1 - places[j] : places[j];
            if (to < shape.rows()) {
                output[to * n + i] = is_dropped ? Bits{} : element;
            }
        }
    }
}

// Missing weights count as 1.
template<class T, int N>
__global__ void __launch_bounds__(1024)
    sum_kernel(Choices shape, int threads, const T *input, const int32_t *places, const float *weights, T *output) {
    wait_for_earlier_kernels();
    let_the_next_start(128);
    const Place place = place_of(threads, shape.tokens);
    if (!place.exists) {
        return;
    }
    const int64_t first = place.row * shape.k;
    for (int64_t i = static_cast<int64_t>(place.thread) * N; i < shape.n; i += static_cast<int64_t>(threads) * N) {
        float sums[N] = {};
#pragma unroll 4
        for (int j = 0; j < shape.k; ++j) {
            const int from = places[first + j];
            if (shape.has(from)) {
                const float weight = weights == nullptr ? 1.0f : weights[first + j];
                float values[N];
                load<N>(input + from * shape.n + i, values);
#pragma unroll
                for (int c = 0; c < N; ++c) {
                    sums[c] = fmaf(weight, values[c], sums[c]);
                }
            }
        }
        store<N>(output + place.row * shape.n + i, sums);
    }
}

// One group of threads per choice.
template<class T, int N>
__global__ void __launch_bounds__(1024)
    unpermute_bwd_kernel(Choices shape, int threads, const T *grads, const T *input, const int32_t *places,
                         const float *weights, T *grad_input, float *grad_weights) {
    wait_for_earlier_kernels();
    let_the_next_start(128);
    __shared__ float shared[most_warps];
    const Place place = place_of(threads, shape.rows());
    const int at = place.exists ? places[place.row] : 0;
    const bool is_dropped = at < 0;
    const int64_t row = is_dropped ? -1 - at : at;
    const int64_t n = place.exists && row < shape.rows() ? shape.n : 0;
    const T *grad = grads + (place.exists ? place.row / shape.k : 0) * shape.n;
    const float weight = place.exists ? weights[place.row] : 0.0f;
    float sum = 0.0f;
    for (int64_t i = static_cast<int64_t>(place.thread) * N; i < n; i += static_cast<int64_t>(threads) * N) {
        float g[N], x[N], to[N];
        load<N>(grad + i, g);
#pragma unroll
        for (int c = 0; c < N; ++c) {
            to[c] = is_dropped ? 0.0f : weight * g[c];
        }
        store<N>(grad_input + row * shape.n + i, to);
        if (grad_weights != nullptr && !is_dropped) {
            load<N>(input + row * shape.n + i, x);
#pragma unroll
            for (int c = 0; c < N; ++c) {
                sum = fmaf(g[c], x[c], sum);
            }
        }
    }
    if (grad_weights != nullptr) { // for all threads or none
        sum = reduce<Sum>(sum, threads, shared);
        if (place.exists && place.thread == 0) {
            grad_weights[place.row] = sum;
        }
    }
}

RowPlan plan_of(const opdock::Call &call, int64_t rows, int64_t n, int width) {
    return plan_rows(n, width, default_row_threads(rows, n / width, compute_units(call)), 128, 0);
}

template<class Bits>
opdock::Status copy_rows(const opdock::Call &call) {
    const DLTensor &input = *call.input(0);
    const Choices shape(*call.input(1), input);
    const int64_t n = shape.n * element_bytes(input) / static_cast<int64_t>(sizeof(Bits));
    if (n == 0) {
        return {};
    }
    const bool are_few = shape.rows() <= 8 * int64_t(compute_units(call));
    const int64_t groups = are_few ? shape.rows() : shape.tokens;
    const RowPlan plan = plan_of(call, groups, n, 1);
    return launch(call, plan.grid(groups, 0), are_few ? permute_few_kernel<Bits> : permute_kernel<Bits>, shape, n,
                  plan.threads, static_cast<const Bits *>(input_data(call, 0)),
                  static_cast<const int32_t *>(input_data(call, 1)), static_cast<Bits *>(output_data(call, 0)));
}

opdock::Status permute(const opdock::Call &call) {
    const DLTensor &input = *call.input(0);
    const bool vectors =
        input.shape[1] * element_bytes(input) % 16 == 0 && all_aligned(input_data(call, 0), output_data(call, 0));
    return vectors                     ? copy_rows<uint4>(call)
           : element_bytes(input) == 2 ? copy_rows<uint16_t>(call)
                                       : copy_rows<uint32_t>(call);
}

// Calls visit(Number<N>, plan) for the shape's rows.
template<class T, class Visitor, class... Pointers>
opdock::Status visit_width(const opdock::Call &call, int64_t rows, int64_t n, Visitor visit, Pointers... pointers) {
    const int width = width_of<T>(n, all_aligned(pointers...));
    const RowPlan plan = plan_of(call, rows, n, width);
    return width == 1 ? visit(Number<1>{}, plan) : visit(Number<wide<T>>{}, plan);
}

opdock::Status sum_choices(const opdock::Call &call, const float *weights) {
    const Choices shape(*call.input(1), *call.input(0));
    if (shape.n == 0) {
        return {};
    }
    return visit_floating(call.input(0)->dtype, [&](auto t) {
        using T = typename decltype(t)::type;
        const auto *input = static_cast<const T *>(input_data(call, 0));
        auto *output = static_cast<T *>(output_data(call, 0));
        const auto start = [&](auto N, const RowPlan &plan) {
            return launch(call, plan.grid(shape.tokens, 0), sum_kernel<T, decltype(N)::value>, shape, plan.threads,
                          input, static_cast<const int32_t *>(input_data(call, 1)), weights, output);
        };
        return visit_width<T>(call, shape.tokens, shape.n, start, input, output);
    });
}

opdock::Status permute_bwd(const opdock::Call &call) {
    return sum_choices(call, nullptr);
}

opdock::Status unpermute(const opdock::Call &call) {
    return sum_choices(call, static_cast<const float *>(input_data(call, 2)));
}

opdock::Status unpermute_bwd(const opdock::Call &call) {
    const Choices shape(*call.input(2), *call.input(0));
    return visit_floating(call.input(0)->dtype, [&](auto t) {
        using T = typename decltype(t)::type;
        const auto *grad = static_cast<const T *>(input_data(call, 0));
        const auto *input = static_cast<const T *>(input_data(call, 1));
        auto *grad_input = static_cast<T *>(output_data(call, 0));
        const auto start = [&](auto N, const RowPlan &plan) {
            return launch(call, plan.grid(shape.rows(), 0), unpermute_bwd_kernel<T, decltype(N)::value>, shape,
                          plan.threads, grad, input, static_cast<const int32_t *>(input_data(call, 2)),
                          static_cast<const float *>(input_data(call, 3)), grad_input,
                          static_cast<float *>(output_data(call, 1)));
        };
        return visit_width<T>(call, shape.rows(), shape.n, start, grad, input, grad_input);
    });
}

} // namespace

void add_moe(Plugin &plugin) {
    namespace ops = opdock::ops;
    plugin.add(ops::moe_align, "",
               {opdock::kernel<&align>, Knobs::none, nullptr, opdock::workspace_size<&align_workspace>});
    plugin.add(ops::moe_permute, any_float, {opdock::kernel<&permute>, Knobs::none});
    plugin.add(ops::moe_permute_bwd, any_float, {opdock::kernel<&permute_bwd>, Knobs::none});
    plugin.add(ops::moe_unpermute, any_float, {opdock::kernel<&unpermute>, Knobs::none});
    plugin.add(ops::moe_unpermute_bwd, any_float, {opdock::kernel<&unpermute_bwd>, Knobs::none});
}

} // namespace gpu
