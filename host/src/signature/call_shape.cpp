#include "signature/call_shape.hpp"

#include "signature/dtype.hpp"

namespace opdock::core {
namespace {

void copy_tensor(TensorShape &copy, const DLTensor &given) {
    copy.tensor = given;
    copy.tensor.data = nullptr;
    copy.tensor.byte_offset = 0;
    copy.tensor.shape = copy.shape.data();
    copy.tensor.strides = copy.strides.data();
    const int64_t *strides = given.strides;
    copy.given_strides = strides != nullptr;
    const uint64_t item = bytes_of(given.dtype);
    copy.alignment_mask = item - 1;
    bool empty = false;
    copy.contiguous = true;
    // Unsigned, because a tensor without elements may have any other dims and strides.
    uint64_t packed = 1; // the stride of a contiguous tensor
    uint64_t last = 0;   // offset of the last element, in elements
    for (int d = given.ndim - 1; d >= 0; --d) {
        const auto i = static_cast<size_t>(d);
        const int64_t size = given.shape[d];
        copy.shape.at(i) = size;
        copy.strides.at(i) = strides != nullptr ? strides[d] : static_cast<int64_t>(packed);
        const auto stride = static_cast<uint64_t>(copy.strides.at(i));
        const bool backwards = copy.strides.at(i) < 0;
        if (size != 1 && stride != packed) {
            copy.contiguous = false;
        }
        copy.backwards |= size > 1 && backwards;
        empty |= size == 0;
        last += static_cast<uint64_t>(size - 1) * (backwards ? 0 - stride : stride);
        packed *= static_cast<uint64_t>(size);
    }
    copy.contiguous |= empty;
    copy.extent = empty ? 0 : (last + 1) * item;
}

} // namespace

CallShape::CallShape(const Signature &of, const Bound &bound)
    : signature(&of), tensors(std::make_unique<TensorShape[]>(bound.tensors.size())),
      n_tensors(static_cast<uint32_t>(bound.tensors.size())), n_input_tensors(bound.first[of.inputs.size()]),
      first(bound.first), attributes(bound.attributes), dtypes(bound.dtypes), device(bound.device),
      writes_inputs(bound.writes_inputs) {
    pointers.reserve(n_tensors);
    for (uint32_t i = 0; i < n_tensors; ++i) {
        tensors[i].absent = bound.tensors[i] == nullptr;
        if (!tensors[i].absent) {
            copy_tensor(tensors[i], *bound.tensors[i]);
        }
        pointers.push_back(tensors[i].absent ? nullptr : &tensors[i].tensor);
    }
    for (opdock_value &value : attributes) {
        if (value.type == OPDOCK_VALUE_STRING) {
            value.as.s = strings_.emplace_back(value.as.s, value.count).c_str();
        } else if (value.type == OPDOCK_VALUE_INTS) {
            value.as.ints = integers_.emplace_back(value.as.ints, value.as.ints + value.count).data();
        } else if (value.type == OPDOCK_VALUE_FLOATS) {
            value.as.floats = numbers_.emplace_back(value.as.floats, value.as.floats + value.count).data();
        } else if (value.type == OPDOCK_VALUE_STRINGS) {
            std::vector<opdock_text> &texts = texts_.emplace_back(value.as.strings, value.as.strings + value.count);
            for (opdock_text &text : texts) {
                text.text = strings_.emplace_back(text.text, text.size).c_str();
            }
            value.as.strings = texts.data();
        }
    }
}

} // namespace opdock::core
