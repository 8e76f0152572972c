// gelu_bwd_bias and its variants: the gradient of an activation's input, and its sum over rows.
#include "activation.cuh"
#include "columns.cuh"
#include "implementation.hpp"
#include "ops/ops.hpp"

namespace gpu {
namespace {

// A thread has N columns, and loops over the rows of a part, `ahead` of them at a time.
template<class T, int N, class Activation>
__global__ void __launch_bounds__(256)
    dbias_kernel(ColumnPlan plan, const T *grad, const T *input, T *grad_input, float *parts, int64_t rows, int64_t n) {
    wait_for_earlier_kernels();
    constexpr int ahead = 4;
    using V = Vector<T, N>;
    const ColumnPlace place = column_place(plan, rows);
    if (place.column >= n) {
        return;
    }
    float sums[N] = {};
    for (int64_t row = place.begin; row < place.end; row += ahead) {
        V upstream[ahead], x[ahead];
#pragma unroll
        for (int k = 0; k < ahead; ++k) {
            if (row + k < place.end) {
                upstream[k] = *reinterpret_cast<const V *>(grad + (row + k) * n + place.column);
                x[k] = *reinterpret_cast<const V *>(input + (row + k) * n + place.column);
            }
        }
#pragma unroll
        for (int k = 0; k < ahead; ++k) {
            if (row + k < place.end) {
                float result[N];
#pragma unroll
                for (int e = 0; e < N; ++e) {
                    result[e] = to_f32(upstream[k].elements[e]) * Activation::both(to_f32(x[k].elements[e])).slope;
                    sums[e] += result[e];
                }
                store<N>(grad_input + (row + k) * n + place.column, result);
            }
        }
    }
    store<N>(parts + place.part * n + place.column, sums);
}

// 16 bytes of T become up to 32 bytes of sums; both are aligned if rows are whole vectors.
ColumnPlan plan_of(const opdock::Problem &problem, int width) {
    const DLTensor &grad = *problem.input(0);
    return plan_columns(row_count(grad), row_size(grad), width, compute_units(problem));
}

template<class Activation>
opdock::Status run(const opdock::Call &call) {
    const DLTensor &shape = *call.input(0);
    const int64_t rows = row_count(shape), n = row_size(shape);
    return visit_floating(shape.dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        const auto *grad = static_cast<const T *>(input_data(call, 0));
        const auto *input = static_cast<const T *>(input_data(call, 1));
        auto *grad_bias = static_cast<T *>(output_data(call, 0));
        auto *grad_input = static_cast<T *>(output_data(call, 1));
        auto *parts = static_cast<float *>(call.workspace());
        const auto start = [&](auto width) {
            constexpr int N = decltype(width)::value;
            const ColumnPlan plan = plan_of(call, N);
            opdock::Status status = launch(call, n == 0 ? Grid{0, 1} : plan.grid(), dbias_kernel<T, N, Activation>,
                                           plan, grad, input, grad_input, parts, rows, n);
            return status.ok() ? sum_parts(call, parts, plan.parts, n, grad_bias) : std::move(status);
        };
        return n % wide<T> == 0 && all_aligned(grad, input, grad_input) ? start(Number<wide<T>>{}) : start(Number<1>{});
    });
}

// Covers the narrower vectors too, which only the pointers decide: with them a part has fewer rows.
uint64_t workspace_size(const opdock::Problem &problem) {
    const int wide_vector = static_cast<int>(16 / element_bytes(*problem.input(0)));
    const int64_t parts = std::max(plan_of(problem, 1).parts, plan_of(problem, wide_vector).parts);
    return static_cast<uint64_t>(parts * row_size(*problem.input(0))) * sizeof(float);
}

template<class Activation>
void add_one(Plugin &plugin, const opdock::OpDeclaration &op) {
    plugin.add(op, any_float,
               {opdock::kernel<&run<Activation>>, Knobs::none, nullptr, opdock::workspace_size<&workspace_size>});
}

} // namespace

void add_activation_biases(Plugin &plugin) {
    namespace ops = opdock::ops;
    add_one<Gelu>(plugin, ops::gelu_bwd_bias);
    add_one<Qgelu>(plugin, ops::qgelu_bwd_bias);
    add_one<Relu>(plugin, ops::relu_bwd_bias);
    add_one<Silu>(plugin, ops::silu_bwd_bias);
    add_one<Srelu>(plugin, ops::srelu_bwd_bias);
}

} // namespace gpu
