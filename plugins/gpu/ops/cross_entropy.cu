// cross_entropy_fwd and cross_entropy_bwd.
#include "cross_entropy.cuh"
#include "ops/ops.hpp"

namespace gpu {
namespace {

// The losses of the rows; `lses` may be null.
template<class T, int N, bool peels>
__global__ void __launch_bounds__(1024) forward_kernel(CrossEntropy shape, int threads, int ranks, const T *logits,
                                                       const int64_t *targets, float *losses, float *lses) {
    wait_for_earlier_kernels();
    let_the_next_start(128);
    extern __shared__ float shared[];
    if (ranks > 1) {
        arrive_at_cluster();
    }
    const auto share = Share<T, N, peels>::of(logits, shape.rows, shape.classes, threads, ranks);
    const Place &place = share.place;
    BatchedRow<T, N, peels> part(logits + share.begin, share.vectors, place);
    const int64_t target = place.exists ? targets[place.row] : shape.ignore_index;
    const bool ignored = target == shape.ignore_index;
    if (ignored && lses == nullptr) {
        part.leave_out();
    }
    const bool last_word = has_target(shape, share, target);
    float wanted = NAN;
    if (last_word && !ignored && shape.is_class(target)) {
        wanted = to_f32(logits[place.row * shape.classes + target]);
    }
    Statistics statistics = Statistics::of(shape, threads, shared, [&](auto body) { part.each(body); });
    if (ranks > 1) {
        wait_for_arrivals();
        statistics.reduce_over_cluster(share.rank, ranks, shared + 2 * statistics_arrays * most_warps);
    }
    if (last_word) {
        losses[place.row] = ignored ? 0.0f : statistics.loss(shape, wanted);
        if (lses != nullptr) {
            lses[place.row] = statistics.lse();
        }
    }
}

template<class T, int N, bool peels>
__global__ void __launch_bounds__(1024)
    backward_kernel(CrossEntropy shape, int threads, int ranks, const float *grad_losses, const T *logits,
                    const int64_t *targets, const float *lses, T *grad_logits) {
    wait_for_earlier_kernels();
    let_the_next_start(1024);
    const auto share = Share<T, N, peels>::of(logits, shape.rows, shape.classes, threads, ranks);
    const Place &place = share.place;
    if (!place.exists) {
        return;
    }
    BatchedRow<T, N, peels> part(logits + share.begin, share.vectors, place);
    T *to = grad_logits + share.begin;
    const int64_t target = targets[place.row];
    const float lse = lses[place.row], grad = grad_losses[place.row];
    if (target == shape.ignore_index) {
        clear(to, share.vectors, place);
        return;
    }
    const bool writes_target = shape.is_class(target) && has_target(shape, share, target);
    const float wanted = writes_target ? to_f32(logits[place.row * shape.classes + target]) : NAN;
    const Exponential exponential(log2_e, lse == -INFINITY ? NAN : lse); // NaN for a row of minus infinity
    const auto gradient_by = [&](float logit) {
        return Gradient(shape, target, logit, grad, exponential, exponential.of_from());
    };
    const Gradient gradient = gradient_by(NAN);
    visit_range(gradient.exponential, [&](auto is_in_range) {
        part.each([&](int64_t i, const auto &x) {
            constexpr int count = sizeof(x) / sizeof(float);
            float y[count];
            gradient.of<decltype(is_in_range)::value != 0>(x, y);
            store<count>(to + i, y);
        });
    });
    if (writes_target) { // not earlier: no thread waits for its logit before
        grad_logits[place.row * shape.classes + target] = from_f32<T>(gradient_by(wanted).at_target);
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
        return visit_peeled<T>(call, shape.classes, aligned(logits), [&](auto N, auto peels, RowPlan plan) {
            const int ranks = share_few_rows(call, plan, shape.rows, shape.classes / wide<T>);
            Grid grid = plan.grid(shape.rows * ranks, 2 * statistics_arrays + 1);
            grid.cluster = ranks;
            return launch(call, grid, forward_kernel<T, decltype(N)::value, decltype(peels)::value != 0>, shape,
                          plan.threads, ranks, logits, target, loss, lse);
        });
    });
}

// Chooses the number of blocks per row. If one block per row leaves room, small blocks are added until all threads of
// the device are busy, or until a thread has no second vector.
int parts_of_row(const opdock::Call &call, RowPlan &plan, int64_t rows, int64_t vectors) {
    constexpr int threads = 256;
    const int64_t room = int64_t(2048) * compute_units(call);
    if (2 * rows * plan.threads > room || vectors <= plan.threads) {
        return 1;
    }
    plan.threads = threads;
    plan.rows_of_block = 1;
    int parts = 1;
    while (rows * parts * threads < room && vectors > int64_t(threads) * parts) {
        parts *= 2;
    }
    return parts;
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
        return visit_vectors<T>(
            call, shape.classes, all_aligned(logits, grad_logits), are_apart(logits, grad_logits),
            [&](auto N, auto peels, RowPlan plan) {
                const int parts = parts_of_row(call, plan, shape.rows, shape.classes / decltype(N)::value);
                return launch(call, plan.grid(shape.rows * parts, 0),
                              backward_kernel<T, decltype(N)::value, decltype(peels)::value != 0>, shape, plan.threads,
                              parts, grad_loss, logits, target, lse, grad_logits);
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
