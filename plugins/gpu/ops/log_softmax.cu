// log_softmax_fwd and log_softmax_bwd: a group of threads per row, or a cluster's blocks
// if the row is long; in one pass over memory if the row fits into their registers.
#include "exp_sum.cuh"
#include "ops/ops.hpp"
#include "shares.cuh"

namespace gpu {
namespace {

template<class T, int N, int V, bool peels>
__global__ void __launch_bounds__(1024)
    forward_kernel(int64_t rows, int64_t size, int threads, int ranks, const T *input, T *output) {
    wait_for_earlier_kernels();
    let_the_next_start(128);
    extern __shared__ float shared[];
    const auto share = Share<T, N, peels>::of(input, rows, size, threads, ranks);
    const T *row = input + share.begin;
    T *to = output + share.begin;
    auto x = share.template held<V>(row);
    if (ranks > 1) {
        wait_for_cluster();
    }
    const auto each = [&](auto body) {
        if constexpr (V > 0) {
            share.vectors.each_single(share.place, [&](int64_t i) {
                const float values[1] = {to_f32(row[i])};
                body(i, values);
            });
            x.each([&](int64_t i, const float(&values)[N]) { body(share.vectors.begin + i, values); });
        } else {
            each_in_batches(row, share.vectors, share.place, body);
        }
    };
    float total[2]; // an ExpSum
    gather_exp_sum(total, log2_e, threads, shared, [&](auto is_in_range, float(&values)[2]) {
        ExpSum mine;
        each([&](int64_t, const auto &elements) { mine.add<decltype(is_in_range)::value != 0>(elements, log2_e); });
        x.stay_narrow();
        values[0] = mine.largest;
        values[1] = mine.sum;
    });
    if (ranks > 1) {
        exchange_in_cluster(total, share.rank, ranks, shared + 4 * most_warps);
        reduce_exp_sum_lanes<Relative::by_range>(total, log2_e, ranks);
    }
    const float log_sum = ExpSum{total[0], total[1]}.log_above_largest();
    each([&](int64_t i, const auto &values) {
        constexpr int count = sizeof(values) / sizeof(float);
        float y[count];
#pragma unroll
        for (int k = 0; k < count; ++k) {
            y[k] = (values[k] - total[0]) - log_sum;
        }
        store<count>(to + i, y);
    });
}

// grad_input = grad - exp(output) * sum(grad)
template<class T, int N, int V, bool peels>
__global__ void __launch_bounds__(1024)
    backward_kernel(int64_t rows, int64_t size, int threads, int ranks, const T *grad, const T *output, T *grad_input) {
    wait_for_earlier_kernels();
    let_the_next_start(128);
    extern __shared__ float shared[];
    const auto share = Share<T, N, peels>::of(grad, rows, size, threads, ranks);
    const Place &place = share.place;
    const T *grads = grad + share.begin, *outputs = output + share.begin;
    T *to = grad_input + share.begin;
    auto g = share.template held<V>(grads), y = share.template held<V>(outputs);
    if (ranks > 1) {
        wait_for_cluster();
    }
    float sum[1] = {0.0f};
    const auto add = [&](int64_t, const auto &values) {
#pragma unroll
        for (const float value : values) {
            sum[0] += value;
        }
    };
    const auto write = [&](int64_t i, const auto &a, const auto &b) {
        constexpr int count = sizeof(a) / sizeof(float);
        float result[count];
#pragma unroll
        for (int k = 0; k < count; ++k) {
            result[k] = fmaf(-exp2_of(b[k] * log2_e), sum[0], a[k]);
        }
        store<count>(to + i, result);
    };
    if constexpr (V > 0) {
        share.vectors.each_single(place, [&](int64_t i) { sum[0] += to_f32(grads[i]); });
        g.each(add);
        g.stay_narrow();
    } else {
        each_in_batches(grads, share.vectors, place, add);
    }
    reduce<Sum>(sum, threads, shared);
    if (ranks > 1) {
        exchange_in_cluster(sum, share.rank, ranks, shared + most_warps);
        reduce_lanes<Sum>(sum, ranks);
    }
    share.vectors.each_single(place, [&](int64_t i) {
        const float a[1] = {to_f32(grads[i])}, b[1] = {to_f32(outputs[i])};
        write(i, a, b);
    });
    const int64_t begin = share.vectors.begin;
    if constexpr (V > 0) {
        g.each(y, [&](int64_t i, const float(&a)[N], const float(&b)[N]) { write(begin + i, a, b); });
    } else {
        constexpr int of_each = batch / 2; // both rows together as many as elsewhere one
        in_batches<N, of_each>(share.vectors.end - begin, place, [&](int64_t from, int64_t count) {
            const Row<T, N, of_each> part(grads + begin + from, count, place);
            const Row<T, N, of_each> other(outputs + begin + from, count, place);
            part.each(other, [&](int64_t i, const float(&a)[N], const float(&b)[N]) { write(begin + from + i, a, b); });
        });
    }
}

// Chooses the number of blocks of a cluster that share a row. They have 512 threads, so that one reads while another
// writes. With few rows, each row gets more blocks.
int share_out(const opdock::Call &call, RowPlan &plan, int64_t rows, int64_t vectors, int most_held) {
    constexpr int threads = 512;
    if (!has_clusters(call) || vectors <= int64_t(most_held) * threads) {
        return 1;
    }
    int ranks = 1;
    while (ranks < most_ranks && (vectors > int64_t(most_held) * threads * ranks ||
                                  rows * ranks * threads <= int64_t(512) * compute_units(call))) {
        ranks *= 2;
    }
    plan.threads = vectors > int64_t(most_held) * threads * ranks ? 2 * threads : threads;
    plan.rows_of_block = 1;
    plan.held = vectors > int64_t(most_held) * plan.threads * ranks ? 0 : most_held;
    return ranks;
}

// Calls start(Number<N>, Number<V>, Number<peels>, plan, grid, ranks). Short, aligned rows hold
// four vectors per thread, all others `held` vectors or none. `apart` is as in visit_vectors().
template<class T, int held, class Start>
opdock::Status visit_shares(const opdock::Call &call, bool are_aligned, bool apart, int arrays, Start start) {
    const int64_t rows = row_count(*call.input(0)), n = row_size(*call.input(0));
    const RowKnobs knobs = RowKnobs::of(call);
    constexpr int short_held = 4;
    const auto plan_of = [&](int most_held) {
        return plan_rows(n, apart ? 1 : wide<T>, knobs.threads, knobs.block, most_held);
    };
    RowPlan plan = plan_of(short_held);
    if (apart) {
        return start(Number<1>{}, Number<0>{}, Number<0>{}, plan, plan.grid(rows, arrays), 1);
    }
    if (width_of<T>(n, are_aligned) != 1 && plan.held != 0) {
        return start(Number<wide<T>>{}, Number<short_held>{}, Number<0>{}, plan, plan.grid(rows, arrays), 1);
    }
    plan = plan_of(held);
    const int ranks = share_out(call, plan, rows, n / wide<T> + 2, held);
    Grid grid = plan.grid(rows * ranks, arrays + 1); // one more array for the exchange in a cluster
    grid.cluster = ranks;
    return plan.held != 0 ? start(Number<wide<T>>{}, Number<held>{}, Number<1>{}, plan, grid, ranks)
                          : start(Number<wide<T>>{}, Number<0>{}, Number<1>{}, plan, grid, ranks);
}

opdock::Status forward(const opdock::Call &call) {
    const int64_t rows = row_count(*call.input(0)), n = row_size(*call.input(0));
    return visit_floating(call.input(0)->dtype, [&](auto t) {
        using T = typename decltype(t)::type;
        const auto *input = static_cast<const T *>(input_data(call, 0));
        auto *output = static_cast<T *>(output_data(call, 0));
        return visit_shares<T, 8>(
            call, all_aligned(input, output), are_apart(input, output), 4,
            [&](auto N, auto V, auto peels, const RowPlan &plan, const Grid &grid, int ranks) {
                return launch(call, grid,
                              forward_kernel<T, decltype(N)::value, decltype(V)::value, decltype(peels)::value != 0>,
                              rows, n, plan.threads, ranks, input, output);
            });
    });
}

opdock::Status backward(const opdock::Call &call) {
    const int64_t rows = row_count(*call.input(0)), n = row_size(*call.input(0));
    return visit_floating(call.input(0)->dtype, [&](auto t) {
        using T = typename decltype(t)::type;
        const auto *grad = static_cast<const T *>(input_data(call, 0));
        const auto *output = static_cast<const T *>(input_data(call, 1));
        auto *grad_input = static_cast<T *>(output_data(call, 0));
        // Both rows are held, so that registers have room for half as much of each.
        return visit_shares<T, 4>(
            call, all_aligned(grad, output, grad_input), are_apart(grad, output) || are_apart(grad, grad_input), 1,
            [&](auto N, auto V, auto peels, const RowPlan &plan, const Grid &grid, int ranks) {
                return launch(call, grid,
                              backward_kernel<T, decltype(N)::value, decltype(V)::value, decltype(peels)::value != 0>,
                              rows, n, plan.threads, ranks, grad, output, grad_input);
            });
    });
}

} // namespace

void add_log_softmax(Plugin &plugin) {
    plugin.add(opdock::ops::log_softmax_fwd, any_float, {opdock::kernel<&forward>, Knobs::rows});
    plugin.add(opdock::ops::log_softmax_bwd, any_float, {opdock::kernel<&backward>, Knobs::rows});
}

} // namespace gpu
