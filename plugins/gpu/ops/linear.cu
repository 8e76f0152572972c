// matmul, linear_fwd, linear_dgrad and linear_wgrad.
#include "ops/ops.hpp"

#ifndef __HIP__
#include <algorithm>

#include "cublaslt.hpp"
#include "launch.hpp"
#include "numbers.cuh"
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

const Implementation matmul = {opdock::kernel<&never_called>, Knobs::none, nullptr, nullptr,
                               opdock::available<&not_yet>};
const Implementation linear_fwd = matmul, linear_dgrad = matmul, linear_wgrad = matmul;

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

template<class T>
__global__ void __launch_bounds__(256) repeat_row_kernel(const T *row, T *output, int64_t n, int64_t count) {
    wait_for_earlier_kernels();
    const int64_t i = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
    if (i < count) {
        output[i] = row[i % n];
    }
}

// A product without depth: sums of nothing, plus the bias.
opdock::Status fill_output(const opdock::Call &call, const Product &product, const ProductPointers &pointers) {
    const int64_t count = product.batches * product.rows * product.columns;
    if (!product.has_bias) {
        return checked("filling with zeros",
                       GPU(MemsetAsync)(pointers.output, 0, static_cast<size_t>(count * (product.dtype.bits / 8)),
                                        static_cast<Stream>(call.stream())));
    }
    return visit_floating(product.dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        return launch(call, {ceil_div(count, 256), 256}, repeat_row_kernel<T>, static_cast<const T *>(pointers.bias),
                      static_cast<T *>(pointers.output), product.columns, count);
    });
}

template<ProductOf product_of>
opdock::Status multiply(const opdock::Call &call) {
    const Product product = product_of(call);
    if (!product.has_output()) {
        return {};
    }
    const ProductPointers pointers = {input_data(call, 0), input_data(call, 1),
                                      product.has_bias ? input_data(call, 2) : nullptr, output_data(call, 0)};
    if (product.depth == 0) {
        return fill_output(call, product, pointers);
    }
    return call.plan<ProductPlan>()->run(call, *call.device_state<CublasLt>(), pointers);
}

// Sums over rows, in two steps and a fixed order: each block sums a tile of the columns over a chunk of the rows, and
// then each thread adds up one column's chunks.
constexpr int lanes = 32, lines = 8; // threads of a block: along a row, and over rows

struct ColumnSums {
    int64_t rows, n, chunks, chunk_rows;

    explicit ColumnSums(const opdock::Problem &problem) {
        const DLTensor &grad = *problem.input(0);
        rows = row_count(grad);
        n = row_size(grad);
        // Four blocks for each compute unit, with eight rows for each thread or more. Both steps take time: 256 chunks
        // are what the second one may have.
        const int64_t tiles = std::max<int64_t>(1, ceil_div(n, lanes * (16 / element_bytes(grad))));
        const int64_t wanted = ceil_div(4 * compute_units(problem), tiles);
        const int64_t most = std::min<int64_t>(256, std::max<int64_t>(1, ceil_div(rows, lines * 8)));
        chunk_rows = std::max<int64_t>(1, ceil_div(rows, std::min(wanted, most)));
        chunks = ceil_div(rows, chunk_rows);
    }

    uint64_t workspace_size() const { return static_cast<uint64_t>(chunks * n) * sizeof(float); }
};

// One block: tile blockIdx.x % tiles of the columns, chunk blockIdx.x / tiles of the rows.
template<class T, int N>
__global__ void __launch_bounds__(lanes *lines)
    column_sums_kernel(ColumnSums shape, int64_t tiles, const T *grad, float *partial_sums) {
    wait_for_earlier_kernels();
    __shared__ float shared[lines][lanes * N];
    const int lane = static_cast<int>(threadIdx.x) % lanes, line = static_cast<int>(threadIdx.x) / lanes;
    const int64_t chunk = static_cast<int64_t>(blockIdx.x) / tiles;
    const int64_t first_column = static_cast<int64_t>(blockIdx.x) % tiles * lanes * N;
    const int64_t column = first_column + lane * N;
    const int64_t end = min((chunk + 1) * shape.chunk_rows, shape.rows);
    float sums[N] = {};
    if (column < shape.n) {
#pragma unroll 4
        for (int64_t row = chunk * shape.chunk_rows + line; row < end; row += lines) {
            float values[N];
            load<N>(grad + row * shape.n + column, values);
#pragma unroll
            for (int k = 0; k < N; ++k) {
                sums[k] += values[k];
            }
        }
    }
#pragma unroll
    for (int k = 0; k < N; ++k) {
        shared[line][lane * N + k] = sums[k];
    }
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < lanes * N && first_column + i < shape.n; i += lanes * lines) {
        float sum = 0;
#pragma unroll
        for (int l = 0; l < lines; ++l) {
            sum += shared[l][i];
        }
        partial_sums[chunk * shape.n + first_column + i] = sum;
    }
}

template<class T>
__global__ void __launch_bounds__(128) add_chunks_kernel(ColumnSums shape, const float *partial_sums, T *sums) {
    wait_for_earlier_kernels();
    const int64_t column = static_cast<int64_t>(blockIdx.x) * 128 + threadIdx.x;
    if (column >= shape.n) {
        return;
    }
    float sum = 0;
#pragma unroll 8
    for (int64_t chunk = 0; chunk < shape.chunks; ++chunk) {
        sum += partial_sums[chunk * shape.n + column];
    }
    sums[column] = from_f32<T>(sum);
}

opdock::Status sum_columns(const opdock::Call &call) {
    const ColumnSums shape(call);
    auto *partial_sums = static_cast<float *>(call.workspace());
    return visit_floating(call.input(0)->dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        const auto *grad = static_cast<const T *>(input_data(call, 0));
        const auto start = [&](auto width) {
            constexpr int N = decltype(width)::value;
            const int64_t tiles = ceil_div(shape.n, lanes * N);
            return launch(call, {tiles * shape.chunks, lanes * lines}, column_sums_kernel<T, N>, shape, tiles, grad,
                          partial_sums);
        };
        const bool vectors = shape.n % wide<T> == 0 && aligned(grad);
        if (opdock::Status status = vectors ? start(Number<wide<T>>{}) : start(Number<1>{}); !status.ok()) {
            return status;
        }
        return launch(call, {ceil_div(shape.n, 128), 128}, add_chunks_kernel<T>, shape, partial_sums,
                      static_cast<T *>(output_data(call, 1)));
    });
}

uint64_t wgrad_workspace(const opdock::Problem &problem) {
    // One after the other on a stream, so that both may have the same bytes.
    return std::max(workspace_of_plan(problem),
                    problem.has_output(1) ? ColumnSums(problem).workspace_size() : uint64_t(0));
}

opdock::Status wgrad(const opdock::Call &call) {
    opdock::Status status = multiply<&wgrad_product>(call);
    return status.ok() && call.has_output(1) ? sum_columns(call) : std::move(status);
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
