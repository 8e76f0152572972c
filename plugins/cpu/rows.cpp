#include "rows.hpp"

#include <string>

namespace cpu {

Rows::Rows(const DLTensor *tensor, void *data, int32_t inner) {
    if (tensor == nullptr || data == nullptr)
        return;
    data_ = static_cast<std::byte *>(data);
    leading_ = tensor->ndim > inner ? tensor->ndim - inner : 0;
    bool first = true;
    int64_t expected = 0; // the stride with which the next dim collapses into the dims seen so far
    for (int32_t d = leading_ - 1; d >= 0; --d) {
        if (tensor->shape[d] == 1)
            continue;
        if (first)
            step_ = tensor->strides[d] * element_bytes(*tensor);
        else if (tensor->strides[d] != expected)
            scattered_ = tensor;
        first = false;
        expected = tensor->strides[d] * tensor->shape[d];
    }
}

Rows Rows::of_input(const opdock::Call &call, uint32_t i, int32_t inner) {
    return {call.input(i), call.call().data[call.c().tensor_offsets[i]], inner};
}

Rows Rows::of_output(const opdock::Call &call, uint32_t i, int32_t inner) {
    return {call.output(i), call.call().data[call.c().tensor_offsets[call.c().n_inputs + i]], inner};
}

int64_t Rows::offset(int64_t i) const {
    int64_t elements = 0;
    for (int32_t d = leading_ - 1; d >= 0; --d) {
        elements += i % scattered_->shape[d] * scattered_->strides[d];
        i /= scattered_->shape[d];
    }
    return elements * element_bytes(*scattered_);
}

opdock::Status check_rows(const opdock::Problem &problem, const Operand *operands, size_t count) {
    for (size_t i = 0; i < count; ++i) {
        const DLTensor *tensor = problem.c().tensors[i];
        if (tensor == nullptr || !operands[i].dense_rows || tensor->ndim == 0)
            continue;
        const int32_t last = tensor->ndim - 1;
        if (tensor->shape[last] > 1 && tensor->strides[last] != 1 && element_count(*tensor) > 0)
            return opdock::unsupported(std::string(operands[i].name) + ": last dimension has stride " +
                                       std::to_string(tensor->strides[last]) + "; this implementation needs 1");
    }
    return {};
}

int64_t leading_size(const DLTensor &tensor, int32_t count) {
    int64_t size = 1;
    for (int32_t d = 0; d < count; ++d)
        size *= tensor.shape[d];
    return size;
}

int64_t row_size(const DLTensor &tensor) {
    return tensor.ndim == 0 ? 1 : tensor.shape[tensor.ndim - 1];
}

int64_t row_count(const DLTensor &tensor) {
    return leading_size(tensor, tensor.ndim - 1);
}

int64_t element_count(const DLTensor &tensor) {
    return leading_size(tensor, tensor.ndim);
}

int64_t element_bytes(const DLTensor &tensor) {
    return tensor.dtype.bits / 8;
}

bool is_dense(const DLTensor &tensor) {
    int64_t expected = 1;
    for (int32_t d = tensor.ndim - 1; d >= 0; --d) {
        if (tensor.shape[d] != 1 && tensor.strides[d] != expected)
            return false;
        expected *= tensor.shape[d];
    }
    return true;
}

} // namespace cpu
