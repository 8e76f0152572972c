// linear_fwd, linear_dgrad and linear_wgrad.
#include "column_sums.hpp"
#include "ops/ops.hpp"
#include "product.hpp"
#include "row_blocks.hpp"

namespace cpu {
namespace {

constexpr Operand forward_operands[] = {{"input"}, {"weight"}, {"bias"}, {"output"}};
constexpr Operand dgrad_operands[] = {{"grad"}, {"weight"}, {"grad_input"}};
constexpr Operand wgrad_operands[] = {{"grad"}, {"input"}, {"grad_weight"}, {"grad_bias"}};

opdock::Status check_forward(const opdock::Problem &problem) {
    return check_rows(problem, forward_operands);
}
opdock::Status check_dgrad(const opdock::Problem &problem) {
    return check_rows(problem, dgrad_operands);
}
opdock::Status check_wgrad(const opdock::Problem &problem) {
    return check_rows(problem, wgrad_operands);
}

void multiply_one(const opdock::Call &call, const Product &a) {
    multiply_all(a, 1, Knobs::of(call), [&](int64_t) -> const Product & { return a; });
}

opdock::Status forward(const opdock::Call &call) {
    const DLTensor &weight = *call.input(1);
    multiply_one(call, {
                           .t = weight.dtype,
                           .x = {Rows::of_input(call, 0)},
                           .w = {Rows::of_input(call, 1)},
                           .bias = Rows::of_input(call, 2),
                           .output = Rows::of_output(call, 0),
                           .rows = row_count(*call.input(0)),
                           .columns = weight.shape[0],
                           .depth = weight.shape[1],
                       });
    return {};
}

opdock::Status dgrad(const opdock::Call &call) {
    const DLTensor &weight = *call.input(1);
    multiply_one(call, {
                           .t = weight.dtype,
                           .x = {Rows::of_input(call, 0)},
                           .w = {Rows::of_input(call, 1), true},
                           .bias = {},
                           .output = Rows::of_output(call, 0),
                           .rows = row_count(*call.input(0)),
                           .columns = weight.shape[1],
                           .depth = weight.shape[0],
                       });
    return {};
}

uint64_t wgrad_workspace(const opdock::Problem &problem) {
    return problem.has_output(1) ? block_sums_bytes(*problem.input(0)) : 0;
}

opdock::Status wgrad(const opdock::Call &call) {
    const DLTensor &grad = *call.input(0);
    const Rows grad_rows = Rows::of_input(call, 0);
    multiply_one(call, {
                           .t = grad.dtype,
                           .x = {grad_rows, true},
                           .w = {Rows::of_input(call, 1), true},
                           .bias = {},
                           .output = Rows::of_output(call, 0),
                           .rows = row_size(grad),
                           .columns = row_size(*call.input(1)),
                           .depth = row_count(grad),
                       });
    if (const Rows grad_bias = Rows::of_output(call, 1))
        sum_columns(grad, grad_rows, grad_bias, static_cast<float *>(call.workspace()), Knobs::of(call));
    return {};
}

} // namespace

void add_linear(Plugin &plugin) {
    namespace ops = opdock::ops;
    plugin.add(ops::linear_fwd, any_float, {opdock::kernel<&forward>, opdock::supports<&check_forward>});
    plugin.add(ops::linear_dgrad, any_float, {opdock::kernel<&dgrad>, opdock::supports<&check_dgrad>});
    plugin.add(ops::linear_wgrad, any_float,
               {opdock::kernel<&wgrad>, opdock::supports<&check_wgrad>, opdock::workspace_size<&wgrad_workspace>});
}

} // namespace cpu
