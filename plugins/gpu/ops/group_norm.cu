// group_norm_fwd and group_norm_bwd. A group's elements are contiguous; in the forward pass they are a row.
//
// In the backward pass, the channels are the rows. Each channel has two sums, of grad * x and of grad. Sums
// of these over its group give the means, and sums over the batch give the gradients of weight and bias.
#include "columns.cuh"
#include "ops/ops.hpp"
#include "row_batches.cuh"
#include "rows.cuh"

namespace gpu {
namespace {

struct GroupNorm {
    int64_t batch, channels, groups;
    int64_t n;        // elements per channel
    int64_t of_group; // channels per group

    GroupNorm(const DLTensor &input, int64_t count)
        : batch(input.shape[0]), channels(input.shape[1]), groups(count), n(1), of_group(channels / count) {
        for (int d = 2; d < input.ndim; ++d) {
            n *= input.shape[d];
        }
    }

    __host__ __device__ int64_t size() const { return of_group * n; } // elements per group
    // Factor from sums over a group to means; an empty group has means of 0.
    __device__ __forceinline__ float inverse() const { return 1.0f / static_cast<float>(max(size(), int64_t(1))); }
    // The channel, within its group, of the group's element i.
    __device__ __forceinline__ int64_t channel_of(int64_t i) const {
        return i <= UINT32_MAX && n <= UINT32_MAX ? static_cast<uint32_t>(i) / static_cast<uint32_t>(n) : i / n;
    }
};

// Weights or biases, of type T or f32.
template<class T>
struct Parameters {
    const void *data;
    bool is_f32;

    __device__ __forceinline__ float operator[](int64_t i) const {
        return is_f32 ? static_cast<const float *>(data)[i] : to_f32(static_cast<const T *>(data)[i]);
    }
};

template<class T>
Parameters<T> parameters(const opdock::Call &call, uint32_t input) {
    return {input_data(call, input), opdock_dtype_pack(call.input(input)->dtype) == OPDOCK_F32};
}

// Computes the variance of the elements minus their approximate mean, corrected by the mean of those differences.
template<class T, int N, int V>
__global__ void __launch_bounds__(1024)
    forward_kernel(GroupNorm shape, float eps, int threads, const T *input, Parameters<T> weight, Parameters<T> bias,
                   T *output, float *mu, float *rsigma) {
    wait_for_earlier_kernels();
    let_the_next_start(128);
    __shared__ float shared[3 * most_warps];
    const Place place = place_of(threads, shape.batch * shape.groups);
    const int64_t begin = place.row * shape.size();
    const Row<T, N, V> x(input + begin, place.exists ? shape.size() : 0, place);
    float sum = 0.0f;
    x.each([&](int64_t, const float(&values)[N]) {
#pragma unroll
        for (int k = 0; k < N; ++k) {
            sum += values[k];
        }
    });
    // Rounded to 12 bits, so that most differences are exact: otherwise low digits would all be rounded the same way.
    const float whole = reduce<Sum>(sum, threads, shared) * shape.inverse();
    const float about = __uint_as_float(__float_as_uint(whole) & ~0xfffu);
    float sums[2], scale = 1.0f;
    const auto add_up = [&] {
        sums[0] = sums[1] = 0.0f;
        x.each([&](int64_t, const float(&values)[N]) {
#pragma unroll
            for (int k = 0; k < N; ++k) {
                const float off = (values[k] - about) * scale;
                sums[0] += off;
                sums[1] = fmaf(off, off, sums[1]);
            }
        });
        reduce<Sum>(sums, threads, shared + most_warps);
    };
    add_up();
    if (any_of_block(sums[1] == INFINITY)) { // squares overflow although the elements are in range
        scale = sums[1] == INFINITY ? 0x1p-100f : 1.0f;
        add_up();
    }
    const float left = sums[0] * shape.inverse();
    const float mean = about + left / scale;
    const float rounded = fmaf(-left, left, sums[1] * shape.inverse());
    const float variance = rounded < 0.0f ? 0.0f : rounded; // NaN is kept
    const float factor = rsqrtf(variance + (scale == 1.0f ? eps : 0.0f)) * scale;
    if (place.exists && place.thread == 0) {
        if (mu != nullptr) {
            mu[place.row] = mean;
        }
        if (rsigma != nullptr) {
            rsigma[place.row] = factor;
        }
    }
    const int64_t first = place.row % shape.groups * shape.of_group;
    x.each([&](int64_t i, const float(&values)[N]) {
        const int64_t channel = first + shape.channel_of(i);
        const float gamma = weight[channel], beta = bias[channel];
        float y[N];
#pragma unroll
        for (int k = 0; k < N; ++k) {
            y[k] = fmaf((values[k] - mean) * factor, gamma, beta);
        }
        store<N>(output + begin + i, y);
    });
}

// Calls body(i, grads, inputs) for the thread's vectors of a channel.
template<int N, class T, class Body>
__device__ __forceinline__ void each_pair(const T *grad, const T *input, int64_t n, const Place &place, Body body) {
    constexpr int of_each = batch / 2; // both rows together as many as elsewhere one
    in_batches<N, of_each>(n, place, [&](int64_t from, int64_t count) {
        const Row<T, N, of_each> g(grad + from, count, place), x(input + from, count, place);
        g.each(x, [&](int64_t i, const float(&a)[N], const float(&b)[N]) { body(from + i, a, b); });
    });
}

// For each channel of the batch, the sum of grad * x; followed by the sums of grad.
template<class T, int N>
__global__ void __launch_bounds__(1024)
    channel_sums_kernel(GroupNorm shape, int threads, const T *grad, const T *input, const float *mu,
                        const float *rsigma, float *sums_of_channels) {
    wait_for_earlier_kernels();
    __shared__ float shared[2 * most_warps];
    const int64_t rows = shape.batch * shape.channels;
    const Place place = place_of(threads, rows);
    const int64_t group = place.row / shape.of_group, begin = place.row * shape.n;
    const float mean = place.exists ? mu[group] : 0.0f, factor = place.exists ? rsigma[group] : 0.0f;
    float sums[2] = {0.0f, 0.0f};
    each_pair<N>(grad + begin, input + begin, place.exists ? shape.n : 0, place,
                 [&](int64_t, const float(&g)[N], const float(&x)[N]) {
#pragma unroll
                     for (int k = 0; k < N; ++k) {
                         sums[0] = fmaf(g[k], (x[k] - mean) * factor, sums[0]);
                         sums[1] += g[k];
                     }
                 });
    reduce<Sum>(sums, threads, shared);
    if (place.exists && place.thread == 0) {
        sums_of_channels[place.row] = sums[0];
        sums_of_channels[rows + place.row] = sums[1];
    }
}

// For each group, mean(d * x) and mean(d). In a group of one element, the product is
// rounded as in its gradient, so that they cancel.
template<class T>
__global__ void __launch_bounds__(1024) group_means_kernel(GroupNorm shape, int threads, const float *sums_of_channels,
                                                           Parameters<T> weight, float2 *means) {
    wait_for_earlier_kernels();
    __shared__ float shared[2 * most_warps];
    const Place place = place_of(threads, shape.batch * shape.groups);
    const int64_t first = place.row * shape.of_group, rows = shape.batch * shape.channels;
    const int64_t first_weight = place.row % shape.groups * shape.of_group;
    float sums[2] = {0.0f, 0.0f};
    for (int64_t c = place.thread; c < (place.exists ? shape.of_group : 0); c += threads) {
        const float gamma = weight[first_weight + c];
        sums[0] += sums_of_channels[first + c] * gamma;
        sums[1] += sums_of_channels[rows + first + c] * gamma;
    }
    reduce<Sum>(sums, threads, shared);
    if (place.exists && place.thread == 0) {
        means[place.row] = {sums[0] * shape.inverse(), sums[1] * shape.inverse()};
    }
}

template<class T, int N>
__global__ void __launch_bounds__(1024)
    grad_input_kernel(GroupNorm shape, int threads, const T *grad, const T *input, const float *mu, const float *rsigma,
                      Parameters<T> weight, const float2 *means, T *grad_input) {
    wait_for_earlier_kernels();
    const Place place = place_of(threads, shape.batch * shape.channels);
    if (!place.exists) {
        return;
    }
    const int64_t group = place.row / shape.of_group, begin = place.row * shape.n;
    const float mean = mu[group], factor = rsigma[group], gamma = weight[place.row % shape.channels];
    const float2 of_group = means[group];
    each_pair<N>(grad + begin, input + begin, shape.n, place, [&](int64_t i, const float(&g)[N], const float(&x)[N]) {
        float to[N];
#pragma unroll
        for (int k = 0; k < N; ++k) {
            to[k] = factor * fmaf(-((x[k] - mean) * factor), of_group.x, g[k] * gamma - of_group.y);
        }
        store<N>(grad_input + begin + i, to);
    });
}

opdock::Status forward(const opdock::Call &call) {
    const GroupNorm shape(*call.input(0), call.get_int(0));
    const int64_t rows = shape.batch * shape.groups;
    return visit_floating(call.input(0)->dtype, [&](auto t) {
        using T = typename decltype(t)::type;
        const auto *input = static_cast<const T *>(input_data(call, 0));
        auto *output = static_cast<T *>(output_data(call, 0));
        const int width = width_of<T>(shape.n, all_aligned(input, output));
        const int64_t threads = default_row_threads(rows, shape.size() / width, compute_units(call));
        const RowPlan plan = plan_rows(shape.size(), width, threads, 128, 4);
        return visit_short_and_long<T>(plan, [&](auto N, auto V) {
            return launch(call, plan.grid(rows, 0), forward_kernel<T, decltype(N)::value, decltype(V)::value>, shape,
                          static_cast<float>(call.get_float(1)), plan.threads, input, parameters<T>(call, 1),
                          parameters<T>(call, 2), output, static_cast<float *>(output_data(call, 1)),
                          static_cast<float *>(output_data(call, 2)));
        });
    });
}

uint64_t workspace_size(const opdock::Problem &problem) {
    const GroupNorm shape(*problem.input(1), problem.input(2)->shape[1]);
    return static_cast<uint64_t>(2 * shape.batch * (shape.channels + shape.groups)) * sizeof(float);
}

template<class T, int N>
opdock::Status input_gradient(const opdock::Call &call, const GroupNorm &shape) {
    const auto *grad = static_cast<const T *>(input_data(call, 0));
    const auto *input = static_cast<const T *>(input_data(call, 1));
    const auto *mu = static_cast<const float *>(input_data(call, 2));
    const auto *rsigma = static_cast<const float *>(input_data(call, 3));
    const int64_t rows = shape.batch * shape.channels, groups = shape.batch * shape.groups;
    auto *sums = static_cast<float *>(call.workspace());
    auto *means = reinterpret_cast<float2 *>(sums + 2 * rows);
    const int units = compute_units(call);
    const RowPlan plan = plan_rows(shape.n, N, default_row_threads(rows, shape.n / N, units), 128, 0);
    const RowPlan of_groups = plan_rows(
        shape.of_group, 1, std::min<int64_t>(256, default_row_threads(groups, shape.of_group, units)), 128, 0);
    opdock::Status summed =
        launch(call, plan.grid(rows, 0), channel_sums_kernel<T, N>, shape, plan.threads, grad, input, mu, rsigma, sums);
    if (!summed.ok()) {
        return summed;
    }
    opdock::Status averaged = launch(call, of_groups.grid(groups, 0), group_means_kernel<T>, shape, of_groups.threads,
                                     sums, parameters<T>(call, 4), means);
    if (!averaged.ok()) {
        return averaged;
    }
    return launch(call, plan.grid(rows, 0), grad_input_kernel<T, N>, shape, plan.threads, grad, input, mu, rsigma,
                  parameters<T>(call, 4), means, static_cast<T *>(output_data(call, 0)));
}

opdock::Status backward(const opdock::Call &call) {
    const GroupNorm shape(*call.input(1), call.input(2)->shape[1]);
    opdock::Status status = visit_floating(call.input(0)->dtype, [&](auto t) {
        using T = typename decltype(t)::type;
        const bool are_aligned = all_aligned(input_data(call, 0), input_data(call, 1), output_data(call, 0));
        return width_of<T>(shape.n, are_aligned) == 1 ? input_gradient<T, 1>(call, shape)
                                                      : input_gradient<T, wide<T>>(call, shape);
    });
    if (!status.ok() || (!call.has_output(1) && !call.has_output(2))) {
        return status;
    }
    return visit_floating(call.input(4)->dtype, [&](auto u) {
        using U = typename decltype(u)::type;
        return sum_parts(call, static_cast<const float *>(call.workspace()), shape.batch, shape.channels,
                         static_cast<U *>(output_data(call, 1)), static_cast<U *>(output_data(call, 2)));
    });
}

} // namespace

void add_group_norm(Plugin &plugin) {
    namespace ops = opdock::ops;
    plugin.add(ops::group_norm_fwd, weighted, {opdock::kernel<&forward>, Knobs::none});
    plugin.add(ops::group_norm_bwd, weighted,
               {opdock::kernel<&backward>, Knobs::none, nullptr, opdock::workspace_size<&workspace_size>});
}

} // namespace gpu
