// rmsnorm_bwd, rmsnorm_bwd_add and layernorm_bwd.
//
// grad_weight and grad_bias are sums over rows. If they are requested and a row fits, one pass over all tensors
// computes everything. Few rows are instead read twice by a single kernel, with blocks for rows and blocks for columns:
// such small tensors stay in the cache, and no second kernel has to wait. Without sums, a group of threads has a row,
// as in the forward pass. Rows that do not fit take that kernel, and another one that reads the inputs again.
#include <algorithm>

#include "columns.cuh"
#include "normalization_bwd.cuh"
#include "normalization_bwd_one_pass.cuh"
#include "ops/ops.hpp"
#include "rows.cuh"

namespace gpu {
namespace {

// Order of the tensors in `rows`: grad, input, grad_input, add.
template<class T, class U, int N, int V, Norm norm, class Rows>
__device__ __forceinline__ void make_grad_input(const BwdArguments<T, U> &a, const Rows &rows, int threads) {
    __shared__ float shared[2 * most_warps];
    const Place place = place_of(threads, a.rows);
    const int64_t n = place.exists ? a.n : 0;
    Row<T, N, V> upstream(a.grad + rows.at(0, place.row), n, place), x(a.input + rows.at(1, place.row), n, place);
    T *const result_at = a.grad_input + rows.at(2, place.row);
    const float factor = place.exists ? a.rsigma[place.row] : 0.0f;
    const float mean = norm == Norm::layer && place.exists ? a.mu[place.row] : 0.0f;
    const float inverse = 1.0f / static_cast<float>(a.n);
    float sums[2] = {0.0f, 0.0f};
    upstream.each(x, [&](int64_t i, const float(&grad)[N], const float(&values)[N]) {
        float gamma[N];
        load_gamma(a.weight, i, a.zero_centered, gamma);
        add_to_sums<norm>(grad, values, gamma, mean, sums);
    });
    upstream.stay_narrow();
    x.stay_narrow();
    reduce<Sum>(sums, threads, shared);
    const RowCoefficients coefficients = coefficients_of(sums, mean, factor, inverse);
    upstream.each(x, [&](int64_t i, const float(&grad)[N], const float(&values)[N]) {
        float gamma[N], result[N];
        load_gamma(a.weight, i, a.zero_centered, gamma);
        input_gradient<norm>(grad, values, gamma, coefficients, result);
        if constexpr (norm == Norm::rms_add) {
            float add[N];
            load<N>(a.add + rows.at(3, place.row) + i, add);
#pragma unroll
            for (int k = 0; k < N; ++k) {
                result[k] += add[k];
            }
        }
        store<N>(result_at + i, result);
    });
}

template<class T, class U, int N, int V, Norm norm, class Rows>
__global__ void __launch_bounds__(1024) grad_input_kernel(BwdArguments<T, U> a, Rows rows, int threads) {
    wait_for_earlier_kernels();
    make_grad_input<T, U, N, V, norm>(a, rows, threads);
}

// A block has 128 bytes of each row, and each of its warps has some of the rows. Null outputs are skipped.
template<class T>
constexpr int columns_of_block = 32 * (4 / sizeof(T));

template<class T, class U, Norm norm>
__device__ __forceinline__ void make_grad_weight(const BwdArguments<T, U> &a, int64_t tile, U *grad_weight,
                                                 U *grad_bias) {
    constexpr int N = 4 / sizeof(T), columns = columns_of_block<T>, kinds = norm == Norm::layer ? 2 : 1;
    __shared__ float shared[kinds][most_warps][columns];
    const int lane = static_cast<int>(threadIdx.x) % 32, line = static_cast<int>(threadIdx.x) / 32;
    const int lines = static_cast<int>(blockDim.x) / 32;
    const int64_t first_column = tile * columns, column = first_column + lane * N;
    float sums[2][N] = {};
    if (column < a.n) {
#pragma unroll 8
        for (int64_t row = line; row < a.rows; row += lines) {
            float grad[N], x[N];
            load<N>(a.grad + row * a.n + column, grad);
            load<N>(a.input + row * a.n + column, x);
            add_to_columns<norm>(grad, x, norm == Norm::layer ? a.mu[row] : 0.0f, a.rsigma[row], sums[0], sums[1]);
        }
    }
#pragma unroll
    for (int kind = 0; kind < kinds; ++kind) {
#pragma unroll
        for (int k = 0; k < N; ++k) {
            shared[kind][line][lane * N + k] = sums[kind][k];
        }
    }
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < kinds * columns; i += static_cast<int>(blockDim.x)) {
        const int kind = i / columns, c = i % columns;
        U *const to = kind == 0 ? grad_weight : grad_bias;
        if (to == nullptr || first_column + c >= a.n) {
            continue;
        }
        float sum = 0.0f;
#pragma unroll 8
        for (int l = 0; l < lines; ++l) {
            sum += shared[kind][l][c];
        }
        to[first_column + c] = from_f32<U>(sum);
    }
}

// The first blocks process rows, the others columns.
template<class T, class U, int N, int V, Norm norm>
__global__ void __launch_bounds__(1024)
    few_rows_kernel(BwdArguments<T, U> a, int threads, int64_t row_blocks, U *grad_weight, U *grad_bias) {
    wait_for_earlier_kernels();
    if (blockIdx.x < row_blocks) {
        make_grad_input<T, U, N, V, norm>(a, DenseRows{a.n}, threads);
    } else {
        make_grad_weight<T, U, norm>(a, blockIdx.x - row_blocks, grad_weight, grad_bias);
    }
}

template<class T, class U, int N, Norm norm, class Rows>
__global__ void __launch_bounds__(256)
    weight_parts_kernel(BwdArguments<T, U> a, Rows rows, ColumnPlan plan, float *parts) {
    wait_for_earlier_kernels();
    const ColumnPlace place = column_place(plan, a.rows);
    if (place.column >= a.n) {
        return;
    }
    float of_weight[N] = {}, of_bias[N] = {};
#pragma unroll 4
    for (int64_t row = place.begin; row < place.end; ++row) {
        float grad[N], x[N];
        load<N>(a.grad + rows.at(0, row) + place.column, grad);
        load<N>(a.input + rows.at(1, row) + place.column, x);
        add_to_columns<norm>(grad, x, norm == Norm::layer ? a.mu[row] : 0.0f, a.rsigma[row], of_weight, of_bias);
    }
    store<N>(parts + place.part * a.n + place.column, of_weight);
    if constexpr (norm == Norm::layer) {
        store<N>(parts + (plan.parts + place.part) * a.n + place.column, of_bias);
    }
}

template<Norm norm>
constexpr uint32_t weight_at = norm == Norm::rms ? 3 : 4;

// Limits of few_rows_kernel: rows, and bytes of each tensor.
constexpr int64_t few_rows = 512, few_bytes = int64_t(4) << 20;

template<Norm norm, class T, class U>
opdock::Status with_few_rows(const opdock::Call &call, const BwdArguments<T, U> &a, const RowPlan &plan, U *grad_weight,
                             U *grad_bias) {
    const Grid of_rows = plan.grid(a.rows, 0);
    const Grid grid = {of_rows.blocks + ceil_div(a.n, columns_of_block<T>), of_rows.threads};
    return launch(call, grid, few_rows_kernel<T, U, wide<T>, 4, norm>, a, plan.threads, of_rows.blocks, grad_weight,
                  grad_bias);
}

template<Norm norm, class T, class U>
BwdArguments<T, U> arguments_of(const opdock::Call &call) {
    constexpr uint32_t weight = weight_at<norm>;
    BwdArguments<T, U> a = {};
    a.rows = row_count(*call.input(0));
    a.n = row_size(*call.input(0));
    a.zero_centered = call.get_bool(0);
    a.grad = static_cast<const T *>(input_data(call, 0));
    a.input = static_cast<const T *>(input_data(call, 1));
    a.add = norm == Norm::rms_add ? static_cast<const T *>(input_data(call, 2)) : nullptr;
    a.mu = norm == Norm::layer ? static_cast<const float *>(input_data(call, 2)) : nullptr;
    a.rsigma = static_cast<const float *>(input_data(call, weight - 1));
    a.weight = static_cast<const U *>(input_data(call, weight));
    a.grad_input = static_cast<T *>(output_data(call, 0));
    return a;
}

template<Norm norm, class T, class U, class Rows>
opdock::Status run(const opdock::Call &call, const Rows &rows) {
    const BwdArguments<T, U> a = arguments_of<norm, T, U>(call);
    if (a.n == 0) {
        return {};
    }
    auto *grad_weight = static_cast<U *>(output_data(call, 1));
    auto *grad_bias = norm == Norm::layer ? static_cast<U *>(output_data(call, 2)) : nullptr;
    auto *parts = grad_weight != nullptr || grad_bias != nullptr ? static_cast<float *>(call.workspace()) : nullptr;
    const auto sum_up = [&](int64_t count) { return sum_parts(call, parts, count, a.n, grad_weight, grad_bias); };

    const bool are_aligned = all_aligned(a.grad, a.input, a.add, a.weight, a.grad_input) && rows.fit(wide<T>);
    const int width = width_of<T>(a.n, are_aligned);
    const int64_t threads = default_row_threads(a.rows, a.n / width, compute_units(call));
    if constexpr (std::is_same_v<Rows, DenseRows>) {
        const RowPlan few = plan_rows(a.n, width, threads, 256, 4);
        if (a.rows <= few_rows && a.rows * a.n * int64_t(sizeof(T)) <= few_bytes && parts != nullptr && few.held != 0) {
            return with_few_rows<norm>(call, a, few, grad_weight, grad_bias);
        }
        const OnePass plan = plan_one_pass(call, a.rows, a.n, sizeof(T), norm);
        if (are_aligned && plan.held != 0 && parts != nullptr) {
            opdock::Status status = in_one_pass<norm>(call, a, plan, parts);
            return status.ok() ? sum_up(plan.parts) : std::move(status);
        }
    }
    const RowPlan plan = plan_rows(a.n, width, threads, 128, 4);
    return visit_plan_of<T>(rows, plan, [&](auto vector, auto held) -> opdock::Status {
        constexpr int N = decltype(vector)::value, V = decltype(held)::value > 4 ? 0 : decltype(held)::value;
        opdock::Status first =
            launch(call, plan.grid(a.rows, 0), grad_input_kernel<T, U, N, V, norm, Rows>, a, rows, plan.threads);
        if (!first.ok() || parts == nullptr) {
            return first;
        }
        const ColumnPlan columns = plan_columns(a.rows, a.n, N, compute_units(call));
        opdock::Status second =
            launch(call, columns.grid(), weight_parts_kernel<T, U, N, norm, Rows>, a, rows, columns, parts);
        return second.ok() ? sum_up(columns.parts) : std::move(second);
    });
}

template<Norm norm>
opdock::Status run_any(const opdock::Call &call) {
    const auto with = [&](const auto &rows) {
        return visit_weighted(call.input(0)->dtype, call.input(weight_at<norm>)->dtype, [&](auto t, auto u) {
            return run<norm, typename decltype(t)::type, typename decltype(u)::type>(call, rows);
        });
    };
    const DLTensor &grad = *call.input(0), &input = *call.input(1), &grad_input = *call.output(0);
    if constexpr (norm == Norm::rms_add) {
        return visit_rows(with, grad, input, grad_input, *call.input(2));
    } else {
        return visit_rows(with, grad, input, grad_input);
    }
}

// Enough for both paths, since the pointers' alignment chooses between them.
template<Norm norm>
uint64_t workspace_size(const opdock::Problem &problem) {
    if (!problem.has_output(1) && !(norm == Norm::layer && problem.has_output(2))) {
        return 0;
    }
    const DLTensor &shape = *problem.input(0);
    const int64_t rows = row_count(shape), n = row_size(shape), bytes = element_bytes(shape);
    const int units = compute_units(problem);
    const int64_t parts =
        std::max({plan_one_pass(problem, rows, n, bytes, norm).parts, plan_columns(rows, n, 1, units).parts,
                  plan_columns(rows, n, static_cast<int>(16 / bytes), units).parts});
    return static_cast<uint64_t>(parts * n * (norm == Norm::layer ? 2 : 1)) * sizeof(float);
}

template<Norm norm>
Implementation implementation() {
    constexpr uint32_t grad_input = 1u << (weight_at<norm> + 1); // after all inputs
    constexpr uint32_t inputs = norm == Norm::rms_add ? 0b111 : 0b011;
    return by_rows<grad_input | inputs>(opdock::kernel<&run_any<norm>>, Knobs::columns,
                                        opdock::workspace_size<&workspace_size<norm>>);
}

} // namespace

void add_normalization_bwd(Plugin &plugin) {
    namespace ops = opdock::ops;
    plugin.add(ops::rmsnorm_bwd, weighted, implementation<Norm::rms>());
    plugin.add(ops::rmsnorm_bwd_add, weighted, implementation<Norm::rms_add>());
    plugin.add(ops::layernorm_bwd, weighted, implementation<Norm::layer>());
}

} // namespace gpu
