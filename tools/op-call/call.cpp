#include "op-call/call.hpp"

#include <algorithm>

#include "cli/exit.hpp"

namespace opdock::op_call {
namespace {

// A different seed for each tensor of a call.
uint64_t seed_of(uint64_t seed, uint64_t tensor) {
    return seed * 0x9e3779b97f4a7c15u + tensor;
}

HostTensor make(const Source &source, const std::string &parameter, uint64_t seed) {
    if (const auto *made_up = std::get_if<MadeUp>(&source)) {
        return make_up(*made_up, seed);
    }
    return read_tensor(std::get<FilePart>(source), parameter);
}

size_t count(const Operands &operands) {
    size_t count = 0;
    for (const auto &of_parameter : operands) {
        count += of_parameter.size();
    }
    return count;
}

// An absent parameter becomes one null tensor; a list has as many tensors as it has elements.
void add_side(const std::vector<Parameter> &parameters, const Operands &operands, std::vector<Tensor> &tensors,
              std::vector<TensorArg> &arguments, std::vector<uint32_t> &list_sizes) {
    for (size_t i = 0; i < operands.size(); ++i) {
        for (const Operand &operand : operands[i]) {
            tensors.emplace_back(operand.data, opdock_dtype_unpack(operand.dtype), operand.shape, operand.device,
                                 operand.strides);
            arguments.emplace_back(tensors.back());
        }
        if (parameters[i].list) {
            list_sizes.push_back(static_cast<uint32_t>(operands[i].size()));
        } else if (operands[i].empty()) {
            arguments.emplace_back(nullptr);
        }
    }
}

std::vector<Attribute> borrow(const std::vector<AttributeArgument> &arguments,
                              std::deque<std::vector<opdock_text>> &texts) {
    std::vector<Attribute> attributes;
    for (const AttributeArgument &argument : arguments) {
        if (const auto *strings = std::get_if<std::vector<std::string>>(&argument.value)) {
            std::vector<opdock_text> &list = texts.emplace_back();
            for (const std::string &one : *strings) {
                list.push_back({one.c_str(), one.size()});
            }
            attributes.emplace_back(argument.name.c_str(), std::span<const opdock_text>(list));
            continue;
        }
        std::visit(
            [&](const auto &value) {
                if constexpr (!std::is_same_v<std::decay_t<decltype(value)>, std::vector<std::string>>) {
                    attributes.emplace_back(argument.name.c_str(), value);
                }
            },
            argument.value);
    }
    return attributes;
}

} // namespace

std::vector<Tensors> make_inputs(const Arguments &arguments, const Signature &signature, const Spelling &spelling,
                                 uint64_t seed) {
    std::vector<Tensors> inputs;
    uint64_t n_made = 0;
    for (size_t i = 0; i < arguments.inputs.size(); ++i) {
        Tensors &tensors = inputs.emplace_back();
        const std::string argument = spelling.input + (" " + signature.inputs[i].name);
        for (const Source &source : arguments.inputs[i]) {
            try {
                tensors.push_back(make(source, signature.inputs[i].name, seed_of(seed, ++n_made)));
            } catch (const NoMemory &error) {
                throw cli::Failure(argument + ": " + error.what());
            }
            const HostTensor &tensor = tensors.back();
            if (tensor.shape.size() > OPDOCK_MAX_RANK) {
                throw cli::Failure(argument + ": " + type_text(tensor.dtype, tensor.shape) + " has " +
                                   std::to_string(tensor.shape.size()) + " dims; a tensor has at most " +
                                   std::to_string(OPDOCK_MAX_RANK));
            }
        }
    }
    return inputs;
}

uint64_t bytes_of(const Operand &operand) {
    return files::byte_size(operand.dtype, operand.shape);
}

Operands operands_of(const std::vector<Tensors> &tensors) {
    Operands operands;
    for (const Tensors &of_parameter : tensors) {
        auto &list = operands.emplace_back();
        for (const HostTensor &tensor : of_parameter) {
            list.push_back({tensor.memory.get(), tensor.dtype, tensor.shape, cpu, tensor.strides});
        }
    }
    return operands;
}

Operands shapes_of(const Arguments &arguments) {
    Operands operands;
    for (const auto &sources : arguments.inputs) {
        auto &list = operands.emplace_back();
        for (const Source &source : sources) {
            if (const auto *made_up = std::get_if<MadeUp>(&source)) {
                list.push_back({nullptr, made_up->dtype, made_up->shape, cpu, made_up->strides});
            }
        }
    }
    return operands;
}

void put_on(Operands &operands, const std::vector<Parameter> &parameters, DLDevice device) {
    for (size_t i = 0; i < operands.size(); ++i) {
        for (Operand &operand : operands[i]) {
            operand.device = parameters[i].host ? cpu : device;
        }
    }
}

Call::Call(const Signature &signature, const Operands &inputs, const Operands &outputs,
           const std::vector<AttributeArgument> &attributes, DLDevice device)
    : attributes_(borrow(attributes, texts_)), args_({}, {}) {
    tensors_.reserve(count(inputs) + count(outputs)); // the arguments point to these
    add_side(signature.inputs, inputs, tensors_, inputs_, list_sizes_);
    add_side(signature.outputs, outputs, tensors_, outputs_, list_sizes_);
    args_ = Args(inputs_, outputs_, attributes_);
    args_.lists(list_sizes_).on(device);
}

Operands infer_outputs(const Op &op, const Signature &signature, const Operands &inputs,
                       const std::vector<AttributeArgument> &attributes, const std::function<bool(size_t)> &is_wanted) {
    const Call call(signature, inputs, {}, attributes, cpu); // shapes do not depend on the device
    Operands outputs(signature.outputs.size());
    for (const TensorSpec &spec : op.infer_outputs(call.args())) {
        if (!signature.outputs[spec.parameter].optional || (is_wanted && is_wanted(spec.parameter))) {
            outputs[spec.parameter].push_back({nullptr, opdock_dtype_pack(spec.dtype), spec.shape, cpu});
        }
    }
    return outputs;
}

Operands infer_outputs(const Op &op, const Signature &signature, const Operands &inputs, const Arguments &arguments) {
    const std::vector<std::string> &wanted = arguments.wanted_outputs;
    return infer_outputs(op, signature, inputs, arguments.attributes, [&](size_t output) {
        return std::find(wanted.begin(), wanted.end(), signature.outputs[output].name) != wanted.end();
    });
}

std::vector<void *> pointers_of(const Signature &signature, const Operands &inputs, const Operands &outputs) {
    std::vector<void *> pointers;
    const auto add = [&](const std::vector<Parameter> &parameters, const Operands &operands) {
        for (size_t i = 0; i < operands.size(); ++i) {
            for (const Operand &operand : operands[i]) {
                pointers.push_back(operand.data);
            }
            if (operands[i].empty() && !parameters[i].list) {
                pointers.push_back(nullptr);
            }
        }
    };
    add(signature.inputs, inputs);
    add(signature.outputs, outputs);
    return pointers;
}

} // namespace opdock::op_call
