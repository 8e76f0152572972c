// multi_tensor_adam and multi_tensor_sgd.
#include <cmath>

#include "dtypes.hpp"
#include "lists.hpp"
#include "ops/ops.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/optimizer.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h, which includes this file again for each target.
#include "hwy/highway.h"
#include "simd/rows-inl.h"

#ifndef CPU_OPTIMIZER_ARGUMENTS
#define CPU_OPTIMIZER_ARGUMENTS
namespace cpu {

struct Adam {
    DLDataType t, u;
    float beta1, rest1;      // 1 - beta1
    float beta2, root_rest2; // the root of 1 - beta2
    float coupled_decay;     // of the parameters, added to their gradient; if 0, they are not added, even NaN
    float shrink;            // factor of the parameters before the step
    float rate;              // lr / (1 - beta1^step)
    float root_scale;        // 1 / sqrt(1 - beta2^step)
    float eps;
};

struct Sgd {
    DLDataType t, u;
    float decay;
    float momentum;
    float taken; // share of the gradient that enters the buffer
    float lr;
    bool has_momentum, first_run, nesterov;
};

// One chunk of each list.
struct Lists {
    const void *grads;
    void *params;
    float *first, *second; // exp_avg and exp_avg_sq, or momentum_buffers and null
    size_t count;
};

} // namespace cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace cpu {
namespace HWY_NAMESPACE {

template<class T, class U>
void adam(const Adam &a, const Lists &lists) {
    const auto *grads = static_cast<const T *>(lists.grads);
    auto *params = static_cast<U *>(lists.params);
    float *exp_avg = lists.first, *exp_avg_sq = lists.second;
    const auto constant = [](float value) HWY_ATTR { return hn::Set(f32, value); };
    const VF beta1 = constant(a.beta1), rest1 = constant(a.rest1);
    const VF beta2 = constant(a.beta2), root_rest2 = constant(a.root_rest2);
    const VF decay = constant(a.coupled_decay), shrink = constant(a.shrink), rate = constant(a.rate);
    const VF root_scale = constant(a.root_scale), eps = constant(a.eps);
    const bool is_coupled = a.coupled_decay != 0; // 0 times NaN or infinity would poison the averages permanently
    along(lists.count, [=](size_t i, auto extent) HWY_ATTR {
        const VF p = load(params + i, extent);
        const VF own = load(grads + i, extent);
        const VF g = is_coupled ? hn::MulAdd(p, decay, own) : own;
        const VF m = hn::MulAdd(load(exp_avg + i, extent), beta1, hn::Mul(g, rest1));
        // Squared last, so that it overflows only if the average does.
        const VF part = hn::Mul(g, root_rest2);
        const VF v = hn::MulAdd(load(exp_avg_sq + i, extent), beta2, hn::Mul(part, part));
        const VF step = hn::Div(m, hn::MulAdd(hn::Sqrt(v), root_scale, eps));
        store(hn::NegMulAdd(rate, step, hn::Mul(p, shrink)), params + i, extent);
        store(m, exp_avg + i, extent);
        store(v, exp_avg_sq + i, extent);
    });
}

template<class T, class U>
void sgd(const Sgd &a, const Lists &lists) {
    const auto *grads = static_cast<const T *>(lists.grads);
    auto *params = static_cast<U *>(lists.params);
    float *buffers = lists.first;
    const VF decay = hn::Set(f32, a.decay), lr = hn::Set(f32, a.lr);
    if (!a.has_momentum) {
        along(lists.count, [=](size_t i, auto extent) HWY_ATTR {
            const VF p = load(params + i, extent);
            const VF g = hn::MulAdd(p, decay, load(grads + i, extent));
            store(hn::NegMulAdd(lr, g, p), params + i, extent);
        });
        return;
    }
    const VF taken = hn::Set(f32, a.taken), momentum = hn::Set(f32, a.momentum);
    const bool first_run = a.first_run, nesterov = a.nesterov;
    along(lists.count, [=](size_t i, auto extent) HWY_ATTR {
        const VF p = load(params + i, extent);
        const VF g = hn::MulAdd(p, decay, load(grads + i, extent));
        // The first run does not read the buffer, whose contents are undefined then.
        const VF b = first_run ? g : hn::MulAdd(load(buffers + i, extent), momentum, hn::Mul(g, taken));
        store(b, buffers + i, extent);
        store(hn::NegMulAdd(lr, nesterov ? hn::MulAdd(b, momentum, g) : b, p), params + i, extent);
    });
}

void adam_chunk(const Adam &a, const Lists &lists) {
    visit_weighted(a.t, a.u,
                   [&](auto t, auto u) { adam<typename decltype(t)::type, typename decltype(u)::type>(a, lists); });
}

void sgd_chunk(const Sgd &a, const Lists &lists) {
    visit_weighted(a.t, a.u,
                   [&](auto t, auto u) { sgd<typename decltype(t)::type, typename decltype(u)::type>(a, lists); });
}

} // namespace HWY_NAMESPACE
} // namespace cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cpu {

HWY_EXPORT(adam_chunk);
HWY_EXPORT(sgd_chunk);

namespace {

opdock::Status check_adam(const opdock::Problem &problem) {
    return check_lists(problem, {"grads", "params", "exp_avg", "exp_avg_sq"});
}
opdock::Status check_sgd(const opdock::Problem &problem) {
    return check_lists(problem, {"grads", "params", "momentum_buffers"});
}

bool is_noop(const opdock::Call &call, uint32_t parameter) {
    const auto noop = call.input<const int32_t>(parameter);
    return noop && noop[0] != 0;
}

// Calls work(lists) for chunks of the lists; the last `states` lists are f32.
template<class Work>
void for_lists(const opdock::Call &call, uint32_t states, const Work &work) {
    const Chunks chunks(call.inputs_of(0));
    if (chunks.count() == 0)
        return;
    const int64_t grad_bytes = element_bytes(*call.input(0)), param_bytes = element_bytes(*call.input(1));
    const int64_t bytes = grad_bytes + 2 * param_bytes + int64_t{states} * 2 * static_cast<int64_t>(sizeof(float));
    for_each_chunk(chunks, bytes, Knobs::of(call), [&](int64_t, const Chunk &chunk) {
        const auto at = [&](uint32_t list, int64_t size) {
            return elements<std::byte>(call, list, {chunk.tensor, 0, 0}) + chunk.begin * size;
        };
        const auto state = [&](uint32_t list) { return elements<float>(call, list, chunk); };
        work(Lists{at(0, grad_bytes), at(1, param_bytes), state(2), states > 1 ? state(3) : nullptr,
                   static_cast<size_t>(chunk.end - chunk.begin)});
    });
}

opdock::Status run_adam(const opdock::Call &call) {
    if (is_noop(call, 6))
        return {};
    const auto step = call.input<float>(5);
    step[0] += 1;
    if (call.inputs_of(0).empty())
        return {};
    const double lr = static_cast<double>(call.input<const float>(4)[0]);
    const double beta1 = call.get_float(0), beta2 = call.get_float(1), weight_decay = call.get_float(3);
    const auto steps = static_cast<double>(step[0]);
    const bool decoupled = call.get_bool(4);
    const Adam a = {
        .t = call.input(0)->dtype,
        .u = call.input(1)->dtype,
        .beta1 = static_cast<float>(beta1),
        .rest1 = static_cast<float>(1 - beta1),
        .beta2 = static_cast<float>(beta2),
        .root_rest2 = static_cast<float>(std::sqrt(1 - beta2)),
        .coupled_decay = static_cast<float>(decoupled ? 0 : weight_decay),
        .shrink = static_cast<float>(decoupled ? 1 - lr * weight_decay : 1),
        .rate = static_cast<float>(lr / (1 - std::pow(beta1, steps))),
        .root_scale = static_cast<float>(1 / std::sqrt(1 - std::pow(beta2, steps))),
        .eps = static_cast<float>(call.get_float(2)),
    };
    for_lists(call, 2, [&](const Lists &lists) { HWY_DYNAMIC_DISPATCH(adam_chunk)(a, lists); });
    return {};
}

opdock::Status run_sgd(const opdock::Call &call) {
    if (is_noop(call, 4) || call.inputs_of(0).empty())
        return {};
    const double momentum = call.get_float(0);
    const Sgd a = {
        .t = call.input(0)->dtype,
        .u = call.input(1)->dtype,
        .decay = static_cast<float>(call.get_float(2)),
        .momentum = static_cast<float>(momentum),
        .taken = static_cast<float>(1 - call.get_float(1)),
        .lr = call.input<const float>(3)[0],
        .has_momentum = momentum != 0,
        .first_run = call.get_bool(4),
        .nesterov = call.get_bool(3),
    };
    for_lists(call, 1, [&](const Lists &lists) { HWY_DYNAMIC_DISPATCH(sgd_chunk)(a, lists); });
    return {};
}

} // namespace

void add_optimizer(Plugin &plugin) {
    namespace ops = opdock::ops;
    plugin.add(ops::multi_tensor_adam, weighted, {opdock::kernel<&run_adam>, opdock::supports<&check_adam>});
    plugin.add(ops::multi_tensor_sgd, weighted, {opdock::kernel<&run_sgd>, opdock::supports<&check_sgd>});
}

} // namespace cpu
#endif
