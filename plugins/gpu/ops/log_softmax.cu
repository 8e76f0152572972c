// log_softmax_fwd and log_softmax_bwd: a group of threads per row, one pass over memory for rows that fit into its
// registers. Forward, the others are read in batches.
#include "exp_sum.cuh"
#include "ops/ops.hpp"
#include "row_batches.cuh"
#include "rows.cuh"

namespace gpu {
namespace {

template<class T, int N, int V>
__global__ void __launch_bounds__(1024)
    forward_kernel(int64_t rows, int64_t size, int threads, const T *input, T *output) {
    wait_for_earlier_kernels();
    let_the_next_start(128);
    extern __shared__ float shared[];
    const Place place = place_of(threads, rows);
    const int64_t begin = place.row * size;
    Row<T, N, V> x(input + begin, place.exists ? size : 0, place);
    float total[2]; // an ExpSum
    gather_exp_sum(total, log2_e, threads, shared, [&](auto is_in_range, float(&values)[2]) {
        ExpSum mine;
        x.each(
            [&](int64_t, const float(&elements)[N]) { mine.add<decltype(is_in_range)::value != 0>(elements, log2_e); });
        x.stay_narrow();
        values[0] = mine.largest;
        values[1] = mine.sum;
    });
    const float log_sum = ExpSum{total[0], total[1]}.log_above_largest();
    x.each([&](int64_t i, const float(&values)[N]) {
        float y[N];
#pragma unroll
        for (int k = 0; k < N; ++k) {
            y[k] = (values[k] - total[0]) - log_sum;
        }
        store<N>(output + begin + i, y);
    });
}

template<class T, int N, bool peels>
__global__ void __launch_bounds__(1024)
    long_forward_kernel(int64_t rows, int64_t size, int threads, const T *input, T *output) {
    wait_for_earlier_kernels();
    let_the_next_start(128);
    extern __shared__ float shared[];
    const Place place = place_of(threads, rows);
    const T *row = input + place.row * size;
    T *to = output + place.row * size;
    const Vectors<N, peels> vectors(row, place.exists ? size : 0);
    float total[2]; // an ExpSum
    gather_exp_sum(total, log2_e, threads, shared, [&](auto is_in_range, float(&values)[2]) {
        ExpSum mine;
        each_in_batches(row, vectors, place,
                        [&](int64_t, const auto &x) { mine.add<decltype(is_in_range)::value != 0>(x, log2_e); });
        values[0] = mine.largest;
        values[1] = mine.sum;
    });
    const float log_sum = ExpSum{total[0], total[1]}.log_above_largest();
    each_in_batches(row, vectors, place, [&](int64_t i, const auto &x) {
        constexpr int count = sizeof(x) / sizeof(float);
        float y[count];
#pragma unroll
        for (int k = 0; k < count; ++k) {
            y[k] = (x[k] - total[0]) - log_sum;
        }
        store<count>(to + i, y);
    });
}

// grad_input = grad - exp(output) * sum(grad)
template<class T, int N, int V>
__global__ void __launch_bounds__(1024)
    backward_kernel(int64_t rows, int64_t size, int threads, const T *grad, const T *output, T *grad_input) {
    wait_for_earlier_kernels();
    let_the_next_start(128);
    extern __shared__ float shared[];
    const Place place = place_of(threads, rows);
    const int64_t begin = place.row * size;
    const int64_t n = place.exists ? size : 0;
    Row<T, N, V> g(grad + begin, n, place), y(output + begin, n, place);
    float sum = 0.0f;
    g.each([&](int64_t, const float(&values)[N]) {
#pragma unroll
        for (int k = 0; k < N; ++k) {
            sum += values[k];
        }
    });
    g.stay_narrow();
    sum = reduce<Sum>(sum, threads, shared);
    g.each(y, [&](int64_t i, const float(&a)[N], const float(&b)[N]) {
        float to[N];
#pragma unroll
        for (int k = 0; k < N; ++k) {
            to[k] = fmaf(-exp2_of(b[k] * log2_e), sum, a[k]);
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
        const bool are_aligned = all_aligned(input, output);
        const RowPlan plan = plan_rows(n, width_of<T>(n, are_aligned), knobs.threads, knobs.block, 4);
        if (plan.held != 0) {
            return launch(call, plan.grid(rows, 4), forward_kernel<T, wide<T>, 4>, rows, n, plan.threads, input,
                          output);
        }
        return visit_vectors<T>(
            call, n, are_aligned, are_apart(input, output), [&](auto N, auto peels, const RowPlan &batches) {
                return launch(call, batches.grid(rows, 4),
                              long_forward_kernel<T, decltype(N)::value, decltype(peels)::value != 0>, rows, n,
                              batches.threads, input, output);
            });
    });
}

opdock::Status backward(const opdock::Call &call) {
    const int64_t rows = row_count(*call.input(0)), n = row_size(*call.input(0));
    const RowKnobs knobs = RowKnobs::of(call);
    return visit_floating(call.input(0)->dtype, [&](auto t) {
        using T = typename decltype(t)::type;
        const auto *grad = static_cast<const T *>(input_data(call, 0));
        const auto *output = static_cast<const T *>(input_data(call, 1));
        auto *grad_input = static_cast<T *>(output_data(call, 0));
        const int width = width_of<T>(n, all_aligned(grad, output, grad_input));
        const RowPlan plan = plan_rows(n, width, knobs.threads, knobs.block, 4);
        return visit_short_and_long<T>(plan, [&](auto N, auto V) {
            return launch(call, plan.grid(rows), backward_kernel<T, decltype(N)::value, decltype(V)::value>, rows, n,
                          plan.threads, grad, output, grad_input);
        });
    });
}

} // namespace

void add_log_softmax(Plugin &plugin) {
    plugin.add(opdock::ops::log_softmax_fwd, any_float, {opdock::kernel<&forward>, Knobs::row_batches});
    plugin.add(opdock::ops::log_softmax_bwd, any_float, {opdock::kernel<&backward>, Knobs::rows});
}

} // namespace gpu
