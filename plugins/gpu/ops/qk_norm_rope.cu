// qk_norm_rope and qk_norm_rope_bwd.
#include "qk_norm_rope.cuh"

#include <string>

#include "columns.cuh"
#include "ops/ops.hpp"
#include "position_tables.hpp"

namespace gpu {
namespace {

constexpr int block_threads = 256;
constexpr int64_t most_backward_dims = 1024; // shared memory has room for the sums of eight groups

// The order of the inputs: backward, both gradients first; then the query, the key, and their weights.
struct Operands {
    uint32_t query;
    bool has_grad;
};
constexpr Operands forward_operands = {0, false}, backward_operands = {2, true};

opdock::Status supports_backward(const opdock::Problem &problem) {
    if (row_size(*problem.input(0)) > most_backward_dims) {
        return opdock::unsupported("it needs heads of at most " + std::to_string(most_backward_dims) + " elements");
    }
    return has_dense_rows_at_positions(problem);
}

Steps heads_of(const DLTensor &tensor) {
    return {tensor.strides[0], 0, tensor.strides[1]};
}

template<class T, class U>
Heads<T, U> heads_of(const opdock::Call &call, const Operands &operands, uint32_t which) {
    const uint32_t input = operands.query + which;
    Heads<T, U> heads = {};
    heads.input = static_cast<const T *>(input_data(call, input));
    heads.output = static_cast<T *>(output_data(call, which));
    heads.weight = static_cast<const U *>(input_data(call, input + 2));
    heads.of_input = heads_of(*call.input(input));
    heads.of_output = heads_of(*call.output(which));
    heads.count = static_cast<int>(call.input(input)->shape[1]);
    if (operands.has_grad) {
        heads.grad = static_cast<const T *>(input_data(call, which));
        heads.of_grad = heads_of(*call.input(which));
    }
    return heads;
}

// True if all vectors of `n` elements of the heads are aligned.
template<class T, class U>
bool has_whole_vectors(const Heads<T, U> &heads, int n) {
    const auto fits = [=](const Steps &steps) { return steps.position % n == 0 && steps.row % n == 0; };
    return fits(heads.of_grad) && fits(heads.of_input) && fits(heads.of_output) &&
           all_aligned(heads.grad, heads.input, heads.output, heads.weight);
}

HeadShape shape_of(const opdock::Call &call, const Operands &operands, int width) {
    const DLTensor &query = *call.input(operands.query);
    HeadShape shape = {};
    shape.tokens = query.shape[0];
    shape.dims = static_cast<int>(row_size(query));
    shape.rotated = static_cast<int>(2 * row_size(*call.input(call.c().n_inputs - 1)));
    shape.pairs = shape.rotated / 2 / width;
    shape.columns = shape.pairs + (shape.dims - shape.rotated) / width;
    shape.threads = static_cast<int>(std::min<int64_t>(32, next_power_of_two(std::max(shape.columns, 1))));
    shape.eps = static_cast<float>(call.get_float(0));
    shape.inverse = 1.0f / static_cast<float>(std::max(shape.dims, 1));
    return shape;
}

// Calls visit(shape, query, key, tables, Number<N>, interleaved, held), the last two as types.
template<class Visitor>
opdock::Status visit_heads(const opdock::Call &call, const Operands &operands, Visitor &&visit) {
    return visit_weighted(call.input(0)->dtype, call.input(operands.query + 2)->dtype, [&](auto t, auto u) {
        using T = typename decltype(t)::type;
        using U = typename decltype(u)::type;
        const auto query = heads_of<T, U>(call, operands, 0), key = heads_of<T, U>(call, operands, 1);
        const Tables tables = tables_of(call);
        const int n = wide<T>;
        const HeadShape one = shape_of(call, operands, 1);
        const bool whole_vectors = one.dims % n == 0 && one.rotated / 2 % n == 0 && has_whole_vectors(query, n) &&
                                   has_whole_vectors(key, n) && tables.has_vectors;
        const auto with_style = [&](const HeadShape &shape, auto N, auto held) {
            return call.get_bool(1) ? visit(shape, query, key, tables, N, std::true_type{}, held)
                                    : visit(shape, query, key, tables, N, std::false_type{}, held);
        };
        const HeadShape shape = whole_vectors ? shape_of(call, operands, n) : one;
        if (whole_vectors && shape.columns <= shape.threads) {
            return with_style(shape, Number<wide<T>>{}, std::true_type{});
        }
        return whole_vectors ? with_style(shape, Number<wide<T>>{}, std::false_type{})
                             : with_style(one, Number<1>{}, std::false_type{});
    });
}

opdock::Status forward(const opdock::Call &call) {
    return visit_heads(
        call, forward_operands,
        [&](const HeadShape &shape, const auto &query, const auto &key, const Tables &tables, auto N, auto interleaved,
            auto held) {
            using T = std::remove_pointer_t<decltype(query.output)>;
            using U = std::remove_const_t<std::remove_pointer_t<decltype(query.weight)>>;
            const int64_t rows = shape.dims == 0 ? 0 : shape.tokens * (query.count + key.count);
            const Grid grid = {ceil_div(rows, block_threads / shape.threads), block_threads};
            return launch(
                call, grid,
                qk_norm_rope_kernel<T, U, decltype(N)::value, decltype(interleaved)::value, decltype(held)::value>,
                shape, query, key, tables);
        });
}

// Blocks of the backward kernel, which loop over the rows: some per compute unit.
int64_t backward_blocks(const opdock::Problem &problem) {
    const int64_t rows = std::max(row_count(*problem.input(0)), row_count(*problem.input(1)));
    return std::clamp<int64_t>(ceil_div(rows, 32), 1, int64_t(4) * compute_units(problem));
}

bool wants_weights(const opdock::Problem &problem) {
    return problem.has_output(2) || problem.has_output(3);
}

uint64_t workspace(const opdock::Problem &problem) {
    return wants_weights(problem)
               ? static_cast<uint64_t>(2 * backward_blocks(problem) * row_size(*problem.input(0))) * sizeof(float)
               : 0;
}

opdock::Status backward(const opdock::Call &call) {
    const int64_t blocks = backward_blocks(call);
    const int64_t dims = row_size(*call.input(0));
    auto *parts = wants_weights(call) ? static_cast<float *>(call.workspace()) : nullptr;
    if (dims == 0) {
        return {};
    }
    opdock::Status status = visit_heads(
        call, backward_operands,
        [&](const HeadShape &shape, const auto &query, const auto &key, const Tables &tables, auto N, auto interleaved,
            auto held) {
            using T = std::remove_pointer_t<decltype(query.output)>;
            using U = std::remove_const_t<std::remove_pointer_t<decltype(query.weight)>>;
            const int64_t floats = block_threads / shape.threads * dims;
            const Grid grid = {blocks, block_threads, static_cast<size_t>(floats) * sizeof(float)};
            return launch(
                call, grid,
                qk_norm_rope_bwd_kernel<T, U, decltype(N)::value, decltype(interleaved)::value, decltype(held)::value>,
                shape, query, key, tables, parts);
        });
    if (!status.ok() || parts == nullptr) {
        return status;
    }
    return visit_floating(call.input(4)->dtype, [&](auto u) {
        using U = typename decltype(u)::type;
        auto *query = static_cast<U *>(output_data(call, 2)), *key = static_cast<U *>(output_data(call, 3));
        return after_the_first(sum_parts(call, parts, blocks, dims, query, key));
    });
}

} // namespace

void add_qk_norm_rope(Plugin &plugin) {
    namespace ops = opdock::ops;
    Implementation implementation = {opdock::kernel<&forward>, Knobs::none,
                                     opdock::supports<&has_dense_rows_at_positions>};
    implementation.any_strides = true;
    plugin.add(ops::qk_norm_rope, weighted_with_positions, implementation);
    implementation.kernel = opdock::kernel<&backward>;
    implementation.supports = opdock::supports<&supports_backward>;
    implementation.workspace_size = opdock::workspace_size<&workspace>;
    plugin.add(ops::qk_norm_rope_bwd, weighted_with_positions, implementation);
}

} // namespace gpu
