// attention_bwd.
#include <algorithm>

#include "attention_arguments.hpp"
#include "attention_bwd.cuh"
#include "ops/ops.hpp"

namespace gpu {
namespace {

// Number of rows, over [batch, query, head].
int64_t rows_of(const opdock::Problem &problem) {
    const DLTensor &query = *problem.input(1);
    return query.shape[0] * query.shape[1] * query.shape[2];
}

uint64_t workspace_size(const opdock::Problem &problem) {
    return static_cast<uint64_t>(rows_of(problem)) * sizeof(float);
}

template<class T>
BackwardArguments<T> arguments_of(const opdock::Call &call) {
    BackwardArguments<T> a = {};
    a.attention = attention_of(call, 1, 7);
    a.scale = a.attention.soft_cap > 0 ? a.attention.factor : a.attention.factor * ln_2;
    a.grad = head_rows<const T>(*call.input(0), input_data(call, 0));
    a.query = head_rows<const T>(*call.input(1), input_data(call, 1));
    a.key = head_rows<const T>(*call.input(2), input_data(call, 2));
    a.value = head_rows<const T>(*call.input(3), input_data(call, 3));
    a.output = head_rows<const T>(*call.input(4), input_data(call, 4));
    a.lse = head_numbers<const float>(call.input(5), input_data(call, 5));
    a.bias = head_numbers<const T>(call.input(6), input_data(call, 6));
    a.grad_query = head_rows<T>(*call.output(0), output_data(call, 0));
    a.grad_key = head_rows<T>(*call.output(1), output_data(call, 1));
    a.grad_value = head_rows<T>(*call.output(2), output_data(call, 2));
    a.grad_bias = head_numbers<T>(call.output(3), output_data(call, 3));
    const int64_t queries = a.attention.queries;
    a.projections = {static_cast<float *>(call.workspace()), queries * a.attention.heads, queries, 1, 0};
    return a;
}

template<class T>
opdock::Status before(const opdock::Call &call, const BackwardArguments<T> &a) {
    const int64_t rows = rows_of(call);
    if (a.grad_bias.data != nullptr) {
        if (opdock::Status status = launch(call, {rows, 256}, clear_bias_kernel<T>, a); !status.ok()) {
            return status;
        }
    }
    const auto lanes = static_cast<int>(next_power_of_two(std::max<int64_t>(ceil_div(a.attention.e, 8), 1)));
    return launch(call, {ceil_div(rows * lanes, 256), 256}, projections_kernel<T>, a, lanes);
}

opdock::Status run(const opdock::Call &call) {
    return visit_floating(call.input(0)->dtype, [&](auto tag) -> opdock::Status {
        using T = typename decltype(tag)::type;
        const auto a = arguments_of<T>(call);
        if (opdock::Status status = before(call, a); !status.ok()) {
            return status;
        }
        const Attention &of = a.attention;
        return visit_dims<T>(std::max(of.d, of.e), [&](auto dims) {
            using Way = Backward<T, decltype(dims)::value>;
            Grid grid = {tiles_of(of, of.queries, Way::rows) * int64_t(of.batches) * of.heads, Way::threads,
                         Way::bytes};
            opdock::Status status = launch_with_shared_memory(call, grid, Way::of_queries, a);
            grid.blocks = tiles_of(of, of.keys, Way::rows) * int64_t(of.batches) * of.key_heads * Way::parts;
            return status.ok() ? launch_with_shared_memory(call, grid, Way::of_keys, a) : std::move(status);
        });
    });
}

opdock::Status supports(const opdock::Problem &problem) {
    if (opdock::Status status = check_starts(problem, 7); !status.ok()) {
        return status;
    }
    if (opdock::Status status = check_rows({problem.input(0), problem.input(1), problem.input(2), problem.input(3),
                                            problem.input(4), problem.output(0), problem.output(1), problem.output(2)});
        !status.ok()) {
        return status;
    }
    const bool is_wide = std::max(row_size(*problem.input(1)), row_size(*problem.input(3))) > 128;
    return check_sizes(problem, 1, is_wide ? Backward<bf16, most_dims>::bytes : Backward<bf16, 128>::bytes);
}

} // namespace

void add_attention_bwd(Plugin &plugin) {
    Implementation attention = {opdock::kernel<&run>, Knobs::none, opdock::supports<&supports>,
                                opdock::workspace_size<&workspace_size>};
    attention.any_strides = true;
    plugin.add(opdock::ops::attention_bwd, any_float, attention);
}

} // namespace gpu
