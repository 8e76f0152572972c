// rmsnorm_quantize and silu_and_mul_quantize: a group of threads per row, in one pass over memory if the
// row fits into its registers. The values to quantize are computed twice, with the same bits each time.
#include "activation.cuh"
#include "normalization.cuh"
#include "ops/ops.hpp"
#include "quantize.cuh"
#include "rows.cuh"

namespace gpu {
namespace {

struct Quantized {
    int64_t rows, n;
    Code code;
    uint8_t *output;
    float *scales;
};

// each(body) calls body(element, N values) for the thread's part of the row.
template<int N, class Each>
__device__ __forceinline__ void quantize_row(const Quantized &to, const Place &place, int threads, float *shared,
                                             Each each) {
    float largest = 0.0f;
    each([&](int64_t, const float(&values)[N]) { raise(largest, values); });
    const float scale = __fdiv_rn(reduce<Largest>(largest, threads, shared), largest_of(to.code));
    if (place.exists && place.thread == 0) {
        to.scales[place.row] = scale;
    }
    each([&](int64_t i, const float(&values)[N]) {
        store_coded(to.output + place.row * to.n + i, to.code, scale, values);
    });
}

template<class T, class U, int N, int V>
__global__ void __launch_bounds__(1024)
    rmsnorm_quantize_kernel(Quantized to, float eps, bool zero_centered, int threads, const T *input, const U *weight) {
    wait_for_earlier_kernels();
    let_the_next_start(128);
    extern __shared__ float shared[];
    const Place place = place_of(threads, to.rows);
    Row<T, N, V> x(input + place.row * to.n, place.exists ? to.n : 0, place);
    float square = 0.0f;
    x.each([&](int64_t, const float(&values)[N]) {
#pragma unroll
        for (int k = 0; k < N; ++k) {
            square = fmaf(values[k], values[k], square);
        }
    });
    x.stay_narrow();
    square = reduce<Sum>(square, threads, shared);
    const float factor = rsqrtf(square / static_cast<float>(max(to.n, int64_t(1))) + eps);
    quantize_row<N>(to, place, threads, shared + most_warps, [&](auto body) {
        x.each([&](int64_t i, const float(&values)[N]) {
            float made[N];
            load_gamma(weight, i, zero_centered, made);
#pragma unroll
            for (int k = 0; k < N; ++k) {
                made[k] *= values[k] * factor;
            }
            body(i, made);
        });
        x.stay_narrow();
    });
}

template<class T, int N, int V>
__global__ void __launch_bounds__(1024) silu_quantize_kernel(Quantized to, int threads, const T *gate, const T *up) {
    wait_for_earlier_kernels();
    let_the_next_start(128);
    extern __shared__ float shared[];
    const Place place = place_of(threads, to.rows);
    const int64_t n = place.exists ? to.n : 0;
    Row<T, N, V> x(gate + place.row * to.n, n, place), y(up + place.row * to.n, n, place);
    quantize_row<N>(to, place, threads, shared, [&](auto body) {
        x.each(y, [&](int64_t i, const float(&gates)[N], const float(&ups)[N]) {
            float made[N];
#pragma unroll
            for (int k = 0; k < N; ++k) {
                made[k] = Silu::value(gates[k]) * ups[k];
            }
            body(i, made);
        });
        x.stay_narrow();
        y.stay_narrow();
    });
}

Quantized quantized(const opdock::Call &call) {
    return {row_count(*call.input(0)), row_size(*call.input(0)), code_of(call.output(0)->dtype),
            static_cast<uint8_t *>(output_data(call, 0)), static_cast<float *>(output_data(call, 1))};
}

template<class T>
RowPlan plan_for(const opdock::Call &call, const Quantized &to) {
    const bool are_aligned = all_aligned(input_data(call, 0), input_data(call, 1), to.output);
    const RowKnobs knobs = RowKnobs::of(call);
    return plan_rows(to.n, width_of<T>(to.n, are_aligned), knobs.threads, knobs.block, 4);
}

opdock::Status rmsnorm(const opdock::Call &call) {
    const Quantized to = quantized(call);
    return visit_weighted(call.input(0)->dtype, call.input(1)->dtype, [&](auto t, auto u) {
        using T = typename decltype(t)::type;
        using U = typename decltype(u)::type;
        const RowPlan plan = plan_for<T>(call, to);
        return visit_short_and_long<T>(plan, [&](auto N, auto V) {
            return launch(call, plan.grid(to.rows, 2),
                          rmsnorm_quantize_kernel<T, U, decltype(N)::value, decltype(V)::value>, to,
                          static_cast<float>(call.get_float(1)), call.get_bool(2), plan.threads,
                          static_cast<const T *>(input_data(call, 0)), static_cast<const U *>(input_data(call, 1)));
        });
    });
}

opdock::Status silu(const opdock::Call &call) {
    const Quantized to = quantized(call);
    return visit_floating(call.input(0)->dtype, [&](auto t) {
        using T = typename decltype(t)::type;
        const RowPlan plan = plan_for<T>(call, to);
        return visit_short_and_long<T>(plan, [&](auto N, auto V) {
            return launch(call, plan.grid(to.rows), silu_quantize_kernel<T, decltype(N)::value, decltype(V)::value>, to,
                          plan.threads, static_cast<const T *>(input_data(call, 0)),
                          static_cast<const T *>(input_data(call, 1)));
        });
    });
}

} // namespace

void add_quantize_fused(Plugin &plugin) {
    namespace ops = opdock::ops;
    plugin.add(ops::rmsnorm_quantize, weighted_to_fp8, {opdock::kernel<&rmsnorm>, Knobs::rows});
    plugin.add(ops::silu_and_mul_quantize, to_fp8, {opdock::kernel<&silu>, Knobs::rows});
}

} // namespace gpu
