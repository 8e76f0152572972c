#include "replay.hpp"

#include <algorithm>

#include "cli/exit.hpp"
#include "observe/agreement.hpp"
#include "op-call/source.hpp"

namespace opdock::plugin_run {
namespace {

template<class Parameters>
void lay_out_side(const CallFile &call, const Parameters &parameters, std::vector<Tensors> &side) {
    for (size_t i = 0; i < side.size(); ++i) {
        for (size_t k = 0; k < side[i].size(); ++k) {
            op_call::lay_out(call, op_call::name_in_file(parameters[i].name, k), side[i][k]);
        }
    }
}

} // namespace

Request request_of(const CallFile &call, Request request) {
    request.op = call.op;
    request.attributes = call.attributes;
    request.device = request.device.empty() ? call.device_type() : request.device;
    request.impl = request.impl.empty() ? call.impl : request.impl;
    for (const files::TensorData &tensor : call.tensors) {
        if (!tensor.name.starts_with("program.") && !tensor.name.starts_with("shadow.")) {
            const std::string parameter = tensor.name.substr(0, tensor.name.find('.'));
            request.inputs.push_back({parameter, request.file + ":" + tensor.name});
        }
    }
    // Sorts the tensors of a list by the index in their names, "x.10" after "x.9".
    std::stable_sort(request.inputs.begin(), request.inputs.end(), [](const Named &a, const Named &b) {
        return a.text.size() != b.text.size() ? a.text.size() < b.text.size() : a.text < b.text;
    });
    return request;
}

bool is_wanted(const std::optional<CallFile> &replayed, const Arguments &arguments, const Signature &signature,
               size_t output) {
    const auto is_in_file = [&] {
        const std::vector<std::string> &names = replayed->outputs;
        return std::find(names.begin(), names.end(), signature.outputs[output].name) != names.end();
    };
    return !arguments.outputs[output].empty() || (replayed && is_in_file());
}

void lay_out(const CallFile &call, const Signature &signature, CallTensors &tensors) {
    try {
        lay_out_side(call, signature.inputs, tensors.inputs);
        lay_out_side(call, signature.outputs, tensors.outputs);
    } catch (const op_call::NoMemory &error) {
        throw cli::Failure("'" + call.path + "', with its strides: " + error.what());
    }
}

void gather(CallTensors &tensors) {
    for (std::vector<Tensors> *side : {&tensors.inputs, &tensors.outputs}) {
        for (Tensors &list : *side) {
            std::for_each(list.begin(), list.end(), op_call::gather);
        }
    }
}

std::optional<std::string> difference_from(const CallFile &call, const std::string &whose, const std::string &name,
                                           const op_call::HostTensor &found) {
    const files::TensorData *const expected = call.find(whose + name);
    if (expected == nullptr) {
        return std::nullopt;
    }
    if (expected->dtype != found.dtype || expected->shape != found.shape) {
        return "it is " + op_call::type_text(found.dtype, found.shape) + ", expected " +
               op_call::type_text(expected->dtype, expected->shape);
    }
    return core::disagreement(found.dtype, expected->bytes, {found.memory.get(), found.bytes});
}

} // namespace opdock::plugin_run
