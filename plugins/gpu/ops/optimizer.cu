// multi_tensor_adam and multi_tensor_sgd.
#include <cmath>

#include "multi_tensor.cuh"
#include "ops/ops.hpp"

namespace gpu {
namespace {

// Values that a step of Adam needs from device memory, computed once because of their pow and f64 divisions.
struct alignas(16) AdamFactors {
    float shrink;     // factor of the parameters before the step
    float rate;       // lr / (1 - beta1^step)
    float root_scale; // 1 / sqrt(1 - beta2^step)
    int32_t skip;
};

__global__ void adam_begin_kernel(const float *lr, float *step, const int32_t *noop, double beta1, double beta2,
                                  double decay, AdamFactors *factors) {
    wait_for_earlier_kernels();
    if (noop != nullptr && *noop != 0) {
        *factors = {0, 0, 0, 1};
        return;
    }
    // No other thread reads step: the kernels that follow use the factors.
    *step += 1.0f;
    const double steps = *step, rate = *lr;
    *factors = {static_cast<float>(1 - rate * decay), static_cast<float>(rate / (1 - pow(beta1, steps))),
                static_cast<float>(1 / sqrt(1 - pow(beta2, steps))), 0};
}

template<class T, class U>
struct Adam {
    static constexpr int lists = 4, N = 4; // grads, params, exp_avg, exp_avg_sq

    template<int n>
    struct Held {
        Vector<T, n> grad;
        Vector<U, n> param;
        Vector<float, n> average, average_of_squares;
    };

    float beta1, rest1;      // 1 - beta1
    float beta2, root_rest2; // the square root of 1 - beta2
    float coupled_decay;     // of the parameters, added to their gradient; 0: not added, even if they are not finite
    float eps;
    const AdamFactors *factors;

    __device__ __forceinline__ AdamFactors now() const { return *factors; }

    template<int n>
    __device__ __forceinline__ void read(Held<n> &held, void *const (&data)[lists], int64_t i) const {
        held.grad = read_vector<T, n>(data[0], i);
        held.param = read_vector<U, n>(data[1], i);
        held.average = read_vector<float, n>(data[2], i);
        held.average_of_squares = read_vector<float, n>(data[3], i);
    }

    template<int n>
    __device__ __forceinline__ void write(const Held<n> &held, void *const (&data)[lists], int64_t i,
                                          const AdamFactors &now) const {
        float params[n], averages[n], averages_of_squares[n];
#pragma unroll
        for (int k = 0; k < n; ++k) {
            const float p = to_f32(held.param.elements[k]);
            const float own = to_f32(held.grad.elements[k]);
            // 0 times NaN or infinity would stay in the averages for good.
            const float g = coupled_decay == 0.0f ? own : fmaf(p, coupled_decay, own);
            const float m = fmaf(held.average.elements[k], beta1, g * rest1);
            // Squared last, so that it overflows only if the average does.
            const float part = g * root_rest2;
            const float v = fmaf(held.average_of_squares.elements[k], beta2, part * part);
            params[k] = fmaf(-now.rate, m / fmaf(sqrtf(v), now.root_scale, eps), p * now.shrink);
            averages[k] = m;
            averages_of_squares[k] = v;
        }
        write_vector<n, U>(data[1], i, params);
        write_vector<n, float>(data[2], i, averages);
        write_vector<n, float>(data[3], i, averages_of_squares);
    }
};

uint64_t adam_workspace(const opdock::Problem & /*problem*/) {
    return sizeof(AdamFactors);
}

opdock::Status adam(const opdock::Call &call) {
    const double beta1 = call.get_float(0), beta2 = call.get_float(1), decay = call.get_float(3);
    const bool decoupled = call.get_bool(4);
    auto *factors = static_cast<AdamFactors *>(call.workspace());
    opdock::Status begun =
        launch(call, {1, 1}, adam_begin_kernel, static_cast<const float *>(input_data(call, 4)),
               static_cast<float *>(input_data(call, 5)), static_cast<const int32_t *>(input_data(call, 6)), beta1,
               beta2, decoupled ? decay : 0.0, factors);
    if (!begun.ok() || call.inputs_of(0).empty()) {
        return begun;
    }
    return visit_weighted(call.inputs_of(0)[0]->dtype, call.inputs_of(1)[0]->dtype, [&](auto t, auto u) {
        Adam<typename decltype(t)::type, typename decltype(u)::type> step;
        step.beta1 = static_cast<float>(beta1);
        step.rest1 = static_cast<float>(1 - beta1);
        step.beta2 = static_cast<float>(beta2);
        step.root_rest2 = static_cast<float>(std::sqrt(1 - beta2));
        step.coupled_decay = static_cast<float>(decoupled ? 0 : decay);
        step.eps = static_cast<float>(call.get_float(2));
        step.factors = factors;
        return after_the_first(run_step(call, step));
    });
}

struct SgdNow {
    float lr;
    bool skip;
};

template<class T, class U>
struct Sgd {
    static constexpr int lists = 3, N = 4; // grads, params, momentum_buffers

    template<int n>
    struct Held {
        Vector<T, n> grad;
        Vector<U, n> param;
        Vector<float, n> buffer;
    };

    float decay;
    float momentum;
    float taken;       // fraction of the gradient that is added to the buffer
    bool has_momentum; // if false, the buffers are not accessed
    bool reads_buffer; // false in the first run, when the buffers are uninitialized
    bool nesterov;
    const float *lr;
    const int32_t *noop; // null if absent

    __device__ __forceinline__ SgdNow now() const { return {*lr, noop != nullptr && *noop != 0}; }

    template<int n>
    __device__ __forceinline__ void read(Held<n> &held, void *const (&data)[lists], int64_t i) const {
        held.grad = read_vector<T, n>(data[0], i);
        held.param = read_vector<U, n>(data[1], i);
        if (reads_buffer) {
            held.buffer = read_vector<float, n>(data[2], i);
        }
    }

    template<int n>
    __device__ __forceinline__ void write(const Held<n> &held, void *const (&data)[lists], int64_t i,
                                          const SgdNow &now) const {
        float params[n], buffers[n];
#pragma unroll
        for (int k = 0; k < n; ++k) {
            const float p = to_f32(held.param.elements[k]);
            float step = fmaf(p, decay, to_f32(held.grad.elements[k]));
            if (has_momentum) {
                buffers[k] = reads_buffer ? fmaf(held.buffer.elements[k], momentum, step * taken) : step;
                step = nesterov ? fmaf(buffers[k], momentum, step) : buffers[k];
            }
            params[k] = fmaf(-now.lr, step, p);
        }
        write_vector<n, U>(data[1], i, params);
        if (has_momentum) {
            write_vector<n, float>(data[2], i, buffers);
        }
    }
};

opdock::Status sgd(const opdock::Call &call) {
    if (call.inputs_of(0).empty()) {
        return {};
    }
    return visit_weighted(call.inputs_of(0)[0]->dtype, call.inputs_of(1)[0]->dtype, [&](auto t, auto u) {
        Sgd<typename decltype(t)::type, typename decltype(u)::type> step;
        step.decay = static_cast<float>(call.get_float(2));
        step.momentum = static_cast<float>(call.get_float(0));
        step.taken = static_cast<float>(1 - call.get_float(1));
        step.has_momentum = call.get_float(0) != 0;
        step.reads_buffer = step.has_momentum && !call.get_bool(4);
        step.nesterov = call.get_bool(3);
        step.lr = static_cast<const float *>(input_data(call, 3));
        step.noop = static_cast<const int32_t *>(input_data(call, 4));
        return run_step(call, step);
    });
}

} // namespace

void add_optimizers(Plugin &plugin) {
    namespace ops = opdock::ops;
    plugin.add(ops::multi_tensor_adam, weighted,
               {opdock::kernel<&adam>, Knobs::elementwise, nullptr, opdock::workspace_size<&adam_workspace>});
    plugin.add(ops::multi_tensor_sgd, weighted, {opdock::kernel<&sgd>, Knobs::elementwise});
}

} // namespace gpu
