// topk_softmax_fwd, topk_sigmoid_fwd and their gradients: a group of threads per token.
#include "choice.cuh"
#include "ops/ops.hpp"

namespace gpu {
namespace {

struct Topk {
    int64_t tokens;
    int experts, k;
    bool renormalize;

    Topk(const DLTensor &logits, const DLTensor &weights, bool renormalizes)
        : tokens(logits.shape[0]), experts(static_cast<int>(logits.shape[1])), k(static_cast<int>(weights.shape[1])),
          renormalize(renormalizes) {}
};

// A thread has every threads-th of the k choices. If it has several, it reads back its own results.
template<class T, int V>
__global__ void __launch_bounds__(1024)
    softmax_kernel(Topk shape, int threads, const T *logits, float *weights, int32_t *indices) {
    wait_for_earlier_kernels();
    let_the_next_start(128);
    __shared__ float shared[most_warps];
    const Place place = place_of(threads, shape.tokens);
    const int n = place.exists ? shape.experts : 0, k = place.exists ? shape.k : 0;
    const T *row = logits + place.row * shape.experts;
    weights += place.row * shape.k;
    indices += place.row * shape.k;
    const auto logit_at = [&](int i) { return to_f32(row[i]); };
    using Key = std::conditional_t<sizeof(T) == 2 && V != 0, NarrowKey, WideKey>;
    const Choices<Key, V, decltype(logit_at)> choices(n, place, logit_at);
    float pivot = 0.0f, sum = 0.0f, last = 0.0f;
    choices.choose(shape.k, [&](int j, float logit, int expert) {
        pivot = j == 0 ? logit : pivot;
        if ((j & (threads - 1)) == place.thread) {
            if (k > threads) {
                weights[j] = logit;
            }
            last = logit;
            indices[j] = expert;
            sum += shape.renormalize ? expf(logit - pivot) : 0.0f;
        }
    });
    if (!shape.renormalize) {
        choices.each([&](float logit) { sum += expf(logit - pivot); });
    }
    sum = reduce<Sum>(sum, threads, shared);
    for (int j = place.thread; j < k; j += threads) {
        weights[j] = expf((k > threads ? weights[j] : last) - pivot) / sum;
    }
}

template<class T>
__global__ void __launch_bounds__(1024)
    softmax_bwd_kernel(Topk shape, int threads, const float *grad_weights, const T *logits, const float *weights,
                       const int32_t *indices, T *grad_logits) {
    wait_for_earlier_kernels();
    let_the_next_start(128);
    __shared__ float shared[2 * most_warps];
    const Place place = place_of(threads, shape.tokens);
    const int n = place.exists ? shape.experts : 0, k = place.exists ? shape.k : 0;
    const T *row = logits + place.row * shape.experts;
    T *to = grad_logits + place.row * shape.experts;
    const int64_t first = place.row * shape.k;
    float pivot = -INFINITY, sums[2] = {0.0f, 0.0f}; // over exponentials, and over weights times their gradients
    if (!shape.renormalize) {
        for (int i = place.thread; i < n; i += threads) {
            pivot = Largest::of(to_f32(row[i]), pivot);
        }
        pivot = reduce<Largest>(pivot, threads, shared);
        for (int i = place.thread; i < n; i += threads) {
            sums[0] += expf(to_f32(row[i]) - pivot);
        }
        wait_for_block(); // before `shared` is overwritten
    }
    for (int j = place.thread; j < k; j += threads) {
        sums[1] = fmaf(weights[first + j], grad_weights[first + j], sums[1]);
    }
    reduce<Sum>(sums, threads, shared);
    const auto probability = [&](int i) { return expf(to_f32(row[i]) - pivot) / sums[0]; };
    for (int i = place.thread; i < n; i += threads) {
        to[i] = from_f32<T>(shape.renormalize ? 0.0f : -(probability(i) * sums[1]));
    }
    wait_for_block(); // other threads overwrite elements of the choices
    for (int j = place.thread; j < k; j += threads) {
        const int expert = indices[first + j];
        if (expert >= 0 && expert < n) {
            const float weight = weights[first + j];
            const float p = shape.renormalize ? weight : probability(expert);
            to[expert] = from_f32<T>(fmaf(weight, grad_weights[first + j], -(p * sums[1])));
        }
    }
}

// In double precision; the choice is based on the result rounded to f32.
__device__ __forceinline__ float sigmoid(float x) {
    return static_cast<float>(1.0 / (1.0 + exp(-static_cast<double>(x))));
}

// Added to sums of scores before dividing by them.
constexpr float least_sum = 1e-20f;

template<class T, int V>
__global__ void __launch_bounds__(1024) sigmoid_kernel(Topk shape, float scale, int threads, const T *logits,
                                                       const float *bias, float *weights, int32_t *indices) {
    wait_for_earlier_kernels();
    let_the_next_start(128);
    __shared__ float shared[most_warps];
    const Place place = place_of(threads, shape.tokens);
    const int n = place.exists ? shape.experts : 0, k = place.exists ? shape.k : 0;
    const T *row = logits + place.row * shape.experts;
    weights += place.row * shape.k;
    indices += place.row * shape.k;
    float sum = 0.0f;
    const auto score_at = [&](int i) { return sigmoid(to_f32(row[i])) + (bias == nullptr ? 0.0f : bias[i]); };
    const Choices<WideKey, V, decltype(score_at)> choices(n, place, score_at);
    choices.choose(shape.k, [&](int j, float, int expert) {
        if ((j & (threads - 1)) == place.thread) {
            weights[j] = sigmoid(to_f32(row[expert]));
            indices[j] = expert;
            sum += weights[j];
        }
    });
    const float divisor = shape.renormalize ? reduce<Sum>(sum, threads, shared) + least_sum : 1.0f;
    for (int j = place.thread; j < k; j += threads) {
        weights[j] = scale * (weights[j] / divisor);
    }
}

template<class T>
__global__ void __launch_bounds__(1024)
    sigmoid_bwd_kernel(Topk shape, float scale, int threads, const float *grad_weights, const T *logits,
                       const int32_t *indices, T *grad_logits) {
    wait_for_earlier_kernels();
    let_the_next_start(128);
    __shared__ float shared[2 * most_warps];
    const Place place = place_of(threads, shape.tokens);
    const int n = place.exists ? shape.experts : 0, k = place.exists ? shape.k : 0;
    const T *row = logits + place.row * shape.experts;
    T *to = grad_logits + place.row * shape.experts;
    grad_weights += place.row * shape.k;
    indices += place.row * shape.k;
    for (int i = place.thread; i < n; i += threads) {
        to[i] = from_f32<T>(0.0f);
    }
    float sums[2] = {0.0f, 0.0f}; // over scores, and over scores times the gradients of the weights
    for (int j = place.thread; j < k; j += threads) {
        const int expert = indices[j];
        if (expert >= 0 && expert < n) {
            const float score = sigmoid(to_f32(row[expert]));
            sums[0] += score;
            sums[1] = fmaf(scale * grad_weights[j], score, sums[1]);
        }
    }
    if (shape.renormalize) {
        reduce<Sum>(sums, threads, shared);
        sums[0] += least_sum;
    }
    wait_for_block(); // other threads overwrite elements of the choices
    for (int j = place.thread; j < k; j += threads) {
        const int expert = indices[j];
        if (expert >= 0 && expert < n) {
            const float logit = to_f32(row[expert]), grad = scale * grad_weights[j];
            const float of_score = shape.renormalize ? (grad - sums[1] / sums[0]) / sums[0] : grad;
            to[expert] = from_f32<T>(of_score * (sigmoid(logit) * sigmoid(-logit)));
        }
    }
}

opdock::Status sigmoids(const opdock::Call &call) {
    const Topk shape(*call.input(0), *call.output(0), call.get_bool(1));
    if (shape.k == 0) {
        return {};
    }
    const ChoicePlan plan(shape.experts);
    return visit_floating(call.input(0)->dtype, [&](auto t) {
        using T = typename decltype(t)::type;
        return visit_choice(plan, [&](auto V) {
            return launch(call, plan.grid(shape.tokens), sigmoid_kernel<T, decltype(V)::value>, shape,
                          static_cast<float>(call.get_float(2)), plan.threads,
                          static_cast<const T *>(input_data(call, 0)), static_cast<const float *>(input_data(call, 1)),
                          static_cast<float *>(output_data(call, 0)), static_cast<int32_t *>(output_data(call, 1)));
        });
    });
}

opdock::Status sigmoids_bwd(const opdock::Call &call) {
    const Topk shape(*call.input(1), *call.input(0), call.get_bool(0));
    const ChoicePlan plan(shape.experts);
    return visit_floating(call.input(1)->dtype, [&](auto t) {
        using T = typename decltype(t)::type;
        return launch(call, plan.grid(shape.tokens), sigmoid_bwd_kernel<T>, shape,
                      static_cast<float>(call.get_float(1)), plan.threads,
                      static_cast<const float *>(input_data(call, 0)), static_cast<const T *>(input_data(call, 1)),
                      static_cast<const int32_t *>(input_data(call, 2)), static_cast<T *>(output_data(call, 0)));
    });
}

opdock::Status softmax(const opdock::Call &call) {
    const Topk shape(*call.input(0), *call.output(0), call.get_bool(1));
    if (shape.k == 0) {
        return {};
    }
    const ChoicePlan plan(shape.experts);
    return visit_floating(call.input(0)->dtype, [&](auto t) {
        using T = typename decltype(t)::type;
        return visit_choice(plan, [&](auto V) {
            return launch(call, plan.grid(shape.tokens), softmax_kernel<T, decltype(V)::value>, shape, plan.threads,
                          static_cast<const T *>(input_data(call, 0)), static_cast<float *>(output_data(call, 0)),
                          static_cast<int32_t *>(output_data(call, 1)));
        });
    });
}

opdock::Status softmax_bwd(const opdock::Call &call) {
    const Topk shape(*call.input(1), *call.input(0), call.get_bool(0));
    const ChoicePlan plan(shape.experts);
    return visit_floating(call.input(1)->dtype, [&](auto t) {
        using T = typename decltype(t)::type;
        return launch(call, plan.grid(shape.tokens), softmax_bwd_kernel<T>, shape, plan.threads,
                      static_cast<const float *>(input_data(call, 0)), static_cast<const T *>(input_data(call, 1)),
                      static_cast<const float *>(input_data(call, 2)),
                      static_cast<const int32_t *>(input_data(call, 3)), static_cast<T *>(output_data(call, 0)));
    });
}

} // namespace

void add_choice(Plugin &plugin) {
    namespace ops = opdock::ops;
    plugin.add(ops::topk_sigmoid_fwd, any_float, {opdock::kernel<&sigmoids>, Knobs::none});
    plugin.add(ops::topk_sigmoid_bwd, any_float, {opdock::kernel<&sigmoids_bwd>, Knobs::none});
    plugin.add(ops::topk_softmax_fwd, any_float, {opdock::kernel<&softmax>, Knobs::none});
    plugin.add(ops::topk_softmax_bwd, any_float, {opdock::kernel<&softmax_bwd>, Knobs::none});
}

} // namespace gpu
