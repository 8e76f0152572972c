// group_norm_fwd and group_norm_bwd, for contiguous tensors: a group is one run of elements, channel after channel.
#include <cmath>
#include <string>

#include "dtypes.hpp"
#include "ops/ops.hpp"
#include "rows.hpp"
#include "schedule.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/group_norm.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h, which includes this file again for each target.
#include "hwy/highway.h"
#include "simd/memory-inl.h"
#include "simd/rows-inl.h"

#ifndef CPU_GROUP_NORM_ARGUMENTS
#define CPU_GROUP_NORM_ARGUMENTS
namespace cpu {

struct GroupNorm {
    DLDataType t, u;
    const void *grad, *input; // forward: no grad
    Rows weight, bias;
    void *output; // backward: grad_input
    Rows mu, rsigma;
    float *sums;      // backward: sums of grad and of grad * x, for each channel of each batch item
    int64_t groups;   // per batch item
    int64_t channels; // per group
    int64_t n;        // elements per channel
    double eps;
    bool stream;

    // First channel of group i, where i counts over the whole batch.
    int64_t first_channel(int64_t i) const { return i % groups * channels; }
    double count() const { return channels * n > 0 ? static_cast<double>(channels * n) : 1.0; }
};

} // namespace cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace cpu {
namespace HWY_NAMESPACE {

// Moments of a group: its mean in two parts, so that deviations from the first part are exact, and its variance.
struct Moments {
    float rough_mean;
    double correction, variance;
};

// Groups are longer than most rows, so f32 accumulates only pieces. Sums of squares that leave the range of f32 are
// computed again in f64.
template<class T>
HWY_INLINE Moments moments_of(const T *input, size_t size, double count) {
    constexpr size_t piece = 512;
    double total = 0;
    for (size_t from = 0; from < size; from += piece)
        total +=
            static_cast<double>(block_sum(from, HWY_MIN(from + piece, size), [=](size_t i, auto extent, VF s) HWY_ATTR {
                return hn::Add(s, load(input + i, extent));
            }));
    const auto rough_mean = static_cast<float>(total / count);
    const VF rough = hn::Set(f32, rough_mean);
    TwoSums deviation{0, 0};
    for (size_t from = 0; from < size; from += piece) {
        const T *part = input + from;
        const TwoSums of_part =
            two_sums(HWY_MIN(piece, size - from), [=](size_t i, auto extent, VF &linear, VF &squared) HWY_ATTR {
                const VF d = hn::Sub(load(part + i, extent), rough);
                linear = hn::Add(linear, d);
                squared = hn::MulAdd(d, d, squared);
            });
        deviation.first += of_part.first;
        deviation.second += of_part.second;
    }
    if (std::isinf(deviation.second)) {
        deviation = {0, 0};
        for (size_t i = 0; i < size; ++i) {
            const double d = static_cast<double>(static_cast<float>(input[i])) - static_cast<double>(rough_mean);
            deviation.first += d;
            deviation.second += d * d;
        }
    }
    const double correction = deviation.first / count;
    return {rough_mean, correction, deviation.second / count - correction * correction};
}

template<class T, class U>
void group_norm_forward(const GroupNorm &a, int64_t begin, int64_t end) {
    const auto n = static_cast<size_t>(a.n), size = static_cast<size_t>(a.channels * a.n);
    for (int64_t group = begin; group < end; ++group) {
        const T *input = static_cast<const T *>(a.input) + group * a.channels * a.n;
        T *to = static_cast<T *>(a.output) + group * a.channels * a.n;
        const Moments moments = moments_of(input, size, a.count());
        const auto rsigma = static_cast<float>(1 / std::sqrt(moments.variance + a.eps));
        const VF rough = hn::Set(f32, moments.rough_mean);
        if (a.mu)
            *a.mu.row<float>(group) = static_cast<float>(static_cast<double>(moments.rough_mean) + moments.correction);
        if (a.rsigma)
            *a.rsigma.row<float>(group) = rsigma;
        const VF rest = hn::Set(f32, static_cast<float>(moments.correction));
        for (int64_t c = 0; c < a.channels; ++c) {
            const int64_t channel = a.first_channel(group) + c;
            const VF scale = hn::Set(f32, rsigma * static_cast<float>(*a.weight.row<const U>(channel)));
            const VF offset = hn::Set(f32, static_cast<float>(*a.bias.row<const U>(channel)));
            const T *from = input + c * a.n;
            const Sink<T> output(to + c * a.n, a.stream);
            along(n, [=](size_t i, auto extent) HWY_ATTR {
                const VF x = hn::Sub(hn::Sub(load(from + i, extent), rough), rest);
                output.store(hn::MulAdd(x, scale, offset), i, extent);
            });
        }
    }
    if (a.stream)
        hwy::FlushStream();
}

// Computes the sums per channel first: they give the gradients of weight and bias, and the sums over a group.
template<class T, class U>
void group_norm_backward(const GroupNorm &a, int64_t begin, int64_t end) {
    const auto n = static_cast<size_t>(a.n);
    for (int64_t group = begin; group < end; ++group) {
        const int64_t from = group * a.channels * a.n;
        const T *grads = static_cast<const T *>(a.grad) + from, *inputs = static_cast<const T *>(a.input) + from;
        T *to = static_cast<T *>(a.output) + from;
        float *sums = a.sums + group * a.channels * 2;
        const VF mu = hn::Set(f32, *a.mu.row<const float>(group));
        const float rsigma = *a.rsigma.row<const float>(group);
        const VF scale = hn::Set(f32, rsigma);
        TwoSums of_group{0, 0};
        for (int64_t c = 0; c < a.channels; ++c) {
            const T *grad = grads + c * a.n, *input = inputs + c * a.n;
            const TwoSums of_channel = two_sums(n, [=](size_t i, auto extent, VF &plain, VF &projected) HWY_ATTR {
                const VF g = load(grad + i, extent);
                plain = hn::Add(plain, g);
                projected = hn::MulAdd(g, hn::Mul(hn::Sub(load(input + i, extent), mu), scale), projected);
            });
            sums[2 * c] = static_cast<float>(of_channel.first);
            sums[2 * c + 1] = static_cast<float>(of_channel.second);
            const auto weight =
                static_cast<double>(static_cast<float>(*a.weight.row<const U>(a.first_channel(group) + c)));
            of_group.first += weight * of_channel.first;
            of_group.second += weight * of_channel.second;
        }
        const VF mean = hn::Set(f32, static_cast<float>(of_group.first / a.count()));
        const VF projection = hn::Set(f32, static_cast<float>(of_group.second / a.count()));
        for (int64_t c = 0; c < a.channels; ++c) {
            const VF weight = hn::Set(f32, static_cast<float>(*a.weight.row<const U>(a.first_channel(group) + c)));
            const T *grad = grads + c * a.n, *input = inputs + c * a.n;
            const Sink<T> output(to + c * a.n, a.stream);
            along(n, [=](size_t i, auto extent) HWY_ATTR {
                const VF x = hn::Mul(hn::Sub(load(input + i, extent), mu), scale);
                const VF d = hn::Sub(hn::Mul(load(grad + i, extent), weight), mean); // 0 for a group of one element
                output.store(hn::Mul(scale, hn::NegMulAdd(x, projection, d)), i, extent);
            });
        }
    }
    if (a.stream)
        hwy::FlushStream();
}

void group_norm_forward_groups(const GroupNorm &a, int64_t begin, int64_t end) {
    visit_weighted(a.t, a.u, [&](auto t, auto u) {
        group_norm_forward<typename decltype(t)::type, typename decltype(u)::type>(a, begin, end);
    });
}

void group_norm_backward_groups(const GroupNorm &a, int64_t begin, int64_t end) {
    visit_weighted(a.t, a.u, [&](auto t, auto u) {
        group_norm_backward<typename decltype(t)::type, typename decltype(u)::type>(a, begin, end);
    });
}

} // namespace HWY_NAMESPACE
} // namespace cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cpu {

HWY_EXPORT(group_norm_forward_groups);
HWY_EXPORT(group_norm_backward_groups);

namespace {

// Requires all rows to be contiguous: the first `inputs` inputs and the first output.
template<uint32_t inputs>
opdock::Status check(const opdock::Problem &problem) {
    const auto is_contiguous = [](const DLTensor &tensor) { return element_count(tensor) == 0 || is_dense(tensor); };
    for (uint32_t i = 0; i < inputs; ++i)
        if (!is_contiguous(*problem.input(i)))
            return opdock::unsupported("input " + std::to_string(i) + ": this implementation needs it contiguous");
    if (!is_contiguous(*problem.output(0)))
        return opdock::unsupported("output 0: this implementation needs it contiguous");
    return {};
}

GroupNorm arguments_of(const opdock::Call &call, const DLTensor &input, int64_t groups) {
    GroupNorm a = {};
    a.t = input.dtype;
    a.groups = groups;
    a.channels = input.shape[1] / groups;
    a.n = input.shape[0] * input.shape[1] == 0 ? 0 : element_count(input) / (input.shape[0] * input.shape[1]);
    a.stream = Knobs::of(call).stream;
    return a;
}

opdock::Status forward(const opdock::Call &call) {
    const DLTensor &input = *call.input(0);
    GroupNorm a = arguments_of(call, input, call.get_int(0));
    a.u = call.input(1)->dtype;
    a.input = call.call().data[call.c().tensor_offsets[0]];
    a.weight = Rows::of_input(call, 1, 0);
    a.bias = Rows::of_input(call, 2, 0);
    a.output = call.call().data[call.c().tensor_offsets[3]];
    a.mu = Rows::of_output(call, 1, 0);
    a.rsigma = Rows::of_output(call, 2, 0);
    a.eps = call.get_float(1);
    in_chunks(input.shape[0] * a.groups, 2 * a.channels * a.n * element_bytes(input), Knobs::of(call),
              HWY_DYNAMIC_DISPATCH(group_norm_forward_groups), a);
    return {};
}

uint64_t backward_workspace(const opdock::Problem &problem) {
    const DLTensor &input = *problem.input(1);
    return static_cast<uint64_t>(2 * input.shape[0] * input.shape[1]) * sizeof(float);
}

// Writes the gradient of weight (which = 1) or bias (0): the sums of each channel over the batch.
void add_batch(const float *sums, int64_t batch, int64_t channels, int64_t which, DLDataType u, const Rows &to) {
    opdock::visit_floating(u, [&](auto tag) {
        using U = typename decltype(tag)::type;
        for (int64_t c = 0; c < channels; ++c) {
            double total = 0;
            for (int64_t b = 0; b < batch; ++b)
                total += static_cast<double>(sums[2 * (b * channels + c) + which]);
            *to.row<U>(c) = U(static_cast<float>(total));
        }
    });
}

opdock::Status backward(const opdock::Call &call) {
    const DLTensor &input = *call.input(1);
    GroupNorm a = arguments_of(call, input, call.input(2)->shape[1]);
    a.u = call.input(4)->dtype;
    a.grad = call.call().data[call.c().tensor_offsets[0]];
    a.input = call.call().data[call.c().tensor_offsets[1]];
    a.mu = Rows::of_input(call, 2, 0);
    a.rsigma = Rows::of_input(call, 3, 0);
    a.weight = Rows::of_input(call, 4, 0);
    a.output = call.call().data[call.c().tensor_offsets[5]];
    a.sums = static_cast<float *>(call.workspace());
    in_chunks(input.shape[0] * a.groups, 3 * a.channels * a.n * element_bytes(input), Knobs::of(call),
              HWY_DYNAMIC_DISPATCH(group_norm_backward_groups), a);
    if (const Rows grad_weight = Rows::of_output(call, 1, 0))
        add_batch(a.sums, input.shape[0], input.shape[1], 1, a.u, grad_weight);
    if (const Rows grad_bias = Rows::of_output(call, 2, 0))
        add_batch(a.sums, input.shape[0], input.shape[1], 0, a.u, grad_bias);
    return {};
}

} // namespace

void add_group_norm(Plugin &plugin) {
    namespace ops = opdock::ops;
    plugin.add(ops::group_norm_fwd, weighted, {opdock::kernel<&forward>, opdock::supports<&check<1>>});
    plugin.add(ops::group_norm_bwd, weighted,
               {opdock::kernel<&backward>, opdock::supports<&check<2>>, opdock::workspace_size<&backward_workspace>});
}

} // namespace cpu
#endif
