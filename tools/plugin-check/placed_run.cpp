#include "placed_run.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "counted.hpp"
#include "inputs.hpp"
#include "op-call/element.hpp"
#include "op-call/requested.hpp"

namespace opdock::plugin_check {
namespace {

using op_call::Operands;
using op_call::Parameter;
using op_call::Signature;
using op_call::Tensors;

constexpr std::byte gap{0x5a}; // between elements of inputs, and in workspaces

// The input whose memory an output may use: "output ~ input: T[...]" in the signature's text.
std::string partner_of(const Signature &signature, const std::string &output) {
    const size_t results = std::min(signature.text.find("->"), signature.text.size());
    const size_t at = signature.text.find(output + " ~ ", results);
    if (at == std::string::npos) {
        return "";
    }
    const size_t begin = at + output.size() + 3;
    return signature.text.substr(begin, signature.text.find(':', begin) - begin);
}

DLDevice device_for(const Parameter &parameter, const Where &where) {
    return parameter.host ? cpu : where.device;
}

} // namespace

PlacedRun::PlacedRun(const Where &where, const Op &op, const Signature &signature, const Case &one,
                     const std::vector<Tensors> &inputs, size_t alignment, bool at_end)
    : signature_(signature), values_(inputs), where_(where), is_written_(inputs.size()) {
    Operands host_inputs = op_call::operands_of(inputs);
    op_call::put_on(host_inputs, signature.inputs, where.device);
    const Operands host_outputs = op_call::infer_outputs(op, signature, host_inputs, one.attributes,
                                                         [&](size_t o) { return one.has(signature.outputs[o]); });
    place(where, signature.inputs, host_inputs, one, alignment, at_end, inputs_);
    place(where, signature.outputs, host_outputs, one, alignment, at_end, outputs_);
    for (size_t i = 0; i < inputs.size(); ++i) {
        is_written_[i] = signature.inputs[i].mut;
    }
    if (one.exercise == Exercise::in_place) {
        share_in_place(signature);
    }
    if (one.exercise == Exercise::same) {
        share_inputs(signature);
    }
    const auto operands_in = [](const auto &placed) {
        Operands operands;
        for (const auto &list : placed) {
            auto &of_parameter = operands.emplace_back();
            for (const auto &tensor : list) {
                of_parameter.push_back(tensor->operand());
            }
        }
        return operands;
    };
    in_ = operands_in(inputs_);
    out_ = operands_in(outputs_);
    call_ = std::make_unique<op_call::Call>(signature, in_, out_, one.attributes, where.device);
}

void PlacedRun::place(const Where &where, const std::vector<Parameter> &parameters, const Operands &operands,
                      const Case &one, size_t alignment, bool at_end,
                      std::vector<std::vector<std::shared_ptr<PlacedTensor>>> &to) {
    // Any two consecutive tensors have different strides.
    constexpr std::array layouts = {Layout::padded, Layout::transposed, Layout::scattered, Layout::contiguous};
    const bool is_input = &parameters == &signature_.inputs;
    for (size_t i = 0; i < operands.size(); ++i) {
        auto &list = to.emplace_back();
        for (const op_call::Operand &operand : operands[i]) {
            const Layout layout = one.layout == Layout::mixed ? layouts[placed_++ % layouts.size()] : one.layout;
            list.push_back(
                std::make_shared<PlacedTensor>(Where{where.runtime, device_for(parameters[i], where)},
                                               (is_input ? "input '" : "output '") + parameters[i].name + "'",
                                               operand.dtype, operand.shape, Placing{at_end, layout, alignment}));
        }
    }
}

void PlacedRun::share_in_place(const Signature &signature) {
    for (size_t i = 0; i < outputs_.size(); ++i) {
        const std::string partner = partner_of(signature, signature.outputs[i].name);
        for (size_t j = 0; j < inputs_.size(); ++j) {
            if (signature.inputs[j].name == partner && !inputs_[j].empty() && !outputs_[i].empty()) {
                outputs_[i] = inputs_[j];
                is_written_[j] = true;
            }
        }
    }
}

void PlacedRun::share_inputs(const Signature &signature) {
    for (const Twin &twin : twins_of(signature, values_)) {
        inputs_[twin.parameter][twin.element] = inputs_[twin.of_parameter][twin.of_element];
    }
}

opdock_status PlacedRun::prepare(const Op &op, const Policy &policy, const std::string &impl, std::string &message) {
    opdock_prepared *prepared = nullptr;
    const opdock_status status = opdock_prepare(op.c(), &call_->args().c(), policy.c(), &prepared);
    if (status != OPDOCK_OK) {
        message = opdock_last_error();
        return status;
    }
    prepared_.emplace(prepared);
    if (prepared_->impl() != impl) {
        message = op_call::not_served_by(impl, prepared_->impl());
        return OPDOCK_ALL_DROPPED;
    }
    if (prepared_->workspace_size() != 0) {
        workspace_ = std::make_unique<PlacedTensor>(where_, "its workspace", OPDOCK_U8,
                                                    std::vector{static_cast<int64_t>(prepared_->workspace_size())},
                                                    Placing{true, Layout::contiguous, 256});
    }
    return OPDOCK_OK;
}

void PlacedRun::reset(std::byte poison) {
    poison_ = poison;
    for (const auto &list : outputs_) {
        for (const auto &tensor : list) {
            tensor->fill(poison);
        }
    }
    for (size_t i = 0; i < inputs_.size(); ++i) {
        for (size_t j = 0; j < inputs_[i].size(); ++j) {
            inputs_[i][j]->put(values_[i][j].memory.get(), gap);
        }
    }
    if (workspace_) {
        workspace_->fill(gap);
    }
}

opdock_status PlacedRun::run(std::byte poison, std::string &message) {
    reset(poison);
    return run_on(message);
}

opdock_status PlacedRun::run_on_zeros(std::string &message) {
    reset(poisons[0]);
    for (const auto &list : inputs_) {
        for (const auto &tensor : list) {
            if (!op_call::is_integer(tensor->dtype())) {
                tensor->fill(std::byte{0});
            }
        }
    }
    return run_on(message);
}

opdock_status PlacedRun::run_on(std::string &message) {
    const op_call::Operand workspace = workspace_ ? workspace_->operand() : op_call::Operand{};
    const opdock_status status = prepared_->run(op_call::pointers_of(signature_, in_, out_), nullptr, workspace.data);
    if (status != OPDOCK_OK) {
        message = opdock_last_error();
        if (status == OPDOCK_UNSUPPORTED) { // the last line of the host's message is advice to programs
            message.erase(std::min(message.rfind('\n'), message.size()));
        }
        return status;
    }
    if (where_.device.device_type != kDLCPU) {
        const opdock_status late = opdock_device_synchronize(where_.runtime, where_.device, nullptr);
        if (late != OPDOCK_OK) {
            message = opdock_last_error();
        }
        return late;
    }
    return OPDOCK_OK;
}

std::vector<Finding> PlacedRun::trespasses() const {
    std::vector<Finding> findings;
    for (size_t i = 0; i < inputs_.size(); ++i) {
        for (size_t j = 0; j < inputs_[i].size(); ++j) {
            const PlacedTensor &tensor = *inputs_[i][j];
            if (!tensor.rest_is(gap)) {
                findings.push_back({"out-of-bounds", "writes outside the elements of " + tensor.name()});
            }
            const std::vector<std::byte> now = tensor.elements();
            if (!is_written_[i] && !std::equal(now.begin(), now.end(), values_[i][j].memory.get())) {
                findings.push_back({"input-changed", "changes " + tensor.name() + ", which is not `mut`"});
            }
        }
    }
    for (const auto &output : outputs_) {
        for (const auto &tensor : output) {
            const bool is_input = tensor->name().starts_with("input");
            if (!is_input && !tensor->rest_is(poison_)) {
                findings.push_back({"out-of-bounds", "writes outside the elements of " + tensor->name()});
            }
        }
    }
    if (workspace_ && !workspace_->rest_is(gap)) {
        findings.push_back({"out-of-bounds", "writes past the end of its workspace"});
    }
    return findings;
}

std::vector<Output> PlacedRun::written() const {
    std::vector<Output> all;
    const auto add = [&](const std::string &name, const PlacedTensor &tensor) {
        all.push_back({name, tensor.dtype(), tensor.shape(), tensor.elements()});
    };
    for (size_t i = 0; i < outputs_.size(); ++i) {
        for (const auto &tensor : outputs_[i]) {
            add(signature_.outputs[i].name, *tensor);
        }
    }
    clear_uncounted(signature_, all);
    for (size_t i = 0; i < inputs_.size(); ++i) {
        for (size_t j = 0; signature_.inputs[i].mut && j < inputs_[i].size(); ++j) {
            add(signature_.inputs[i].name, *inputs_[i][j]);
        }
    }
    return all;
}

} // namespace opdock::plugin_check
