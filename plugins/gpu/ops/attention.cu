// attention_fwd.
#include <algorithm>

#include "attention_arguments.hpp"
#include "attention_fwd.cuh"
#include "ops/ops.hpp"

namespace gpu {
namespace {

opdock::Status run(const opdock::Call &call) {
    return visit_floating(call.input(0)->dtype, [&](auto tag) -> opdock::Status {
        using T = typename decltype(tag)::type;
        const ForwardArguments<T> a = {attention_of(call, 0, 4),
                                       head_rows<const T>(*call.input(0), input_data(call, 0)),
                                       head_rows<const T>(*call.input(1), input_data(call, 1)),
                                       head_rows<const T>(*call.input(2), input_data(call, 2)),
                                       head_rows<T>(*call.output(0), output_data(call, 0)),
                                       head_numbers<const T>(call.input(3), input_data(call, 3)),
                                       head_numbers<float>(call.output(1), output_data(call, 1))};
        const Attention &of = a.attention;
        return visit_dims<T>(std::max(of.d, of.e), [&](auto dims) {
            using Way = Forward<T, decltype(dims)::value>;
            const int64_t tiles = tiles_of(of, of.queries, Way::rows);
            return launch_with_shared_memory(call, {tiles * of.batches * of.heads, Way::threads, Way::bytes},
                                             Way::kernel, a);
        });
    });
}

opdock::Status supports(const opdock::Problem &problem) {
    if (opdock::Status status = check_starts(problem, 4); !status.ok()) {
        return status;
    }
    if (opdock::Status status = check_rows({problem.input(0), problem.input(1), problem.input(2), problem.output(0)});
        !status.ok()) {
        return status;
    }
    return check_sizes(problem, 0, Forward<bf16, most_dims>::bytes);
}

} // namespace

void add_attention(Plugin &plugin) {
    Implementation attention = {opdock::kernel<&run>, Knobs::none, opdock::supports<&supports>};
    attention.any_strides = true;
    plugin.add(opdock::ops::attention_fwd, any_float, attention);
}

} // namespace gpu
