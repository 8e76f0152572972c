// linear_fp8 and linear_fp8_block.
#include "ops/ops.hpp"

#ifndef __HIP__
#include "cublaslt.hpp"
#include "launch.hpp"
#endif
#include "tensors.hpp"

namespace gpu {
namespace {

#ifdef __HIP__

opdock::Status not_yet(DLDevice /*device*/) {
    return opdock::unsupported("no matrix products yet on ROCm");
}
opdock::Status never_called(const opdock::Call &call) {
    return not_yet(call.device());
}

const Implementation linear_fp8 = {opdock::kernel<&never_called>, Knobs::none, nullptr, nullptr,
                                   opdock::available<&not_yet>};
const Implementation linear_fp8_block = linear_fp8;

#else

// cuBLASLt wants the scales of blocks in an order of its own: those of input a column of blocks after the other, and
// the rows of those of weight in multiples of four. Those of input always go through the workspace, of weight where
// they are not in that order.
struct Fp8Plan {
    std::unique_ptr<ProductPlan> product;
    int64_t rows, blocks, weight_rows, weight_step; // scales: of input [rows, blocks], of weight [weight_rows, blocks]
    bool in_blocks;
    uint64_t input_scales, weight_scales, size; // offsets in the workspace

    bool pads() const { return in_blocks && weight_step != blocks; }
};

uint64_t round_up(uint64_t bytes) {
    return (bytes + 255) / 256 * 256;
}

template<Scales scales>
opdock::Status make_plan(const opdock::Problem &problem, std::unique_ptr<Fp8Plan> &made) {
    if (scales == Scales::of_blocks) {
        if (opdock::Status status = CublasLt::block_scales_available(); !status.ok()) {
            return status;
        }
    }
    const DLTensor &input = *problem.input(0), &weight = *problem.input(1), &output = *problem.output(0);
    const int64_t rows = row_count(input), columns = weight.shape[0], depth = weight.shape[1];
    Product product = {input.dtype, rows, columns, depth, false, true, problem.has_input(4), 1};
    product.right_dtype = weight.dtype;
    product.output_dtype = output.dtype;
    product.scales = scales;
    auto plan = std::make_unique<Fp8Plan>();
    if (opdock::Status status = ProductPlan::make(*problem.device_state<CublasLt>(), product, plan->product);
        !status.ok()) {
        return status;
    }
    plan->in_blocks = scales == Scales::of_blocks;
    plan->rows = rows;
    plan->blocks = ceil_div(depth, 128);
    plan->weight_rows = ceil_div(columns, 128);
    plan->weight_step = ceil_div(plan->blocks, 4) * 4;
    plan->input_scales = round_up(plan->product->workspace_size());
    const auto bytes = [](bool wanted, int64_t floats) {
        return wanted ? round_up(static_cast<uint64_t>(floats) * sizeof(float)) : 0;
    };
    plan->weight_scales = plan->input_scales + bytes(plan->in_blocks, plan->rows * plan->blocks);
    plan->size = plan->weight_scales + bytes(plan->pads(), plan->weight_rows * plan->weight_step);
    made = std::move(plan);
    return {};
}

uint64_t fp8_workspace(const opdock::Problem &problem) {
    return problem.plan<Fp8Plan>()->size;
}

// A thread has four scales of a row, which are read together; threads beside each other write beside each other.
__global__ void __launch_bounds__(256)
    transpose_scales_kernel(const float *from, float *to, int64_t rows, int64_t blocks) {
    wait_for_earlier_kernels();
    const int64_t bands = ceil_div(rows, 256);
    const int64_t row = static_cast<int64_t>(blockIdx.x) % bands * 256 + threadIdx.x;
    const int64_t first = static_cast<int64_t>(blockIdx.x) / bands * 4;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        if (row < rows && first + k < blocks) {
            to[(first + k) * rows + row] = from[row * blocks + first + k];
        }
    }
}

__global__ void __launch_bounds__(256)
    pad_scales_kernel(const float *from, float *to, int64_t count, int64_t blocks, int64_t step) {
    wait_for_earlier_kernels();
    const int64_t i = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
    if (i < count) {
        const int64_t row = i / step, column = i % step;
        to[i] = column < blocks ? from[row * blocks + column] : 0.0f;
    }
}

opdock::Status multiply_fp8(const opdock::Call &call) {
    const Fp8Plan &plan = *call.plan<Fp8Plan>();
    auto *const workspace = static_cast<char *>(call.workspace());
    ProductPointers pointers = {input_data(call, 0), input_data(call, 1), input_data(call, 4), output_data(call, 0)};
    pointers.left_scale = input_data(call, 2);
    pointers.right_scale = input_data(call, 3);
    if (plan.in_blocks) {
        auto *const transposed = reinterpret_cast<float *>(workspace + plan.input_scales);
        opdock::Status status =
            launch(call, {ceil_div(plan.rows, 256) * ceil_div(plan.blocks, 4), 256}, transpose_scales_kernel,
                   static_cast<const float *>(pointers.left_scale), transposed, plan.rows, plan.blocks);
        if (!status.ok()) {
            return status;
        }
        pointers.left_scale = transposed;
    }
    if (plan.pads()) {
        auto *const padded = reinterpret_cast<float *>(workspace + plan.weight_scales);
        const int64_t count = plan.weight_rows * plan.weight_step;
        opdock::Status status =
            launch(call, {ceil_div(count, 256), 256}, pad_scales_kernel,
                   static_cast<const float *>(pointers.right_scale), padded, count, plan.blocks, plan.weight_step);
        if (!status.ok()) {
            return status;
        }
        pointers.right_scale = padded;
    }
    return plan.product->run(call, *call.device_state<CublasLt>(), pointers);
}

template<Scales scales>
Implementation with_scales() {
    return {opdock::kernel<&multiply_fp8>,
            Knobs::none,
            nullptr,
            opdock::workspace_size<&fp8_workspace>,
            opdock::available<&cublaslt_available>,
            opdock::device_state<&CublasLt::open>,
            opdock::plan<&make_plan<scales>>};
}

const Implementation linear_fp8 = with_scales<Scales::of_tensors>();
const Implementation linear_fp8_block = with_scales<Scales::of_blocks>();

#endif

} // namespace

void add_linear_fp8(Plugin &plugin) {
    plugin.add(opdock::ops::linear_fp8, fp8_factors, linear_fp8);
    plugin.add(opdock::ops::linear_fp8_block, fp8_factors, linear_fp8_block);
}

} // namespace gpu
