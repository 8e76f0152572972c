// The scaled softmaxes, forward and backward: a group of threads per
// row, in one pass over memory if the row fits into its registers.
#include "exp_sum.cuh"
#include "ops/ops.hpp"
#include "row_batches.cuh"
#include "rows.cuh"

namespace gpu {
namespace {

enum class Keys {
    all,
    causal, // the last query sees all keys, and each earlier one sees one key less
    masked,
};

struct Softmax {
    int64_t rows, n;
    int64_t queries;      // size of the last but one dim
    int64_t rows_of_mask; // rows that share one
    float scale;

    // The number of keys that a row sees, ignoring the mask.
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

// Sets the bits of those of the N keys from `i` on that are not among the first `seen`; key i is among them.
template<int N>
__device__ __forceinline__ unsigned past(int64_t i, int64_t seen) {
    return i + N <= seen ? 0u : ~0u << static_cast<int>(seen - i);
}

// Sets the bits of those of the N keys that the mask hides.
template<int N>
__device__ __forceinline__ unsigned flagged(const Vector<uint8_t, N> &mask) {
    unsigned bits = 0;
#pragma unroll
    for (int k = 0; k < N; ++k) {
        bits |= mask.elements[k] != 0 ? 1u << k : 0u;
    }
    return bits;
}

// The row of a group of threads, or none. With a negative scale,
// elements are negated, and the scale is its absolute value.
template<class T, int N, Keys keys>
struct SoftmaxRow {
    Place place;
    const T *input;
    T *output;
    int64_t n, seen, end; // end: elements that are read, in whole vectors
    const uint8_t *mask;
    bool negative;
    float factor;

    __device__ __forceinline__ SoftmaxRow(const Softmax &shape, int threads, const T *inputs, const uint8_t *masks,
                                          T *outputs)
        : place(place_of(threads, shape.rows)), input(inputs + place.row * shape.n),
          output(outputs + place.row * shape.n), n(place.exists ? shape.n : 0),
          seen(place.exists ? shape.seen<keys>(place.row) : 0), end(whole_vectors<N>(seen)),
          mask(keys == Keys::masked && place.exists ? masks + shape.row_of_mask(place.row) * n : nullptr),
          negative(shape.scale < 0.0f), factor(fabsf(shape.scale) * log2_e) {}

    // Sets the bits of those of the N keys from i on that are not seen.
    __device__ __forceinline__ unsigned hidden_at(int64_t i) const {
        if constexpr (keys == Keys::causal) {
            return past<N>(i, seen);
        } else if constexpr (keys == Keys::masked) {
            return flagged<N>(*reinterpret_cast<const Vector<uint8_t, N> *>(mask + i));
        } else {
            return 0u;
        }
    }
};

template<int N>
__device__ __forceinline__ void clear_hidden(float (&y)[N], unsigned hidden) {
#pragma unroll
    for (int k = 0; k < N; ++k) {
        y[k] = (hidden >> k & 1) != 0 ? 0.0f : y[k];
    }
}

// Reads the row twice.
template<class T, int N, Keys keys>
__device__ __forceinline__ void forward_in_batches(const SoftmaxRow<T, N, keys> &of, int threads, float *shared) {
    const auto each = [&](auto body) {
        in_batches<N>(of.end, of.place, [&](int64_t from, int64_t count) {
            const Row<T, N, batch> part(of.input + from, count, of.place);
            part.each([&](int64_t i, const float(&values)[N]) {
                float x[N];
#pragma unroll
                for (int k = 0; k < N; ++k) {
                    x[k] = of.negative ? -values[k] : values[k];
                }
                body(from + i, x, of.hidden_at(from + i));
            });
        });
    };
    float total[2]; // an ExpSum
    gather_exp_sum(total, of.factor, threads, shared, [&](auto is_in_range, float(&values)[2]) {
        ExpSum mine;
        each([&](int64_t, const float(&x)[N], unsigned hidden) {
            mine.add<decltype(is_in_range)::value != 0>(x, of.factor, hidden);
        });
        values[0] = mine.largest;
        values[1] = mine.sum;
    });
    const Exponential of_all(of.factor, total[0]);
    const float scale = 1.0f / total[1]; // NaN for a row of minus infinity only, as intended
    visit_range(of_all, [&](auto is_in_range) {
        each([&](int64_t i, const float(&x)[N], unsigned hidden) {
            float y[N];
            of_all.of<decltype(is_in_range)::value != 0>(x, y);
#pragma unroll
            for (int k = 0; k < N; ++k) {
                y[k] = (hidden >> k & 1) != 0 ? 0.0f : y[k] * scale;
            }
            store<N>(of.output + i, y);
        });
    });
}

// A row in registers. The mask is read once; the end of the keys takes no register per vector.
template<class T, int N, int V, Keys keys>
struct HeldRow {
    const SoftmaxRow<T, N, keys> &of;
    Row<T, N, V> row;
    unsigned flags[keys == Keys::masked ? V : 1] = {};

    __device__ __forceinline__ explicit HeldRow(const SoftmaxRow<T, N, keys> &whole)
        : of(whole), row(whole.input, whole.end, whole.place) {
        if (of.negative) {
            row.negate();
        }
        if constexpr (keys == Keys::masked) {
            row.each_vector([&](int v, int i) { flags[v] = of.hidden_at(static_cast<int64_t>(i) * N); });
        }
    }
    __device__ __forceinline__ unsigned hidden(int v, int i) const {
        return keys == Keys::masked ? flags[keys == Keys::masked ? v : 0] : of.hidden_at(static_cast<int64_t>(i) * N);
    }
    __device__ __forceinline__ float largest() const {
        float best = -INFINITY;
        row.each_vector([&](int v, int i) {
            const unsigned without = hidden(v, i);
            float x[N];
            row.get(v, i, x);
#pragma unroll
            for (int k = 0; k < N; ++k) {
                best = fmaxf(best, (without >> k & 1) != 0 ? -INFINITY : x[k]);
            }
        });
        return best;
    }
    template<bool is_in_range>
    __device__ __forceinline__ void powers(int v, int i, const Exponential &exponential, float (&to)[N]) const {
        const unsigned without = hidden(v, i);
        float x[N];
        row.get(v, i, x);
        exponential.of<is_in_range>(x, to);
        clear_hidden(to, without);
    }
};

template<class T, int N, int V, Keys keys>
__device__ __forceinline__ void forward_held(const SoftmaxRow<T, N, keys> &of, int threads, float *shared) {
    HeldRow<T, N, V, keys> held(of);
    // Exponentials are first relative to the thread's own largest element, so that the group synchronizes once.
    ExpSum mine;
    mine.largest = held.largest();
    held.row.stay_narrow();
    // If there are enough registers, exponentials are computed only once.
    constexpr bool kept = V * N <= 32;
    float keep[kept ? V : 1][N];
    const Exponential mine_only(of.factor, mine.largest);
    visit_range(mine_only, [&](auto is_in_range) {
        held.row.each_vector([&](int v, int i) {
            float(&e)[N] = keep[kept ? v : 0];
            held.template powers<decltype(is_in_range)::value != 0>(v, i, mine_only, e);
#pragma unroll
            for (int k = 0; k < N; ++k) {
                mine.sum += e[k];
            }
        });
    });
    held.row.stay_narrow();
    const ExpSum total = reduce_exp_sum<Relative::by_range>(mine, of.factor, threads, shared);
    const Exponential of_all(of.factor, total.largest);
    const float of_mine = !kept ? 1.0f : mine.sum == 0.0f ? 0.0f : mine_only.to<Relative::by_range>(of_all);
    const float scale = of_mine / total.sum;
    const auto write = [&](auto is_in_range) {
        held.row.each_vector([&](int v, int i) {
            float(&e)[N] = keep[kept ? v : 0];
            if constexpr (!kept) {
                held.template powers<decltype(is_in_range)::value != 0>(v, i, of_all, e);
            }
#pragma unroll
            for (int k = 0; k < N; ++k) {
                e[k] *= scale;
            }
            if (total.sum == 0.0f) { // a row of minus infinity only: -inf - -inf is NaN
#pragma unroll
                for (int k = 0; k < N; ++k) {
                    e[k] = NAN;
                }
                clear_hidden(e, held.hidden(v, i));
            }
            store<N>(of.output + static_cast<int64_t>(i) * N, e);
        });
    };
    if constexpr (kept) {
        write(Number<1>{});
    } else {
        visit_range(of_all, write);
    }
}

template<class T, int N, int V, Keys keys>
__global__ void __launch_bounds__(1024)
    forward_kernel(Softmax shape, int threads, const T *inputs, const uint8_t *masks, T *outputs) {
    wait_for_earlier_kernels();
    let_the_next_start(128);
    extern __shared__ float shared[];
    const SoftmaxRow<T, N, keys> row(shape, threads, inputs, masks, outputs);
    if constexpr (V == 0) {
        forward_in_batches(row, threads, shared);
    } else {
        forward_held<T, N, V>(row, threads, shared);
    }
    if constexpr (keys == Keys::causal) {
        clear<N>(row.output, row.end, row.n, row.place);
    }
}

// grad_input = scale * output * (grad - sum(grad * output))
template<class T, int N, int V, Keys keys>
__global__ void __launch_bounds__(1024)
    backward_kernel(Softmax shape, int threads, const T *grads, const T *outputs, T *grad_inputs) {
    wait_for_earlier_kernels();
    let_the_next_start(128);
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
            constexpr int of_each = batch / 2; // both rows together as many as elsewhere one
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
            return launch(call, plan.grid(shape.rows, 4),
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
        // Both rows are held, so that registers have room for half as much of each.
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
    plugin.add(ops::scaled_softmax_fwd, any_float, forward_functions<Keys::all>);
    plugin.add(ops::scaled_softmax_bwd, any_float, backward_functions<Keys::all>);
    plugin.add(ops::scaled_masked_softmax_fwd, any_float, forward_functions<Keys::masked>);
    plugin.add(ops::scaled_masked_softmax_bwd, any_float, backward_functions<Keys::all>);
    plugin.add(ops::scaled_upper_triang_masked_softmax_fwd, any_float, forward_functions<Keys::causal>);
    plugin.add(ops::scaled_upper_triang_masked_softmax_bwd, any_float, backward_functions<Keys::causal>);
    plugin.add(ops::scaled_aligned_causal_masked_softmax_fwd, any_float, forward_functions<Keys::causal>);
    plugin.add(ops::scaled_aligned_causal_masked_softmax_bwd, any_float, backward_functions<Keys::causal>);
}

} // namespace gpu
