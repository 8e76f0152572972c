// The scaled softmaxes, forward and backward: a group of threads per row, one pass over memory for rows that fit into
// its registers.
#include "exp_sum.cuh"
#include "ops/ops.hpp"
#include "row_batches.cuh"
#include "rows.cuh"

namespace gpu {
namespace {

enum class Keys {
    all,
    causal, // the last query sees all keys, each one before it one less
    masked,
};

struct Softmax {
    int64_t rows, n;
    int64_t queries;      // of the last but one dim
    int64_t rows_of_mask; // that share one
    float scale;

    // How many keys a row sees, the mask aside.
    template<Keys keys>
    __device__ __forceinline__ int64_t seen(int64_t row) const {
        return keys == Keys::causal ? max(row % queries + 1 + n - queries, int64_t(0)) : n;
    }
    __device__ __forceinline__ int64_t row_of_mask(int64_t row) const {
        return row / rows_of_mask * queries + row % queries;
    }
};

template<int N>
__device__ __forceinline__ int64_t whole_vectors(int64_t n) {
    return (n + N - 1) / N * N;
}

// A bit for each of the N keys from `i` on that is not among the first `seen`, of which i is one.
template<int N>
__device__ __forceinline__ unsigned past(int64_t i, int64_t seen) {
    return i + N <= seen ? 0u : ~0u << static_cast<int>(seen - i);
}

// A bit for each of N keys that the mask hides.
template<int N>
__device__ __forceinline__ unsigned flagged(const Vector<uint8_t, N> &mask) {
    unsigned bits = 0;
#pragma unroll
    for (int k = 0; k < N; ++k) {
        bits |= mask.elements[k] != 0 ? 1u << k : 0u;
    }
    return bits;
}

// Largest elements are those of sign * x, where the sign is that of the scale.
template<class T, int N, int V, Keys keys>
__global__ void __launch_bounds__(1024)
    forward_kernel(Softmax shape, int threads, const T *inputs, const uint8_t *masks, T *outputs) {
    extern __shared__ float shared[];
    const Place place = place_of(threads, shape.rows);
    const T *input = inputs + place.row * shape.n;
    T *output = outputs + place.row * shape.n;
    const int64_t n = place.exists ? shape.n : 0;
    const int64_t seen = place.exists ? shape.seen<keys>(place.row) : 0;
    const int64_t end = whole_vectors<N>(seen);
    const uint8_t *mask = keys == Keys::masked && place.exists ? masks + shape.row_of_mask(place.row) * n : nullptr;
    const float sign = shape.scale < 0.0f ? -1.0f : 1.0f;
    const float factor = fabsf(shape.scale) * log2_e;

    const auto hidden_at = [&](int64_t i) -> unsigned {
        if constexpr (keys == Keys::causal) {
            return past<N>(i, seen);
        } else if constexpr (keys == Keys::masked) {
            return flagged<N>(*reinterpret_cast<const Vector<uint8_t, N> *>(mask + i));
        } else {
            return 0u;
        }
    };

    if constexpr (V == 0) {
        const auto each = [&](auto body) {
            in_batches<N>(end, place, [&](int64_t from, int64_t count) {
                const Row<T, N, batch> part(input + from, count, place);
                part.each([&](int64_t i, const float(&values)[N]) {
                    float x[N];
#pragma unroll
                    for (int k = 0; k < N; ++k) {
                        x[k] = sign * values[k];
                    }
                    body(from + i, x, hidden_at(from + i));
                });
            });
        };
        ExpSum total;
        each([&](int64_t, const float(&x)[N], unsigned hidden) { total.add(x, factor, hidden); });
        float nothing = 0.0f;
        total = reduce_exp_sum(total, nothing, factor, threads, shared);
        const float inverse = total.sum == 0.0f ? 0.0f : 1.0f / total.sum;
        each([&](int64_t i, const float(&x)[N], unsigned hidden) {
            float y[N];
#pragma unroll
            for (int k = 0; k < N; ++k) {
                y[k] = (hidden >> k & 1) != 0 ? 0.0f : exp2_of((x[k] - total.largest) * factor) * inverse;
            }
            store<N>(output + i, y);
        });
    } else {
        Row<T, N, V> row(input, end, place);
        // What the mask says is read once; where keys end is known without a register for each vector.
        unsigned flags[keys == Keys::masked ? V : 1] = {};
        if constexpr (keys == Keys::masked) {
            row.each_vector([&](int v, int i) { flags[v] = hidden_at(static_cast<int64_t>(i) * N); });
        }
        const auto hidden_of = [&](int v, int i) {
            return keys == Keys::masked ? flags[keys == Keys::masked ? v : 0] : hidden_at(static_cast<int64_t>(i) * N);
        };
        float largest = -INFINITY;
        row.each_vector([&](int v, int i) {
            const unsigned hidden = hidden_of(v, i);
            float x[N];
            row.get(v, i, x);
#pragma unroll
            for (int k = 0; k < N; ++k) {
                largest = fmaxf(largest, (hidden >> k & 1) != 0 ? -INFINITY : sign * x[k]);
            }
        });
        row.stay_narrow();
        largest = reduce<Largest>(largest, threads, shared);
        const auto exponentials = [&](int v, int i, float(&x)[N]) {
            const unsigned hidden = hidden_of(v, i);
            row.get(v, i, x);
#pragma unroll
            for (int k = 0; k < N; ++k) {
                x[k] = (hidden >> k & 1) != 0 ? 0.0f : exp2_of((sign * x[k] - largest) * factor);
            }
        };
        // Where registers are enough, exponentials are computed once.
        constexpr bool kept = V * N <= 32;
        float keep[kept ? V : 1][N];
        float sum = 0.0f;
        row.each_vector([&](int v, int i) {
            float(&e)[N] = keep[kept ? v : 0];
            exponentials(v, i, e);
#pragma unroll
            for (int k = 0; k < N; ++k) {
                sum += e[k];
            }
        });
        row.stay_narrow();
        sum = reduce<Sum>(sum, threads, shared);
        const float inverse = sum == 0.0f ? 0.0f : 1.0f / sum;
        row.each_vector([&](int v, int i) {
            float(&e)[N] = keep[kept ? v : 0];
            if constexpr (!kept) {
                exponentials(v, i, e);
            }
#pragma unroll
            for (int k = 0; k < N; ++k) {
                e[k] *= inverse;
            }
            store<N>(output + static_cast<int64_t>(i) * N, e);
        });
    }
    if constexpr (keys == Keys::causal) {
        clear<N>(output, end, n, place);
    }
}

// grad_input = scale * output * (grad - sum(grad * output))
template<class T, int N, int V, Keys keys>
__global__ void __launch_bounds__(1024)
    backward_kernel(Softmax shape, int threads, const T *grads, const T *outputs, T *grad_inputs) {
    extern __shared__ float shared[];
    const Place place = place_of(threads, shape.rows);
    const T *grad = grads + place.row * shape.n;
    const T *output = outputs + place.row * shape.n;
    T *grad_input = grad_inputs + place.row * shape.n;
    const int64_t n = place.exists ? shape.n : 0;
    const int64_t seen = place.exists ? shape.seen<keys>(place.row) : 0;
    const int64_t end = whole_vectors<N>(seen);
    const auto hidden_at = [&](int64_t i) { return keys == Keys::causal ? past<N>(i, seen) : 0u; };

    float sum = 0.0f;
    const auto project = [&](int64_t i, const float(&g)[N], const float(&y)[N]) {
        const unsigned hidden = hidden_at(i);
#pragma unroll
        for (int k = 0; k < N; ++k) {
            sum = (hidden >> k & 1) != 0 ? sum : fmaf(g[k], y[k], sum);
        }
    };
    const auto write = [&](int64_t i, const float(&g)[N], const float(&y)[N]) {
        const unsigned hidden = hidden_at(i);
        float to[N];
#pragma unroll
        for (int k = 0; k < N; ++k) {
            to[k] = (hidden >> k & 1) != 0 ? 0.0f : shape.scale * y[k] * (g[k] - sum);
        }
        store<N>(grad_input + i, to);
    };
    if constexpr (V == 0) {
        const auto each = [&](auto body) {
            constexpr int of_each = batch / 2; // of both rows as many as elsewhere of one
            in_batches<N, of_each>(end, place, [&](int64_t from, int64_t count) {
                const Row<T, N, of_each> g(grad + from, count, place), y(output + from, count, place);
                g.each(y, [&](int64_t i, const float(&a)[N], const float(&b)[N]) { body(from + i, a, b); });
            });
        };
        each(project);
        sum = reduce<Sum>(sum, threads, shared);
        each(write);
    } else {
        Row<T, N, V> g(grad, end, place), y(output, end, place);
        g.each(y, project);
        g.stay_narrow();
        y.stay_narrow();
        sum = reduce<Sum>(sum, threads, shared);
        g.each(y, write);
    }
    if constexpr (keys == Keys::causal) {
        clear<N>(grad_input, end, n, place);
    }
}

Softmax shape_of(const opdock::Problem &problem) {
    const DLTensor &shape = *problem.input(0);
    Softmax softmax = {};
    softmax.rows = row_count(shape);
    softmax.n = row_size(shape);
    softmax.queries = shape.ndim > 1 ? shape.shape[shape.ndim - 2] : 1;
    softmax.rows_of_mask = softmax.rows;
    softmax.scale = static_cast<float>(problem.get_float(0));
    return softmax;
}

template<Keys keys>
opdock::Status forward(const opdock::Call &call) {
    Softmax shape = shape_of(call);
    const RowKnobs knobs = RowKnobs::of(call);
    const uint8_t *mask = nullptr;
    if constexpr (keys == Keys::masked) {
        mask = static_cast<const uint8_t *>(input_data(call, 1));
        if (call.input(1)->shape[0] != 1) {
            shape.rows_of_mask = call.input(0)->shape[1] * shape.queries;
        }
    }
    return visit_floating(call.input(0)->dtype, [&](auto t) {
        using T = typename decltype(t)::type;
        const auto *input = static_cast<const T *>(input_data(call, 0));
        auto *output = static_cast<T *>(output_data(call, 0));
        const int width = width_of<T>(shape.n, all_aligned(input, mask, output));
        const RowPlan plan = plan_rows(shape.n, width, knobs.threads, knobs.block);
        return visit_plan<T>(plan, [&](auto N, auto V) {
            return launch(call, plan.grid(shape.rows, 2),
                          forward_kernel<T, decltype(N)::value, decltype(V)::value, keys>, shape, plan.threads, input,
                          mask, output);
        });
    });
}

template<Keys keys>
opdock::Status backward(const opdock::Call &call) {
    const Softmax shape = shape_of(call);
    const RowKnobs knobs = RowKnobs::of(call);
    return visit_floating(call.input(0)->dtype, [&](auto t) {
        using T = typename decltype(t)::type;
        const auto *grad = static_cast<const T *>(input_data(call, 0));
        const auto *output = static_cast<const T *>(input_data(call, 1));
        auto *grad_input = static_cast<T *>(output_data(call, 0));
        const int width = width_of<T>(shape.n, all_aligned(grad, output, grad_input));
        // Both rows are held, which leaves registers for half as much of each.
        constexpr int most_held = 4;
        const RowPlan plan = plan_rows(shape.n, width, knobs.threads, knobs.block, most_held);
        return visit_plan<T>(plan, [&](auto N, auto V) {
            constexpr int held = std::min(decltype(V)::value, most_held);
            return launch(call, plan.grid(shape.rows), backward_kernel<T, decltype(N)::value, held, keys>, shape,
                          plan.threads, grad, output, grad_input);
        });
    });
}

template<Keys keys>
constexpr Implementation forward_functions = {opdock::kernel<&forward<keys>>, Knobs::rows};
template<Keys keys>
constexpr Implementation backward_functions = {opdock::kernel<&backward<keys>>, Knobs::rows};

} // namespace

void add_softmax(Plugin &plugin) {
    namespace ops = opdock::ops;
    plugin.add(ops::scaled_softmax_forward, any_float, forward_functions<Keys::all>);
    plugin.add(ops::scaled_softmax_backward, any_float, backward_functions<Keys::all>);
    plugin.add(ops::scaled_masked_softmax_forward, any_float, forward_functions<Keys::masked>);
    plugin.add(ops::scaled_masked_softmax_backward, any_float, backward_functions<Keys::all>);
    plugin.add(ops::scaled_upper_triang_masked_softmax_forward, any_float, forward_functions<Keys::causal>);
    plugin.add(ops::scaled_upper_triang_masked_softmax_backward, any_float, backward_functions<Keys::causal>);
    plugin.add(ops::scaled_aligned_causal_masked_softmax_forward, any_float, forward_functions<Keys::causal>);
    plugin.add(ops::scaled_aligned_causal_masked_softmax_backward, any_float, backward_functions<Keys::causal>);
}

} // namespace gpu
