// embedding and embedding_bwd.
//
// The gradient is summed per row of the weight, not per row of grad: each row is written once, by one thread, in the
// same order for any number of threads. A counting sort of the indices finds the rows of grad.
#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "dtypes.hpp"
#include "ops/ops.hpp"
#include "rows.hpp"
#include "schedule.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/embedding.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h, which includes this file again for each target.
#include "hwy/highway.h"
#include "simd/memory-inl.h"
#include "simd/rows-inl.h"

#ifndef CPU_EMBEDDING_ARGUMENTS
#define CPU_EMBEDDING_ARGUMENTS
namespace cpu {

struct EmbeddingGradient {
    DLDataType t;
    Rows grad, grad_weight;
    const int64_t *order; // rows of grad, sorted by index
    const int64_t *ends;  // for each row of the weight, its end in `order`
    int64_t n;
    bool stream;
};

} // namespace cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace cpu {
namespace HWY_NAMESPACE {

template<class T>
void embedding_gradient(const EmbeddingGradient &a, int64_t begin, int64_t end) {
    const auto n = static_cast<size_t>(a.n);
    HWY_ALIGN float total[block_size];
    float *sums = total;
    for (int64_t v = begin; v < end; ++v) {
        const int64_t *first = a.order + (v == 0 ? 0 : a.ends[v - 1]), *last = a.order + a.ends[v];
        const Sink<T> output(a.grad_weight.row<T>(v), a.stream);
        for (size_t from = 0; from < n; from += block_size) {
            const size_t count = HWY_MIN(block_size, n - from);
            std::memset(sums, 0, count * sizeof(float));
            for (const int64_t *row = first; row < last; ++row) {
                const T *grad = a.grad.row<const T>(*row) + from;
                along(count, [=](size_t i, auto extent) HWY_ATTR {
                    store(hn::Add(load(sums + i, extent), load(grad + i, extent)), sums + i, extent);
                });
            }
            along(count,
                  [=](size_t i, auto extent) HWY_ATTR { output.store(load(sums + i, extent), from + i, extent); });
        }
    }
    if (a.stream)
        hwy::FlushStream();
}

void embedding_gradient_rows(const EmbeddingGradient &a, int64_t begin, int64_t end) {
    opdock::visit_floating(a.t, [&](auto t) { embedding_gradient<typename decltype(t)::type>(a, begin, end); });
}

} // namespace HWY_NAMESPACE
} // namespace cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cpu {

HWY_EXPORT(embedding_gradient_rows);

namespace {

constexpr Operand forward_operands[] = {{"weight"}, {"indices", false}, {"output"}};
constexpr Operand backward_operands[] = {{"grad"}, {"weight", false}, {"indices", false}, {"grad_weight"}};

opdock::Status check_forward(const opdock::Problem &problem) {
    return check_rows(problem, forward_operands);
}
opdock::Status check_backward(const opdock::Problem &problem) {
    return check_rows(problem, backward_operands);
}

// Returns INVALID_ARGUMENT with the first index that is not a row.
opdock::Status check_indices(const Rows &indices, int64_t count, int64_t rows) {
    for (int64_t i = 0; i < count; ++i) {
        const int64_t index = *indices.row<const int64_t>(i);
        if (index < 0 || index >= rows)
            return opdock::invalid_argument("indices: element " + std::to_string(i) + " is " + std::to_string(index) +
                                            "; expected 0 to " + std::to_string(rows - 1) + " (weight has " +
                                            std::to_string(rows) + " rows)");
    }
    return {};
}

opdock::Status forward(const opdock::Call &call) {
    const DLTensor &weight = *call.input(0);
    const Rows rows = Rows::of_input(call, 0), indices = Rows::of_input(call, 1, 0), output = Rows::of_output(call, 0);
    const int64_t count = element_count(*call.input(1));
    if (opdock::Status status = check_indices(indices, count, weight.shape[0]); !status.ok())
        return status;
    const int64_t bytes = row_size(weight) * element_bytes(weight);
    if (bytes == 0)
        return {};
    in_chunks(count, 2 * bytes, Knobs::of(call), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
            std::memcpy(output.row<void>(i), rows.row<const void>(*indices.row<const int64_t>(i)),
                        static_cast<size_t>(bytes));
    });
    return {};
}

uint64_t backward_workspace(const opdock::Problem &problem) {
    return static_cast<uint64_t>(element_count(*problem.input(2)) + problem.input(1)->shape[0]) * sizeof(int64_t);
}

opdock::Status backward(const opdock::Call &call) {
    const DLTensor &grad_weight = *call.output(0);
    const Rows indices = Rows::of_input(call, 2, 0);
    const int64_t count = element_count(*call.input(2)), rows = grad_weight.shape[0];
    if (opdock::Status status = check_indices(indices, count, rows); !status.ok())
        return status;
    if (element_count(grad_weight) == 0)
        return {};
    auto *ends = static_cast<int64_t *>(call.workspace());
    int64_t *order = ends + rows;
    std::fill_n(ends, rows, 0);
    for (int64_t i = 0; i < count; ++i)
        ++ends[*indices.row<const int64_t>(i)];
    for (int64_t v = 0, begin = 0; v < rows; ++v) // for now, the beginning of each row
        begin += std::exchange(ends[v], begin);
    for (int64_t i = 0; i < count; ++i)
        order[ends[*indices.row<const int64_t>(i)]++] = i;
    const EmbeddingGradient a = {grad_weight.dtype,     Rows::of_input(call, 0), Rows::of_output(call, 0), order, ends,
                                 row_size(grad_weight), Knobs::of(call).stream};
    const int64_t bytes = a.n * element_bytes(grad_weight);
    in_chunks(rows, bytes + bytes * count / rows, Knobs::of(call), HWY_DYNAMIC_DISPATCH(embedding_gradient_rows), a);
    return {};
}

} // namespace

void add_embedding(Plugin &plugin) {
    namespace ops = opdock::ops;
    plugin.add(ops::embedding, any_float, {opdock::kernel<&forward>, opdock::supports<&check_forward>});
    plugin.add(
        ops::embedding_bwd, any_float,
        {opdock::kernel<&backward>, opdock::supports<&check_backward>, opdock::workspace_size<&backward_workspace>});
}

} // namespace cpu
#endif
