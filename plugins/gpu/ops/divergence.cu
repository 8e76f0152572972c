// kl_div and jsd, with their gradients: a group of threads per row, in one pass over memory.
#include <string>

#include "ops/ops.hpp"
#include "row_batches.cuh"

namespace gpu {
namespace {

enum class DivergenceOf {
    probabilities,     // kl_div
    log_probabilities, // kl_div with log_target, and jsd with beta 0
    reverse,           // jsd with beta 1: divergence of the input from the target
    mixture,           // jsd
};

struct Divergence {
    int64_t rows, n;
    DivergenceOf of;
    float beta;

    // The loss of log-probability x for target y.
    __device__ __forceinline__ float loss(float x, float y) const {
        switch (of) {
        case DivergenceOf::probabilities:
            return weighed(y, logf(y) - x);
        case DivergenceOf::log_probabilities:
            return weighed(expf(y), y - x);
        case DivergenceOf::reverse:
            return weighed(expf(x), x - y);
        case DivergenceOf::mixture:
            break;
        }
        const float p = beta * expf(y), q = (1.0f - beta) * expf(x);
        const float log_m = logf(p + q);
        return weighed(p, y - log_m) + weighed(q, x - log_m);
    }

    __device__ __forceinline__ float gradient(float x, float y) const {
        switch (of) {
        case DivergenceOf::probabilities:
            return -y;
        case DivergenceOf::log_probabilities:
            return -expf(y);
        case DivergenceOf::reverse:
            return weighed(expf(x), x - y + 1.0f);
        case DivergenceOf::mixture:
            break;
        }
        const float q = (1.0f - beta) * expf(x);
        return weighed(q, x - logf(fmaf(beta, expf(y), q)));
    }

    // The product, but 0 if the weight is 0: the logarithm may be infinite then.
    static __device__ __forceinline__ float weighed(float weight, float value) {
        return weight == 0.0f ? 0.0f : weight * value;
    }
};

// Calls body(i, inputs, targets) for the thread's vectors of a row.
template<int N, class T, class Body>
__device__ __forceinline__ void each_pair(const T *input, const T *target, int64_t n, const Place &place, Body body) {
    constexpr int of_each = batch / 2; // both rows together as many as elsewhere one
    in_batches<N, of_each>(n, place, [&](int64_t from, int64_t count) {
        const Row<T, N, of_each> x(input + from, count, place), y(target + from, count, place);
        x.each(y, [&](int64_t i, const float(&a)[N], const float(&b)[N]) { body(from + i, a, b); });
    });
}

template<class T, int N>
__global__ void __launch_bounds__(1024)
    losses_kernel(Divergence divergence, int threads, const T *input, const T *target, float *losses) {
    wait_for_earlier_kernels();
    let_the_next_start(128);
    extern __shared__ float shared[];
    const Place place = place_of(threads, divergence.rows);
    const int64_t begin = place.row * divergence.n;
    float sum = 0.0f;
    each_pair<N>(input + begin, target + begin, place.exists ? divergence.n : 0, place,
                 [&](int64_t, const float(&x)[N], const float(&y)[N]) {
#pragma unroll
                     for (int k = 0; k < N; ++k) {
                         sum += divergence.loss(x[k], y[k]);
                     }
                 });
    sum = reduce<Sum>(sum, threads, shared);
    if (place.exists && place.thread == 0) {
        losses[place.row] = sum;
    }
}

// For kl_div the gradient does not depend on the input, and the target is passed in its place.
template<class T, int N>
__global__ void __launch_bounds__(1024) gradients_kernel(Divergence divergence, int threads, const float *grad_losses,
                                                         const T *input, const T *target, T *grad_input) {
    wait_for_earlier_kernels();
    let_the_next_start(128);
    const Place place = place_of(threads, divergence.rows);
    const int64_t begin = place.row * divergence.n;
    const float factor = place.exists ? grad_losses[place.row] : 0.0f;
    each_pair<N>(input + begin, target + begin, place.exists ? divergence.n : 0, place,
                 [&](int64_t i, const float(&x)[N], const float(&y)[N]) {
                     float to[N];
#pragma unroll
                     for (int k = 0; k < N; ++k) {
                         to[k] = factor * divergence.gradient(x[k], y[k]);
                     }
                     store<N>(grad_input + begin + i, to);
                 });
}

DivergenceOf of_target(const opdock::Problem &problem) {
    return problem.get_bool(0) ? DivergenceOf::log_probabilities : DivergenceOf::probabilities;
}

DivergenceOf of_beta(const opdock::Problem &problem) {
    const double beta = problem.get_float(0);
    return beta == 0 ? DivergenceOf::log_probabilities : beta == 1 ? DivergenceOf::reverse : DivergenceOf::mixture;
}

opdock::Status check_beta(const opdock::Problem &problem) {
    const double beta = problem.get_float(0);
    return beta >= 0 && beta <= 1
               ? opdock::Status()
               : opdock::invalid_argument("beta: " + std::to_string(beta) + "; expected a number from 0 to 1");
}

Divergence shape_of(const DLTensor &rows, DivergenceOf of, const opdock::Problem &problem) {
    const float beta = of == DivergenceOf::mixture ? static_cast<float>(problem.get_float(0)) : 0.0f;
    return {row_count(rows), row_size(rows), of, beta};
}

// Calls run(Number<N>, plan): the vector width, and the distribution of rows.
template<class T, class Run>
opdock::Status with_plan(const opdock::Call &call, int64_t n, bool are_aligned, Run run) {
    const RowKnobs knobs = RowKnobs::of(call);
    const RowPlan plan = plan_rows(n, width_of<T>(n, are_aligned), knobs.threads, knobs.block, 0);
    return plan.width == 1 ? run(Number<1>{}, plan) : run(Number<wide<T>>{}, plan);
}

template<DivergenceOf (*of)(const opdock::Problem &)>
opdock::Status forward(const opdock::Call &call) {
    const Divergence divergence = shape_of(*call.input(0), of(call), call);
    return visit_floating(call.input(0)->dtype, [&](auto t) {
        using T = typename decltype(t)::type;
        const auto *input = static_cast<const T *>(input_data(call, 0));
        const auto *target = static_cast<const T *>(input_data(call, 1));
        auto *losses = static_cast<float *>(output_data(call, 0));
        return with_plan<T>(call, divergence.n, all_aligned(input, target), [&](auto N, const RowPlan &plan) {
            return launch(call, plan.grid(divergence.rows), losses_kernel<T, decltype(N)::value>, divergence,
                          plan.threads, input, target, losses);
        });
    });
}

template<DivergenceOf (*of)(const opdock::Problem &), uint32_t target_at>
opdock::Status backward(const opdock::Call &call) {
    const Divergence divergence = shape_of(*call.output(0), of(call), call);
    return visit_floating(call.output(0)->dtype, [&](auto t) {
        using T = typename decltype(t)::type;
        const auto *grad_losses = static_cast<const float *>(input_data(call, 0));
        const auto *input = static_cast<const T *>(input_data(call, 1));
        const auto *target = static_cast<const T *>(input_data(call, target_at));
        auto *grad_input = static_cast<T *>(output_data(call, 0));
        const bool are_aligned = all_aligned(input, target, grad_input);
        return with_plan<T>(call, divergence.n, are_aligned, [&](auto N, const RowPlan &plan) {
            return launch(call, plan.grid(divergence.rows), gradients_kernel<T, decltype(N)::value>, divergence,
                          plan.threads, grad_losses, input, target, grad_input);
        });
    });
}

} // namespace

void add_divergence(Plugin &plugin) {
    namespace ops = opdock::ops;
    plugin.add(ops::kl_div, any_float, {opdock::kernel<&forward<of_target>>, Knobs::row_batches});
    plugin.add(ops::kl_div_bwd, any_float, {opdock::kernel<&backward<of_target, 1>>, Knobs::row_batches});
    plugin.add(ops::jsd, any_float,
               {opdock::kernel<&forward<of_beta>>, Knobs::row_batches, opdock::supports<&check_beta>});
    plugin.add(ops::jsd_bwd, any_float,
               {opdock::kernel<&backward<of_beta, 2>>, Knobs::row_batches, opdock::supports<&check_beta>});
}

} // namespace gpu
