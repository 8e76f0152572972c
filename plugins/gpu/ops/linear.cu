// matmul, linear_fwd, linear_dgrad and linear_wgrad.
#include "ops/ops.hpp"

#include <algorithm>

#include "column_sums.hpp"
#include "cublaslt.hpp"
#include "launch.hpp"
#include "numbers.cuh"
#include "tensors.hpp"

namespace gpu {
namespace {

#ifdef __HIP__

const Implementation matmul = without_products, linear_fwd = matmul, linear_dgrad = matmul, linear_wgrad = matmul;

#else

Product matmul_product(const opdock::Problem &problem) {
    const DLTensor &a = *problem.input(0), &b = *problem.input(1);
    int64_t batches = 1;
    for (int d = 0; d + 2 < a.ndim; ++d) {
        batches *= a.shape[d];
    }
    return {a.dtype, a.shape[a.ndim - 2], row_size(b), row_size(a), false, false, false, batches};
}

// [..., k] times [n, k]^T.
Product forward_product(const opdock::Problem &problem) {
    const DLTensor &input = *problem.input(0), &weight = *problem.input(1);
    return {input.dtype, row_count(input), weight.shape[0], weight.shape[1], false, true, problem.has_input(2), 1};
}

// [..., n] times [n, k].
Product dgrad_product(const opdock::Problem &problem) {
    const DLTensor &grad = *problem.input(0), &weight = *problem.input(1);
    return {grad.dtype, row_count(grad), weight.shape[1], weight.shape[0], false, false, false, 1};
}

// [..., n]^T times [..., k].
Product wgrad_product(const opdock::Problem &problem) {
    const DLTensor &grad = *problem.input(0), &input = *problem.input(1);
    return {grad.dtype, row_size(grad), row_size(input), row_count(grad), true, false, false, 1};
}

using ProductOf = Product (*)(const opdock::Problem &);

template<ProductOf product_of>
opdock::Status make_plan(const opdock::Problem &problem, std::unique_ptr<ProductPlan> &made) {
    return ProductPlan::make(*problem.device_state<CublasLt>(), product_of(problem), made);
}

uint64_t workspace_of_plan(const opdock::Problem &problem) {
    return problem.plan<ProductPlan>()->workspace_size();
}

template<ProductOf product_of>
opdock::Status multiply(const opdock::Call &call) {
    const ProductPointers pointers = {input_data(call, 0), input_data(call, 1),
                                      product_of(call).has_bias ? input_data(call, 2) : nullptr, output_data(call, 0)};
    return call.plan<ProductPlan>()->run(call, *call.device_state<CublasLt>(), pointers);
}

ColumnSums bias_sums(const opdock::Problem &problem) {
    const DLTensor &grad = *problem.input(0);
    return {problem, grad.dtype, row_count(grad), row_size(grad), row_size(grad)};
}

uint64_t wgrad_workspace(const opdock::Problem &problem) {
    // The two run one after the other on a stream, so they may use the same bytes.
    return std::max(workspace_of_plan(problem), problem.has_output(1) ? bias_sums(problem).bytes() : uint64_t(0));
}

opdock::Status wgrad(const opdock::Call &call) {
    if (opdock::Status status = multiply<&wgrad_product>(call); !status.ok() || !call.has_output(1)) {
        return status;
    }
    const ColumnSums sums = bias_sums(call);
    auto *parts = static_cast<float *>(call.workspace());
    if (opdock::Status status = sum_columns(call, sums, input_data(call, 0), parts); !status.ok()) {
        return status;
    }
    return add_parts(call, sums, parts, output_data(call, 1));
}

template<ProductOf product_of>
Implementation with_plan(opdock_kernel kernel, decltype(opdock_impl::workspace_size) workspace_size) {
    return {kernel,
            Knobs::none,
            nullptr,
            workspace_size,
            opdock::available<&cublaslt_available>,
            opdock::device_state<&CublasLt::open>,
            opdock::plan<&make_plan<product_of>>};
}

template<ProductOf product_of>
Implementation only_product() {
    return with_plan<product_of>(opdock::kernel<&multiply<product_of>>, opdock::workspace_size<&workspace_of_plan>);
}

const Implementation matmul = only_product<&matmul_product>();
const Implementation linear_fwd = only_product<&forward_product>();
const Implementation linear_dgrad = only_product<&dgrad_product>();
const Implementation linear_wgrad =
    with_plan<&wgrad_product>(opdock::kernel<&wgrad>, opdock::workspace_size<&wgrad_workspace>);

#endif

} // namespace

void add_linear(Plugin &plugin) {
    namespace ops = opdock::ops;
    plugin.add(ops::matmul, any_float, matmul);
    plugin.add(ops::linear_fwd, any_float, linear_fwd);
    plugin.add(ops::linear_dgrad, any_float, linear_dgrad);
    plugin.add(ops::linear_wgrad, any_float, linear_wgrad);
}

} // namespace gpu
