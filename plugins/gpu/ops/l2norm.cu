// l2norm_fwd and l2norm_bwd: a group of threads per row, in one pass over memory if the row fits into its registers.
#include "ops/ops.hpp"
#include "rows.cuh"

namespace gpu {
namespace {

template<class T, int N, int V>
__global__ void __launch_bounds__(1024)
    forward_kernel(int64_t rows, int64_t size, float eps, int threads, const T *input, T *output, float *rnorm) {
    wait_for_earlier_kernels();
    let_the_next_start(128);
    extern __shared__ float shared[];
    const Place place = place_of(threads, rows);
    const int64_t begin = place.row * size;
    Row<T, N, V> x(input + begin, place.exists ? size : 0, place);
    float square = 0.0f;
    x.each([&](int64_t, const float(&values)[N]) {
#pragma unroll
        for (int k = 0; k < N; ++k) {
            square = fmaf(values[k], values[k], square);
        }
    });
    x.stay_narrow();
    const float factor = rsqrtf(reduce<Sum>(square, threads, shared) + eps);
    if (rnorm != nullptr && place.exists && place.thread == 0) {
        rnorm[place.row] = factor;
    }
    x.each([&](int64_t i, const float(&values)[N]) {
        float y[N];
#pragma unroll
        for (int k = 0; k < N; ++k) {
            y[k] = values[k] * factor;
        }
        store<N>(output + begin + i, y);
    });
}

// With x = input * rnorm: grad_input = rnorm * (grad - x * sum(grad * x))
template<class T, int N, int V>
__global__ void __launch_bounds__(1024) backward_kernel(int64_t rows, int64_t size, int threads, const T *grad,
                                                        const T *input, const float *rnorm, T *grad_input) {
    wait_for_earlier_kernels();
    let_the_next_start(128);
    extern __shared__ float shared[];
    const Place place = place_of(threads, rows);
    const int64_t begin = place.row * size;
    const int64_t n = place.exists ? size : 0;
    Row<T, N, V> g(grad + begin, n, place), x(input + begin, n, place);
    const float factor = place.exists ? rnorm[place.row] : 0.0f;
    float sum = 0.0f;
    g.each(x, [&](int64_t, const float(&a)[N], const float(&b)[N]) {
#pragma unroll
        for (int k = 0; k < N; ++k) {
            sum = fmaf(a[k], b[k] * factor, sum);
        }
    });
    g.stay_narrow();
    x.stay_narrow();
    sum = reduce<Sum>(sum, threads, shared);
    g.each(x, [&](int64_t i, const float(&a)[N], const float(&b)[N]) {
        float to[N];
#pragma unroll
        for (int k = 0; k < N; ++k) {
            to[k] = factor * fmaf(-(b[k] * factor), sum, a[k]);
        }
        store<N>(grad_input + begin + i, to);
    });
}

opdock::Status forward(const opdock::Call &call) {
    const int64_t rows = row_count(*call.input(0)), n = row_size(*call.input(0));
    const RowKnobs knobs = RowKnobs::of(call);
    return visit_floating(call.input(0)->dtype, [&](auto t) {
        using T = typename decltype(t)::type;
        const auto *input = static_cast<const T *>(input_data(call, 0));
        auto *output = static_cast<T *>(output_data(call, 0));
        auto *rnorm = static_cast<float *>(output_data(call, 1));
        const RowPlan plan = plan_rows(n, width_of<T>(n, all_aligned(input, output)), knobs.threads, knobs.block, 4);
        return visit_short_and_long<T>(plan, [&](auto N, auto V) {
            return launch(call, plan.grid(rows), forward_kernel<T, decltype(N)::value, decltype(V)::value>, rows, n,
                          static_cast<float>(call.get_float(0)), plan.threads, input, output, rnorm);
        });
    });
}

opdock::Status backward(const opdock::Call &call) {
    const int64_t rows = row_count(*call.input(0)), n = row_size(*call.input(0));
    const RowKnobs knobs = RowKnobs::of(call);
    return visit_floating(call.input(0)->dtype, [&](auto t) {
        using T = typename decltype(t)::type;
        const auto *grad = static_cast<const T *>(input_data(call, 0));
        const auto *input = static_cast<const T *>(input_data(call, 1));
        const auto *rnorm = static_cast<const float *>(input_data(call, 2));
        auto *grad_input = static_cast<T *>(output_data(call, 0));
        const int width = width_of<T>(n, all_aligned(grad, input, grad_input));
        const RowPlan plan = plan_rows(n, width, knobs.threads, knobs.block, 4);
        return visit_short_and_long<T>(plan, [&](auto N, auto V) {
            return launch(call, plan.grid(rows), backward_kernel<T, decltype(N)::value, decltype(V)::value>, rows, n,
                          plan.threads, grad, input, rnorm, grad_input);
        });
    });
}

} // namespace

void add_l2norm(Plugin &plugin) {
    plugin.add(opdock::ops::l2norm_fwd, any_float, {opdock::kernel<&forward>, Knobs::rows});
    plugin.add(opdock::ops::l2norm_bwd, any_float, {opdock::kernel<&backward>, Knobs::rows});
}

} // namespace gpu
