// cross_entropy_fwd and cross_entropy_bwd.
#include "cross_entropy.cuh"
#include "ops/ops.hpp"

namespace gpu {
namespace {

// The losses of rows; `lses` may be null.
template<class T, int N, bool peels>
__global__ void __launch_bounds__(1024) forward_kernel(CrossEntropy shape, int threads, const T *logits,
                                                       const int64_t *targets, float *losses, float *lses) {
    wait_for_earlier_kernels();
    extern __shared__ float shared[];
    const Place place = place_of(threads, shape.rows);
    const T *row = logits + place.row * shape.classes;
    const int64_t target = place.exists ? targets[place.row] : shape.ignore_index;
    const bool ignored = target == shape.ignore_index;
    const Vectors<N, peels> vectors(row, place.exists && !(ignored && lses == nullptr) ? shape.classes : 0);
    const bool last_word = place.exists && has_target(shape, vectors, place, target);
    float wanted = NAN;
    if (last_word && !ignored && shape.is_class(target)) {
        wanted = to_f32(row[target]);
    }
    const Statistics statistics =
        Statistics::of(shape, threads, shared, [&](auto body) { each_in_batches(row, vectors, place, body); });
    if (last_word) {
        losses[place.row] = ignored ? 0.0f : statistics.loss(shape, wanted);
        if (lses != nullptr) {
            lses[place.row] = statistics.lse();
        }
    }
}

template<class T, int N, bool peels>
__global__ void __launch_bounds__(1024)
    backward_kernel(CrossEntropy shape, int threads, const float *grad_losses, const T *logits, const int64_t *targets,
                    const float *lses, T *grad_logits) {
    wait_for_earlier_kernels();
    const Place place = place_of(threads, shape.rows);
    if (!place.exists) {
        return;
    }
    const T *row = logits + place.row * shape.classes;
    T *to = grad_logits + place.row * shape.classes;
    const Vectors<N, peels> vectors(row, shape.classes);
    const int64_t target = targets[place.row];
    if (target == shape.ignore_index) {
        clear(to, vectors, place);
        return;
    }
    const bool writes_target = shape.is_class(target) && has_target(shape, vectors, place, target);
    const float wanted = writes_target ? to_f32(row[target]) : NAN;
    const float lse = lses[place.row];
    const Exponential exponential(log2_e, lse == -INFINITY ? NAN : lse); // of a row of minus infinity
    const Gradient gradient(shape, target, wanted, grad_losses[place.row], exponential, exponential.of_from());
    visit_range(gradient.exponential, [&](auto is_in_range) {
        each_in_batches(row, vectors, place, [&](int64_t i, const auto &x) {
            constexpr int count = sizeof(x) / sizeof(float);
            float y[count];
            gradient.of<decltype(is_in_range)::value != 0>(x, y);
            store<count>(to + i, y);
        });
    });
    if (writes_target) {
        to[target] = from_f32<T>(gradient.at_target);
    }
}

opdock::Status forward(const opdock::Call &call) {
    const CrossEntropy shape = shape_of(call, 0);
    return visit_floating(call.input(0)->dtype, [&](auto t) {
        using T = typename decltype(t)::type;
        const auto *logits = static_cast<const T *>(input_data(call, 0));
        const auto *target = static_cast<const int64_t *>(input_data(call, 1));
        auto *loss = static_cast<float *>(output_data(call, 0));
        auto *lse = static_cast<float *>(output_data(call, 1));
        return visit_vectors<T>(call, shape.classes, aligned(logits), false,
                                [&](auto N, auto peels, const RowPlan &plan) {
                                    return launch(call, plan.grid(shape.rows, 2 * statistics_arrays),
                                                  forward_kernel<T, decltype(N)::value, decltype(peels)::value != 0>,
                                                  shape, plan.threads, logits, target, loss, lse);
                                });
    });
}

opdock::Status backward(const opdock::Call &call) {
    const CrossEntropy shape = shape_of(call, 1);
    return visit_floating(call.input(1)->dtype, [&](auto t) {
        using T = typename decltype(t)::type;
        const auto *grad_loss = static_cast<const float *>(input_data(call, 0));
        const auto *logits = static_cast<const T *>(input_data(call, 1));
        const auto *target = static_cast<const int64_t *>(input_data(call, 2));
        const auto *lse = static_cast<const float *>(input_data(call, 3));
        auto *grad_logits = static_cast<T *>(output_data(call, 0));
        return visit_vectors<T>(call, shape.classes, all_aligned(logits, grad_logits), are_apart(logits, grad_logits),
                                [&](auto N, auto peels, const RowPlan &plan) {
                                    return launch(call, plan.grid(shape.rows, 0),
                                                  backward_kernel<T, decltype(N)::value, decltype(peels)::value != 0>,
                                                  shape, plan.threads, grad_loss, logits, target, lse, grad_logits);
                                });
    });
}

} // namespace

void add_cross_entropy(Plugin &plugin) {
    namespace ops = opdock::ops;
    plugin.add(ops::cross_entropy_fwd, any_float, {opdock::kernel<&forward>, Knobs::row_batches});
    plugin.add(ops::cross_entropy_bwd, any_float, {opdock::kernel<&backward>, Knobs::row_batches});
}

} // namespace gpu
