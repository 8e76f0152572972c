// grouped_linear_fwd, grouped_linear_dgrad and grouped_linear_wgrad: one product per group, one after the other.
#include <cstring>
#include <string>

#include "ops/ops.hpp"
#include "product.hpp"

namespace cpu {
namespace {

constexpr Operand forward_operands[] = {{"input"}, {"weight"}, {"starts", false}, {"output"}};
constexpr Operand dgrad_operands[] = {{"grad"}, {"weight"}, {"starts", false}, {"grad_input"}};
constexpr Operand wgrad_operands[] = {{"grad"}, {"input"}, {"starts", false}, {"grad_weight"}};

opdock::Status check_forward(const opdock::Problem &problem) {
    return check_rows(problem, forward_operands);
}
opdock::Status check_dgrad(const opdock::Problem &problem) {
    return check_rows(problem, dgrad_operands);
}
opdock::Status check_wgrad(const opdock::Problem &problem) {
    return check_rows(problem, wgrad_operands);
}

// A tensor whose second-to-last dim counts rows, starting at its data pointer.
struct Matrices {
    std::byte *data; // null if there are no elements
    const DLTensor *tensor;

    static Matrices of_input(const opdock::Call &call, uint32_t i) { return of(call, i, call.input(i)); }
    static Matrices of_output(const opdock::Call &call, uint32_t i) {
        return of(call, call.c().n_inputs + i, call.output(i));
    }

    int64_t step(int32_t from_the_end) const { // in bytes
        return tensor->strides[tensor->ndim - from_the_end] * element_bytes(*tensor);
    }
    Rows rows_from(int64_t row) const { return data == nullptr ? Rows() : Rows::apart(data + row * step(2), step(2)); }
    Rows matrix(int64_t i) const { return data == nullptr ? Rows() : Rows::apart(data + i * step(3), step(2)); }

  private:
    static Matrices of(const opdock::Call &call, uint32_t parameter, const DLTensor *tensor) {
        return {static_cast<std::byte *>(call.call().data[call.c().tensor_offsets[parameter]]), tensor};
    }
};

struct Starts {
    Rows elements;
    int64_t groups;

    explicit Starts(const opdock::Call &call)
        : elements(Rows::of_input(call, 2, 0)), groups(call.input(2)->shape[0] - 1) {}

    int64_t operator[](int64_t i) const { return *elements.row<const int32_t>(i); }
    int64_t rows_of(int64_t group) const { return (*this)[group + 1] - (*this)[group]; }

    // Returns INVALID_ARGUMENT with the first start that does not begin at 0, decreases or exceeds the rows.
    opdock::Status check(int64_t rows) const {
        for (int64_t i = 0; i <= groups; ++i) {
            const int64_t least = i == 0 ? 0 : (*this)[i - 1], most = i == 0 ? 0 : rows;
            if ((*this)[i] < least || (*this)[i] > most)
                return opdock::invalid_argument("starts: element " + std::to_string(i) + " is " +
                                                std::to_string((*this)[i]) + "; expected " + std::to_string(least) +
                                                " to " + std::to_string(most));
        }
        return {};
    }
};

void multiply_one(const opdock::Call &call, const Product &a) {
    multiply_all(a, 1, Knobs::of(call), [&](int64_t) -> const Product & { return a; });
}

// In fwd the sums run along the rows of the weights, in dgrad down the rows.
template<bool down>
opdock::Status by_rows(const opdock::Call &call) {
    const Matrices x = Matrices::of_input(call, 0), weight = Matrices::of_input(call, 1);
    const Matrices output = Matrices::of_output(call, 0);
    const Starts starts(call);
    const int64_t rows = x.tensor->shape[0], columns = output.tensor->shape[1];
    if (opdock::Status status = starts.check(rows); !status.ok())
        return status;
    for (int64_t group = 0; group < starts.groups; ++group)
        multiply_one(call, {
                               .t = x.tensor->dtype,
                               .x = {x.rows_from(starts[group])},
                               .w = {weight.matrix(group), down},
                               .bias = {},
                               .output = output.rows_from(starts[group]),
                               .rows = starts.rows_of(group),
                               .columns = columns,
                               .depth = x.tensor->shape[1],
                           });
    if (output.data != nullptr) {
        const Rows behind = output.rows_from(0);
        for (int64_t r = starts[starts.groups]; r < rows; ++r)
            std::memset(behind.row<void>(r), 0, static_cast<size_t>(columns * element_bytes(*output.tensor)));
    }
    return {};
}

opdock::Status wgrad(const opdock::Call &call) {
    const Matrices grad = Matrices::of_input(call, 0), input = Matrices::of_input(call, 1);
    const Matrices grad_weight = Matrices::of_output(call, 0);
    const Starts starts(call);
    if (opdock::Status status = starts.check(grad.tensor->shape[0]); !status.ok())
        return status;
    for (int64_t group = 0; group < starts.groups; ++group)
        multiply_one(call, {
                               .t = grad.tensor->dtype,
                               .x = {grad.rows_from(starts[group]), true},
                               .w = {input.rows_from(starts[group]), true},
                               .bias = {},
                               .output = grad_weight.matrix(group),
                               .rows = grad.tensor->shape[1],
                               .columns = input.tensor->shape[1],
                               .depth = starts.rows_of(group),
                           });
    return {};
}

} // namespace

void add_grouped_linear(Plugin &plugin) {
    namespace ops = opdock::ops;
    plugin.add(ops::grouped_linear_fwd, any_float, {opdock::kernel<&by_rows<false>>, opdock::supports<&check_forward>});
    plugin.add(ops::grouped_linear_dgrad, any_float, {opdock::kernel<&by_rows<true>>, opdock::supports<&check_dgrad>});
    plugin.add(ops::grouped_linear_wgrad, any_float, {opdock::kernel<&wgrad>, opdock::supports<&check_wgrad>});
}

} // namespace cpu
