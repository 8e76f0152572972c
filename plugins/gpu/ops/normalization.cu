// rmsnorm_fwd, fused_add_rmsnorm_fwd and layernorm_fwd: a group of threads
// per row, in one pass over memory if the row fits into its registers.
#include <cfloat>

#include "normalization.cuh"
#include "ops/ops.hpp"
#include "rows.cuh"

namespace gpu {
namespace {

// The weights or the bias for a thread's vectors of a row. If registers have room, the
// constructor loads them, before the reduction, so that they have arrived when it is done.
template<class U, int N, int V>
class Weights {
    static constexpr bool is_early = V == 1 || V == 2;
    static constexpr int step = N < wide<U> ? N : wide<U>; // elements per access

  public:
    template<class Row>
    __device__ __forceinline__ Weights(const Row &row, const U *weights) : weights_(weights) {
        if constexpr (is_early) {
            row.each_vector([&](int v, int i) {
#pragma unroll
                for (int part = 0; part < N / step; ++part) {
                    early_[v][part] = reinterpret_cast<const Vector<U, step> *>(weights_)[i * (N / step) + part];
                }
            });
        }
    }

    // Returns the weights for the thread's vector v, which is the row's vector i.
    template<class Index>
    __device__ __forceinline__ void get(int v, Index i, float (&to)[N]) const {
        if constexpr (is_early) {
            float(&parts)[N / step][step] = reinterpret_cast<float(&)[N / step][step]>(to);
#pragma unroll
            for (int part = 0; part < N / step; ++part) {
                widen(early_[v][part], parts[part]);
            }
        } else {
            load<N>(weights_ + int64_t(i) * N, to);
        }
    }

  private:
    const U *weights_;
    Vector<U, step> early_[is_early ? V : 1][N / step];
};

struct Shape {
    int64_t rows, n;
    float eps;
    bool zero_centered;
};

// The row to normalize: the sum of two rows, as it is stored, or the input alone.
template<bool fused, int N, int V, class T>
__device__ __forceinline__ Row<T, N, V> row_of_sum(const T *input, const T *residual, T *sum, int64_t n,
                                                   const Place &place) {
    if constexpr (!fused) {
        return Row<T, N, V>(input, n, place);
    } else if constexpr (V == 0) {
        const Row<T, N, 0> a(input, n, place), b(residual, n, place);
        a.each(b, [&](int64_t i, const float(&x)[N], const float(&y)[N]) {
            float both[N];
#pragma unroll
            for (int k = 0; k < N; ++k) {
                both[k] = x[k] + y[k];
            }
            store<N>(sum + i, both);
        });
        return Row<T, N, 0>(sum, n, place); // each thread only reads what it wrote itself
    } else {
        Row<T, N, V> row(input, n, place);
        const Row<T, N, V> other(residual, n, place);
        row.each_vector([&](int v, int i) {
            float a[N], b[N];
            row.get(v, i, a);
            other.get(v, i, b);
#pragma unroll
            for (int k = 0; k < N; ++k) {
                a[k] += b[k];
            }
            row.set(v, a);
            store<N>(sum + static_cast<int64_t>(i) * N, a);
        });
        return row;
    }
}

// The sum of squares of the elements minus the mean.
template<class T, int N, int V>
__device__ __forceinline__ float squares_around(float mean, const Row<T, N, V> &row) {
    float square = 0;
    row.each([&](int64_t, const float(&values)[N]) {
#pragma unroll
        for (int k = 0; k < N; ++k) {
            const float off = values[k] - mean;
            square = fmaf(off, off, square);
        }
    });
    return square;
}

// `residual` and `sum` are null for rmsnorm_fwd.
// Order of the tensors in `rows`: input, output, residual, sum.
template<class T, class U, int N, int V, bool fused, class Rows>
__global__ void __launch_bounds__(1024)
    rmsnorm_kernel(Shape shape, Rows rows, int threads, const T *input, const T *residual, const U *weight, T *output,
                   T *sum, float *rsigma) {
    wait_for_earlier_kernels();
    let_the_next_start(128);
    extern __shared__ float shared[];
    const Place place = place_of(threads, shape.rows);
    const int64_t n = place.exists ? shape.n : 0;
    input += rows.at(0, place.row);
    output += rows.at(1, place.row);
    if constexpr (fused) {
        residual += rows.at(2, place.row);
        sum += rows.at(3, place.row);
    }
    Row<T, N, V> x = row_of_sum<fused, N, V>(input, residual, sum, n, place);
    const Weights<U, N, V> weights(x, weight);
    float square = 0;
    x.each([&](int64_t, const float(&values)[N]) {
#pragma unroll
        for (int k = 0; k < N; ++k) {
            square = fmaf(values[k], values[k], square);
        }
    });
    x.stay_narrow();
    square = reduce<Sum>(square, threads, shared);
    const float factor = rsqrtf(square / static_cast<float>(max(shape.n, int64_t(1))) + shape.eps);
    if (rsigma != nullptr && place.exists && place.thread == 0) {
        rsigma[place.row] = factor;
    }
    x.each_vector([&](int v, auto i) {
        float values[N], gamma[N], y[N];
        x.get(v, i, values);
        weights.get(v, i, gamma);
        to_gamma(shape.zero_centered, gamma);
#pragma unroll
        for (int k = 0; k < N; ++k) {
            y[k] = values[k] * factor * gamma[k];
        }
        store<N>(output + int64_t(i) * N, y);
    });
}

// Order of the tensors in `rows`: input, output.
template<class T, class U, int N, int V, class Rows>
__global__ void __launch_bounds__(1024)
    layernorm_kernel(Shape shape, Rows rows, int threads, const T *input, const U *weight, const U *bias, T *output,
                     float *mu, float *rsigma) {
    wait_for_earlier_kernels();
    let_the_next_start(128);
    extern __shared__ float shared[];
    const Place place = place_of(threads, shape.rows);
    const int64_t n = place.exists ? shape.n : 0;
    Row<T, N, V> x(input + rows.at(0, place.row), n, place);
    output += rows.at(1, place.row);
    const Weights<U, N, V> weights(x, weight), offsets(x, bias);
    const float count = static_cast<float>(max(shape.n, int64_t(1)));
    float sums[2] = {0.0f, 0.0f};
    x.each([&](int64_t, const float(&values)[N]) {
#pragma unroll
        for (int k = 0; k < N; ++k) {
            sums[0] += values[k];
            sums[1] = fmaf(values[k], values[k], sums[1]);
        }
    });
    x.stay_narrow();
    reduce<Sum>(sums, threads, shared);
    const float mean = sums[0] / count;
    float variance = sums[1] / count - mean * mean;
    variance = variance <= 0.0f ? 0.0f : variance; // NaN is kept
    // If the mean is far from 0, the difference has lost digits, or the sum is out of
    // range: the squares of the elements minus the mean are summed instead.
    const bool again = !(sums[1] <= 32.0f * count * variance && sums[1] <= FLT_MAX);
    if (any_that_reduces_along(again, threads)) {
        float square = squares_around(mean, x);
        x.stay_narrow();
        square = reduce<Sum>(square, threads, shared + 2 * most_warps);
        variance = again ? square / count : variance; // a row's result does not depend on its neighbours
    }
    const float factor = rsqrtf(variance + shape.eps);
    if (place.exists && place.thread == 0) {
        if (mu != nullptr) {
            mu[place.row] = mean;
        }
        if (rsigma != nullptr) {
            rsigma[place.row] = factor;
        }
    }
    x.each_vector([&](int v, auto i) {
        float values[N], gamma[N], beta[N], y[N];
        x.get(v, i, values);
        weights.get(v, i, gamma);
        to_gamma(shape.zero_centered, gamma);
        offsets.get(v, i, beta);
#pragma unroll
        for (int k = 0; k < N; ++k) {
            y[k] = fmaf((values[k] - mean) * factor, gamma[k], beta[k]);
        }
        store<N>(output + int64_t(i) * N, y);
    });
}

Shape shape_of(const opdock::Problem &problem) {
    const DLTensor &input = *problem.input(0);
    return {row_count(input), row_size(input), static_cast<float>(problem.get_float(0)), problem.get_bool(1)};
}

template<bool fused, class Rows>
opdock::Status rmsnorm(const opdock::Call &call, const Rows &rows) {
    const Shape shape = shape_of(call);
    const RowKnobs knobs = RowKnobs::of(call);
    constexpr uint32_t weight_at = fused ? 2 : 1;
    return visit_weighted(call.input(0)->dtype, call.input(weight_at)->dtype, [&](auto t, auto u) {
        using T = typename decltype(t)::type;
        using U = typename decltype(u)::type;
        const auto *input = static_cast<const T *>(input_data(call, 0));
        const auto *residual = fused ? static_cast<const T *>(input_data(call, 1)) : nullptr;
        const auto *weight = static_cast<const U *>(input_data(call, weight_at));
        auto *output = static_cast<T *>(output_data(call, 0));
        auto *sum = fused ? static_cast<T *>(output_data(call, 1)) : nullptr;
        auto *rsigma = static_cast<float *>(output_data(call, fused ? 2 : 1));
        const bool are_aligned = all_aligned(input, residual, weight, output, sum) && rows.fit(wide<T>);
        // Two rows are held, so that registers have room for half as much of each.
        constexpr int most_held = fused ? 4 : most_held_of<Rows>;
        const RowPlan plan =
            plan_rows(shape.n, width_of<T>(shape.n, are_aligned), knobs.threads, knobs.block, most_held);
        return visit_plan_of<T>(rows, plan, [&](auto N, auto V) {
            constexpr int held = std::min(decltype(V)::value, most_held);
            return launch(call, plan.grid(shape.rows), rmsnorm_kernel<T, U, decltype(N)::value, held, fused, Rows>,
                          shape, rows, plan.threads, input, residual, weight, output, sum, rsigma);
        });
    });
}

opdock::Status rmsnorm_alone(const opdock::Call &call) {
    return visit_rows([&](const auto &rows) { return rmsnorm<false>(call, rows); }, *call.input(0), *call.output(0));
}
opdock::Status fused_add_rmsnorm(const opdock::Call &call) {
    return visit_rows([&](const auto &rows) { return rmsnorm<true>(call, rows); }, *call.input(0), *call.output(0),
                      *call.input(1), *call.output(1));
}

template<class Rows>
opdock::Status layernorm(const opdock::Call &call, const Rows &rows) {
    const Shape shape = shape_of(call);
    const RowKnobs knobs = RowKnobs::of(call);
    return visit_weighted(call.input(0)->dtype, call.input(1)->dtype, [&](auto t, auto u) {
        using T = typename decltype(t)::type;
        using U = typename decltype(u)::type;
        const auto *input = static_cast<const T *>(input_data(call, 0));
        const auto *weight = static_cast<const U *>(input_data(call, 1));
        const auto *bias = static_cast<const U *>(input_data(call, 2));
        auto *output = static_cast<T *>(output_data(call, 0));
        auto *mu = static_cast<float *>(output_data(call, 1));
        auto *rsigma = static_cast<float *>(output_data(call, 2));
        const bool are_aligned = all_aligned(input, weight, bias, output) && rows.fit(wide<T>);
        const RowPlan plan =
            plan_rows(shape.n, width_of<T>(shape.n, are_aligned), knobs.threads, knobs.block, most_held_of<Rows>);
        return visit_plan_of<T>(rows, plan, [&](auto N, auto V) {
            return launch(call, plan.grid(shape.rows, 3),
                          layernorm_kernel<T, U, decltype(N)::value, decltype(V)::value, Rows>, shape, rows,
                          plan.threads, input, weight, bias, output, mu, rsigma);
        });
    });
}

opdock::Status layernorm_alone(const opdock::Call &call) {
    return visit_rows([&](const auto &rows) { return layernorm(call, rows); }, *call.input(0), *call.output(0));
}

} // namespace

void add_normalization(Plugin &plugin) {
    namespace ops = opdock::ops;
    plugin.add(ops::rmsnorm_fwd, weighted, by_rows<0b0101>(opdock::kernel<&rmsnorm_alone>, Knobs::rows));
    plugin.add(ops::fused_add_rmsnorm_fwd, weighted,
               by_rows<0b011011>(opdock::kernel<&fused_add_rmsnorm>, Knobs::rows));
    plugin.add(ops::layernorm_fwd, weighted, by_rows<0b001001>(opdock::kernel<&layernorm_alone>, Knobs::rows));
}

} // namespace gpu
