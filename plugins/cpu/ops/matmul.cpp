// matmul.
#include <string>

#include "ops/ops.hpp"
#include "product.hpp"

namespace cpu {
namespace {

// A matrix (the last two dims of a tensor) by rows or by columns, whichever have contiguous elements, so that a
// transposed matrix is read in place.
struct Lines {
    bool by_rows;
    int64_t step_bytes;

    explicit Lines(const DLTensor &tensor) {
        const int64_t *sizes = tensor.shape + tensor.ndim - 2, *strides = tensor.strides + tensor.ndim - 2;
        by_rows = strides[1] == 1 || sizes[1] <= 1;
        step_bytes = strides[by_rows ? 0 : 1] * element_bytes(tensor);
    }

    static bool exist(const DLTensor &tensor) {
        const int64_t *sizes = tensor.shape + tensor.ndim - 2, *strides = tensor.strides + tensor.ndim - 2;
        return element_count(tensor) == 0 || strides[1] == 1 || sizes[1] == 1 || strides[0] == 1 || sizes[0] == 1;
    }
};

constexpr const char *names[] = {"a", "b"};

opdock::Status check(const opdock::Problem &problem) {
    for (uint32_t i = 0; i < 2; ++i) {
        const DLTensor &tensor = *problem.input(i);
        if (!Lines::exist(tensor))
            return opdock::unsupported(std::string(names[i]) + ": the last two dimensions have strides " +
                                       std::to_string(tensor.strides[tensor.ndim - 2]) + " and " +
                                       std::to_string(tensor.strides[tensor.ndim - 1]) +
                                       "; this implementation needs one of them to be 1");
    }
    constexpr Operand operands[] = {{"a", false}, {"b", false}, {"output"}};
    return check_rows(problem, operands);
}

opdock::Status run(const opdock::Call &call) {
    const DLTensor &a = *call.input(0), &b = *call.input(1), &output = *call.output(0);
    const Lines lines_of_a(a), lines_of_b(b);
    const int64_t output_step = output.strides[output.ndim - 2] * element_bytes(output);
    const Rows matrices_of_a = Rows::of_input(call, 0, 2), matrices_of_b = Rows::of_input(call, 1, 2);
    const Rows matrices_of_output = Rows::of_output(call, 0, 2);
    const auto product_of = [&](int64_t i) {
        Product product = {};
        product.t = output.dtype;
        product.x = {Rows::apart(matrices_of_a.row<void>(i), lines_of_a.step_bytes), !lines_of_a.by_rows};
        product.w = {Rows::apart(matrices_of_b.row<void>(i), lines_of_b.step_bytes), lines_of_b.by_rows};
        product.output = Rows::apart(matrices_of_output.row<void>(i), output_step);
        product.rows = a.shape[a.ndim - 2];
        product.columns = row_size(b);
        product.depth = row_size(a);
        return product;
    };
    multiply_all(product_of(0), leading_size(output, output.ndim - 2), Knobs::of(call), product_of);
    return {};
}

} // namespace

void add_matmul(Plugin &plugin) {
    namespace ops = opdock::ops;
    plugin.add(ops::matmul, any_float, {opdock::kernel<&run>, opdock::supports<&check>});
}

} // namespace cpu
