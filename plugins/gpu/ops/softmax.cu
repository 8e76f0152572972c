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

// With a negative scale the elements are those of -x, and the scale its magnitude.
template<class T, int N, int V, Keys keys>
__global__ void __launch_bounds__(1024)
    forward_kernel(Softmax shape, int threads, const T *inputs, const uint8_t *masks, T *outputs) {
    wait_for_earlier_kernels();
    let_the_next_start(128);
    extern __shared__ float shared[];
    const Place place = place_of(threads, shape.rows);
    const T *input = inputs + place.row * shape.n;
    T *output = outputs + place.row * shape.n;
    const int64_t n = place.exists ? shape.n : 0;
    const int64_t seen = place.exists ? shape.seen<keys>(place.row) : 0;
    const int64_t end = whole_vectors<N>(seen);
    const uint8_t *mask = keys == Keys::masked && place.exists ? masks + shape.row_of_mask(place.row) * n : nullptr;
    const bool negative = shape.scale < 0.0f;
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
                        x[k] = negative ? -values[k] : values[k];
                    }
                    body(from + i, x, hidden_at(from + i));
                });
            });
        };
        float total[2]; // an ExpSum
        gather_exp_sum(total, factor, threads, shared, [&](auto is_in_range, float(&values)[2]) {
            ExpSum mine;
            each([&](int64_t, const float(&x)[N], unsigned hidden) {
                mine.add<decltype(is_in_range)::value != 0>(x, factor, hidden);
            });
            values[0] = mine.largest;
            values[1] = mine.sum;
        });
        const Exponential of_all(factor, total[0]);
        const float scale = 1.0f / total[1]; // of nothing but minus infinity no number, as it should be
        visit_range(of_all, [&](auto is_in_range) {
            each([&](int64_t i, const float(&x)[N], unsigned hidden) {
                float y[N];
                of_all.of<decltype(is_in_range)::value != 0>(x, y);
#pragma unroll
                for (int k = 0; k < N; ++k) {
                    y[k] = (hidden >> k & 1) != 0 ? 0.0f : y[k] * scale;
                }
                store<N>(output + i, y);
            });
        });
    } else {
        Row<T, N, V> row(input, end, place);
        if (negative) {
            row.negate();
        }
        // What the mask says is read once; where keys end is known without a register for each vector.
        unsigned flags[keys == Keys::masked ? V : 1] = {};
        if constexpr (keys == Keys::masked) {
            row.each_vector([&](int v, int i) { flags[v] = hidden_at(static_cast<int64_t>(i) * N); });
        }
        const auto hidden_of = [&](int v, int i) {
            return keys == Keys::masked ? flags[keys == Keys::masked ? v : 0] : hidden_at(static_cast<int64_t>(i) * N);
        };
        // Exponentials are relative to the thread's own largest element first, so that the group meets once.
        ExpSum mine;
        row.each_vector([&](int v, int i) {
            const unsigned hidden = hidden_of(v, i);
            float x[N];
            row.get(v, i, x);
#pragma unroll
            for (int k = 0; k < N; ++k) {
                mine.largest = fmaxf(mine.largest, (hidden >> k & 1) != 0 ? -INFINITY : x[k]);
            }
        });
        row.stay_narrow();
        const auto powers = [&](auto is_in_range, int v, int i, const Exponential &exponential, float(&to)[N]) {
            const unsigned hidden = hidden_of(v, i);
            float x[N];
            row.get(v, i, x);
            exponential.of<decltype(is_in_range)::value != 0>(x, to);
#pragma unroll
            for (int k = 0; k < N; ++k) {
                to[k] = (hidden >> k & 1) != 0 ? 0.0f : to[k];
            }
        };
        // Where registers are enough, exponentials are computed once.
        constexpr bool kept = V * N <= 32;
        float keep[kept ? V : 1][N];
        const Exponential mine_only(factor, mine.largest);
        visit_range(mine_only, [&](auto is_in_range) {
            row.each_vector([&](int v, int i) {
                float(&e)[N] = keep[kept ? v : 0];
                powers(is_in_range, v, i, mine_only, e);
#pragma unroll
                for (int k = 0; k < N; ++k) {
                    mine.sum += e[k];
                }
            });
        });
        row.stay_narrow();
        const ExpSum total = reduce_exp_sum<Relative::by_range>(mine, factor, threads, shared);
        const Exponential of_all(factor, total.largest);
        const float of_mine = !kept ? 1.0f : mine.sum == 0.0f ? 0.0f : mine_only.to<Relative::by_range>(of_all);
        const float scale = of_mine / total.sum;
        const auto write = [&](auto is_in_range) {
            row.each_vector([&](int v, int i) {
                float(&e)[N] = keep[kept ? v : 0];
                if constexpr (!kept) {
                    powers(is_in_range, v, i, of_all, e);
                }
#pragma unroll
                for (int k = 0; k < N; ++k) {
                    e[k] *= scale;
                }
                if (total.sum == 0.0f) { // nothing but minus infinity, which is no number from itself
                    const unsigned hidden = hidden_of(v, i);
#pragma unroll
                    for (int k = 0; k < N; ++k) {
                        e[k] = (hidden >> k & 1) != 0 ? 0.0f : NAN;
                    }
                }
                store<N>(output + static_cast<int64_t>(i) * N, e);
            });
        };
        if constexpr (kept) {
            write(Number<1>{});
        } else {
            visit_range(of_all, write);
        }
    }
    if constexpr (keys == Keys::causal) {
        clear<N>(output, end, n, place);
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
