// linear_fp8 and linear_fp8_block: by cuBLASLt if it supports the
// types, the sizes and the scales, and otherwise by one plain kernel.
#include "float8.cuh"
#include "launch.hpp"
#include "ops/ops.hpp"
#include "tensors.hpp"

#ifndef __HIP__
#include "cublaslt.hpp"
#endif

namespace gpu {
namespace {

// --- the plain kernel ------------------------------------------------------------------------------------------------

constexpr int plain_side = 64, plain_depth = 16, plain_block = 256;

// One of the two factors.
template<class F>
struct ScaledFactor {
    const F *elements;
    const float *scales;
    int64_t extent, depth;
    int64_t blocks;     // scales in a row of blocks; 0: a single scale
    int64_t block_rows; // rows per block

    __device__ __forceinline__ float at(int64_t i, int64_t p) const {
        if (i >= extent || p >= depth) {
            return 0.0f;
        }
        const float scale = blocks == 0 ? scales[0] : scales[i / block_rows * blocks + p / 128];
        return elements[i * depth + p].value() * scale;
    }
    // Loads [plain_depth][plain_side] of it, from row `first` and element `begin` on.
    __device__ __forceinline__ void load(int64_t first, int64_t begin, float (&to)[plain_depth][plain_side + 4]) const {
#pragma unroll
        for (int n = 0; n < plain_side * plain_depth / plain_block; ++n) {
            const int q = static_cast<int>(threadIdx.x) + n * plain_block;
            to[q % plain_depth][q / plain_depth] = at(first + q / plain_depth, begin + q % plain_depth);
        }
    }
};

// A block has a tile of the output, a thread 4 x 4 of it.
template<class F, class G, class T>
__global__ void __launch_bounds__(plain_block)
    plain_fp8_kernel(ScaledFactor<F> input, ScaledFactor<G> weight, const T *bias, T *output) {
    wait_for_earlier_kernels();
    __shared__ float of_input[plain_depth][plain_side + 4], of_weight[plain_depth][plain_side + 4];
    const int64_t across = ceil_div(weight.extent, plain_side);
    const int64_t first_row = static_cast<int64_t>(blockIdx.x) / across * plain_side;
    const int64_t first_column = static_cast<int64_t>(blockIdx.x) % across * plain_side;
    const int x = static_cast<int>(threadIdx.x) % 16 * 4, y = static_cast<int>(threadIdx.x) / 16 * 4;
    float sums[4][4] = {};
    for (int64_t begin = 0; begin < input.depth; begin += plain_depth) {
        input.load(first_row, begin, of_input);
        weight.load(first_column, begin, of_weight);
        __syncthreads();
#pragma unroll
        for (int p = 0; p < plain_depth; ++p) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    sums[i][j] = fmaf(of_input[p][y + i], of_weight[p][x + j], sums[i][j]);
                }
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const int64_t row = first_row + y + i, column = first_column + x + j;
            if (row < input.extent && column < weight.extent) {
                const float added = bias == nullptr ? 0.0f : to_f32(bias[column]);
                output[row * weight.extent + column] = from_f32<T>(sums[i][j] + added);
            }
        }
    }
}

opdock::Status multiply_plainly(const opdock::Call &call, bool in_blocks) {
    const DLTensor &input = *call.input(0), &weight = *call.input(1);
    const int64_t rows = row_count(input), columns = weight.shape[0], depth = weight.shape[1];
    const int64_t tiles = ceil_div(rows, plain_side) * ceil_div(columns, plain_side);
    const int64_t blocks = in_blocks ? ceil_div(depth, 128) : 0;
    const auto scales = [&](uint32_t i) { return static_cast<const float *>(input_data(call, i)); };
    return visit_float8(input.dtype, [&](auto f) {
        return visit_float8(weight.dtype, [&](auto g) {
            return visit_floating(call.output(0)->dtype, [&](auto t) {
                using F = typename decltype(f)::type;
                using G = typename decltype(g)::type;
                using T = typename decltype(t)::type;
                const ScaledFactor<F> of_input = {
                    static_cast<const F *>(input_data(call, 0)), scales(2), rows, depth, blocks, 1};
                const ScaledFactor<G> of_weight = {
                    static_cast<const G *>(input_data(call, 1)), scales(3), columns, depth, blocks, 128};
                return launch(call, {tiles, plain_block}, plain_fp8_kernel<F, G, T>, of_input, of_weight,
                              static_cast<const T *>(input_data(call, 4)), static_cast<T *>(output_data(call, 0)));
            });
        });
    });
}

// --- cuBLASLt --------------------------------------------------------------------------------------------------------

#ifdef __HIP__

template<bool in_blocks>
opdock::Status multiply_fp8(const opdock::Call &call) {
    return multiply_plainly(call, in_blocks);
}

template<bool in_blocks>
Implementation implementation() {
    return {opdock::kernel<&multiply_fp8<in_blocks>>, Knobs::none};
}

#else

// cuBLASLt requires its own order of block scales: for input, column by column of blocks;
// for weight, with rows padded to a multiple of four. The scales of input always go
// through the workspace, those of weight only if they have to be padded.
struct Fp8Plan {
    std::unique_ptr<ProductPlan> product;       // null: the plain kernel
    int64_t rows, blocks;                       // scales of input
    int64_t weight_rows, weight_step;           // scales of weight; step includes the padding
    bool pads;                                  // the scales of weight
    uint64_t input_scales, weight_scales, size; // offsets in the workspace
};

opdock::Status make_product(const opdock::Problem &problem, bool in_blocks, std::unique_ptr<ProductPlan> &made) {
    if (in_blocks) {
        if (opdock::Status status = CublasLt::block_scales_available(); !status.ok()) {
            return status;
        }
    }
    const DLTensor &input = *problem.input(0), &weight = *problem.input(1);
    Product product = {
        input.dtype, row_count(input), weight.shape[0], weight.shape[1], false, true, problem.has_input(4), 1};
    product.right_dtype = weight.dtype;
    product.output_dtype = problem.output(0)->dtype;
    product.scales = in_blocks ? Scales::of_blocks : Scales::of_tensors;
    return ProductPlan::make(*problem.device_state<CublasLt>(), product, made);
}

template<bool in_blocks>
opdock::Status make_plan(const opdock::Problem &problem, std::unique_ptr<Fp8Plan> &made) {
    auto plan = std::make_unique<Fp8Plan>();
    opdock::Status status = make_product(problem, in_blocks, plan->product);
    if (!status.ok() && status.code() != OPDOCK_UNSUPPORTED) {
        return status;
    }
    if (plan->product != nullptr) {
        const auto place = [&](bool wanted, int64_t floats) {
            const uint64_t begin = (plan->size + 255) / 256 * 256;
            plan->size = begin + (wanted ? static_cast<uint64_t>(floats) * sizeof(float) : 0);
            return begin;
        };
        plan->size = plan->product->workspace_size();
        plan->rows = row_count(*problem.input(0));
        plan->blocks = ceil_div(problem.input(1)->shape[1], 128);
        plan->weight_rows = ceil_div(problem.input(1)->shape[0], 128);
        plan->weight_step = ceil_div(plan->blocks, 4) * 4;
        plan->pads = in_blocks && plan->weight_step != plan->blocks;
        plan->input_scales = place(in_blocks, plan->rows * plan->blocks);
        plan->weight_scales = place(plan->pads, plan->weight_rows * plan->weight_step);
    }
    made = std::move(plan);
    return {};
}

uint64_t fp8_workspace(const opdock::Problem &problem) {
    return problem.plan<Fp8Plan>()->size;
}

// A thread has four scales of a row, which it reads together; adjacent threads write adjacent elements.
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

opdock::Status order_scales(const opdock::Call &call, const Fp8Plan &plan, ProductPointers &pointers) {
    auto *const workspace = static_cast<char *>(call.workspace());
    auto *const transposed = reinterpret_cast<float *>(workspace + plan.input_scales);
    opdock::Status status =
        launch(call, {ceil_div(plan.rows, 256) * ceil_div(plan.blocks, 4), 256}, transpose_scales_kernel,
               static_cast<const float *>(pointers.left_scale), transposed, plan.rows, plan.blocks);
    pointers.left_scale = transposed;
    if (!status.ok() || !plan.pads) {
        return status;
    }
    auto *const padded = reinterpret_cast<float *>(workspace + plan.weight_scales);
    const int64_t count = plan.weight_rows * plan.weight_step;
    const auto *const from = static_cast<const float *>(pointers.right_scale);
    pointers.right_scale = padded;
    return launch(call, {ceil_div(count, 256), 256}, pad_scales_kernel, from, padded, count, plan.blocks,
                  plan.weight_step);
}

template<bool in_blocks>
opdock::Status multiply_fp8(const opdock::Call &call) {
    const Fp8Plan &plan = *call.plan<Fp8Plan>();
    ProductPointers pointers = {input_data(call, 0), input_data(call, 1), input_data(call, 4), output_data(call, 0)};
    pointers.left_scale = input_data(call, 2);
    pointers.right_scale = input_data(call, 3);
    if (plan.product == nullptr || !all_aligned(pointers.left, pointers.right, pointers.bias, pointers.output)) {
        return multiply_plainly(call, in_blocks);
    }
    if (in_blocks) {
        if (opdock::Status status = order_scales(call, plan, pointers); !status.ok()) {
            return status;
        }
    }
    return plan.product->run(call, *call.device_state<CublasLt>(), pointers);
}

template<bool in_blocks>
Implementation implementation() {
    return {opdock::kernel<&multiply_fp8<in_blocks>>,
            Knobs::none,
            nullptr,
            opdock::workspace_size<&fp8_workspace>,
            opdock::available<&cublaslt_available>,
            opdock::device_state<&CublasLt::open>,
            opdock::plan<&make_plan<in_blocks>>};
}

#endif

} // namespace

void add_linear_fp8(Plugin &plugin) {
    plugin.add(opdock::ops::linear_fp8, fp8_factors, implementation<false>());
    plugin.add(opdock::ops::linear_fp8_block, fp8_factors, implementation<true>());
}

} // namespace gpu
