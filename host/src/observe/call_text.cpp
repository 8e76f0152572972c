#include "observe/call_text.hpp"

#include <bit>

#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ranges.h>

#include "signature/dtype.hpp"

namespace opdock::core {
namespace {

std::string value_text(const opdock_value &value) {
    switch (value.type) {
    case OPDOCK_VALUE_FLOAT:
        return fmt::format("{}", value.as.f);
    case OPDOCK_VALUE_BOOL:
        return value.as.i != 0 ? "true" : "false";
    case OPDOCK_VALUE_STRING:
        return {value.as.s, value.count};
    case OPDOCK_VALUE_DTYPE:
        return dtype_name(static_cast<uint32_t>(value.as.i));
    case OPDOCK_VALUE_INTS:
        return fmt::format("[{}]", fmt::join(value.as.ints, value.as.ints + value.count, ","));
    case OPDOCK_VALUE_FLOATS:
        return fmt::format("[{}]", fmt::join(value.as.floats, value.as.floats + value.count, ","));
    case OPDOCK_VALUE_STRINGS: {
        std::string text;
        for (uint32_t i = 0; i < value.count; ++i) {
            text += (i == 0 ? "" : ",") + std::string(value.as.strings[i].text, value.as.strings[i].size);
        }
        return "[" + text + "]";
    }
    default:
        return std::to_string(value.as.i);
    }
}

CallText::Tensor tensor_text(const Parameter &parameter, const TensorShape &tensor) {
    const auto rank = static_cast<std::ptrdiff_t>(tensor.tensor.ndim);
    CallText::Tensor text{parameter.name,
                          fmt::format("{}[{}]", dtype_name(tensor.tensor.dtype),
                                      fmt::join(tensor.shape.begin(), tensor.shape.begin() + rank, ",")),
                          {},
                          parameter.list};
    if (!tensor.contiguous) {
        text.strides.assign(tensor.strides.begin(), tensor.strides.begin() + rank);
    }
    return text;
}

} // namespace

CallText describe_call(const Implementation &implementation, const CallShape &shape,
                       const std::vector<opdock_value> &attributes, std::string device, std::string config) {
    const Signature &signature = *shape.signature;
    CallText call;
    call.op = signature.name;
    call.impl_id = implementation.impl_id;
    call.device = std::move(device);
    call.config = std::move(config);
    for (size_t p = 0; p < signature.n_params(); ++p) {
        const Parameter &parameter = signature.parameter(p);
        const bool is_input = p < signature.inputs.size();
        for (uint32_t t = shape.first[p]; t < shape.first[p + 1]; ++t) {
            if (!shape.tensors[t].absent) {
                (is_input ? call.inputs : call.outputs).push_back(tensor_text(parameter, shape.tensors[t]));
            }
        }
        const bool is_there = shape.first[p] < shape.first[p + 1] && !shape.tensors[shape.first[p]].absent;
        if (!is_input && parameter.optional && is_there) {
            call.wanted_outputs.push_back(parameter.name);
        }
    }
    for (size_t a = 0; a < signature.attributes.size() && a < attributes.size(); ++a) {
        const AttributeSpec &attribute = signature.attributes[a];
        if (attributes[a].type == OPDOCK_VALUE_NONE) {
            continue;
        }
        std::string value = value_text(attributes[a]);
        if (attribute.required || attribute.optional || value != value_text(attribute.default_value())) {
            call.attributes.push_back({attribute.name, std::move(value)});
        }
    }
    return call;
}

std::string CallText::arguments() const {
    std::string text;
    const auto add = [&](const std::string &word) { text += (text.empty() ? "" : " ") + word; };
    for (const Tensor &tensor : inputs) {
        add(tensor.name + "=" + tensor.type);
    }
    for (const std::vector<Tensor> *tensors : {&inputs, &outputs}) {
        for (const Tensor &tensor : *tensors) {
            if (!tensor.strides.empty()) {
                add(fmt::format("strides({})=[{}]", tensor.name, fmt::join(tensor.strides, ",")));
            }
        }
    }
    for (const Attribute &attribute : attributes) {
        add(attribute.name + "=" + attribute.value);
    }
    for (const std::string &output : wanted_outputs) {
        add("+" + output);
    }
    return text;
}

} // namespace opdock::core
