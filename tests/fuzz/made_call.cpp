#include "made_call.hpp"

#include <algorithm>
#include <limits>

#include "opdock/abi/version.h"
#include "signature/dtype.hpp"

namespace opdock::fuzz {
namespace {

// Sizes of dims, and strides. Small ones come first, so that calls without choices are valid; the last ones do not fit
// into memory or are invalid.
constexpr std::array<int64_t, 10> sizes = {
    2, 0, 1, 3, 16, 128, 4096, int64_t{1} << 40, std::numeric_limits<int64_t>::max(), -1};
constexpr std::array<uint32_t, 4> outside = {OPDOCK_F32, OPDOCK_I64, 0, 0xffffffff};

uint64_t bytes_of(const DLTensor &tensor) {
    uint64_t bytes = 16;
    for (int32_t i = 0; i < tensor.ndim; ++i) {
        bytes *= static_cast<uint64_t>(std::clamp<int64_t>(tensor.shape[i], 1, 4096));
    }
    return bytes;
}

} // namespace

MadeCall::MadeCall(const core::Signature &signature, std::string_view choices)
    : signature_(signature), choices_(choices) {
    for (int64_t &size : dims_) {
        size = sizes[choose(sizes.size())];
    }
    for (size_t i = 0; i < signature.dtype_variables.size(); ++i) {
        const std::vector<uint32_t> &allowed = signature.allowed_dtypes[i];
        const uint32_t chosen = choose(static_cast<uint32_t>(allowed.size()) + 1);
        dtypes_[i] = chosen < allowed.size() ? allowed[chosen] : outside[choose(outside.size())];
    }
    for (uint32_t rank = choose(OPDOCK_MAX_RANK + 2); rank > 0; --rank) {
        ellipsis_.push_back(sizes[choose(sizes.size())]);
    }
    elements_ = choose(4);
    for (const core::Parameter &parameter : signature.inputs) {
        const uint32_t count = parameter.list ? elements_ : 1;
        for (uint32_t i = 0; i < count; ++i) {
            inputs_.push_back(input(parameter));
        }
        if (parameter.list) {
            list_sizes_.push_back(count);
        }
    }
    for (const core::AttributeSpec &attribute : signature.attributes) {
        if (attribute.required || choose(2) == 1) {
            attributes_.push_back({attribute.name.c_str(), value_of(attribute)});
        }
    }
    for (const core::Parameter &parameter : signature.outputs) {
        if (parameter.list) {
            list_sizes_.push_back(elements_);
        }
    }
}

uint32_t MadeCall::choose(uint32_t count) {
    if (choices_.empty()) {
        return 0;
    }
    const auto choice = static_cast<unsigned char>(choices_.front());
    choices_.remove_prefix(1);
    return static_cast<uint32_t>(choice - '0') % count; // so that seeds can be written with digits
}

int64_t MadeCall::size_of(const core::Dim &dim) {
    switch (dim.kind) {
    case core::Dim::Kind::number:
        return dim.number;
    case core::Dim::Kind::name:
        return dims_[dim.index];
    case core::Dim::Kind::scaled: {
        int64_t product = 0;
        return __builtin_mul_overflow(dim.number, dims_[dim.index], &product) ? dims_[dim.index] : product;
    }
    case core::Dim::Kind::expression:
        break;
    }
    return sizes[choose(sizes.size())];
}

MadeCall::Tensor &MadeCall::make(uint32_t dtype, std::vector<int64_t> shape) {
    const uint64_t address =
        tensors_.empty() ? 4096
                         : reinterpret_cast<uint64_t>(tensors_.back().tensor.data) + bytes_of(tensors_.back().tensor);
    Tensor &made = tensors_.emplace_back(Tensor{std::move(shape), {}, {}});
    made.tensor.data = reinterpret_cast<void *>(address);
    made.tensor.device = {kDLCPU, 0};
    made.tensor.ndim = static_cast<int32_t>(made.shape.size());
    made.tensor.dtype = opdock_dtype_unpack(dtype);
    made.tensor.shape = made.shape.data();
    return made;
}

const DLTensor *MadeCall::input(const core::Parameter &parameter) {
    if (parameter.optional && choose(3) == 1) {
        return nullptr;
    }
    std::vector<int64_t> shape;
    for (size_t i = 0; i <= parameter.dims.size(); ++i) {
        if (parameter.ellipsis == static_cast<int>(i)) {
            shape.insert(shape.end(), ellipsis_.begin(), ellipsis_.end());
        }
        if (i < parameter.dims.size()) {
            shape.push_back(size_of(parameter.dims[i]));
        }
    }
    const uint32_t dtype =
        parameter.dtype_variable < 0 ? parameter.dtype : dtypes_[static_cast<size_t>(parameter.dtype_variable)];
    Tensor &made = make(dtype, std::move(shape));
    if (choose(4) == 1) {
        for (size_t i = 0; i < made.shape.size(); ++i) {
            made.strides.push_back(sizes[choose(sizes.size())]);
        }
        made.tensor.strides = made.strides.data();
    }
    return &made.tensor;
}

opdock_value MadeCall::value_of(const core::AttributeSpec &attribute) {
    if (choose(4) == 3) { // a value of any type, which may suit another attribute
        opdock_value other = {};
        other.type = choose(8);
        return other.type == OPDOCK_VALUE_STRING ? opdock_value{OPDOCK_VALUE_STRING, 0, {.s = ""}} : other;
    }
    opdock_value value = attribute.default_value();
    if (attribute.dtype_variable >= 0) {
        value.as.i = dtypes_[static_cast<size_t>(attribute.dtype_variable)];
    } else if (attribute.type == OPDOCK_VALUE_DTYPE) {
        value.as.i = outside[choose(outside.size())];
    }
    return value;
}

const opdock_args &MadeCall::inputs_only() {
    args_ = {};
    args_.struct_size = OPDOCK_STRUCT_SIZE(opdock_args, workspace_size);
    args_.inputs = inputs_.data();
    args_.n_inputs = static_cast<uint32_t>(inputs_.size());
    args_.attributes = attributes_.data();
    args_.n_attributes = static_cast<uint32_t>(attributes_.size());
    args_.list_sizes = list_sizes_.data();
    args_.n_lists = static_cast<uint32_t>(list_sizes_.size());
    args_.device = {kDLCPU, 0};
    return args_;
}

void MadeCall::take_outputs(const std::vector<core::InferredOutput> &specs) {
    size_t next = 0;
    for (uint32_t i = 0; i < signature_.outputs.size(); ++i) {
        const core::Parameter &parameter = signature_.outputs[i];
        const uint32_t wanted = parameter.list ? elements_ : 1;
        for (uint32_t element = 0; element < wanted; ++element) {
            if (next < specs.size() && specs[next].parameter == i) {
                const core::InferredOutput &spec = specs[next++];
                outputs_.push_back(
                    &make(opdock_dtype_pack(spec.dtype), {spec.shape.begin(), spec.shape.begin() + spec.ndim}).tensor);
            } else {
                outputs_.push_back(nullptr);
            }
        }
    }
}

const opdock_args &MadeCall::whole() {
    inputs_only();
    args_.outputs = outputs_.data();
    args_.n_outputs = static_cast<uint32_t>(outputs_.size());
    return args_;
}

} // namespace opdock::fuzz
