#include "reference.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "attributes.hpp"
#include "counted.hpp"
#include "op-call/element.hpp"
#include "op-call/requested.hpp"
#include "tensor_files.hpp"

namespace opdock::plugin_check {
namespace {

using nlohmann::json;
using op_call::AttributeArgument;
using op_call::HostTensor;
using op_call::Operands;
using op_call::Parameter;
using op_call::Signature;
using op_call::Tensors;

uint32_t widened(uint32_t dtype) {
    return dtype == OPDOCK_F16 || dtype == OPDOCK_BF16 ? OPDOCK_F32 : dtype;
}

Dtypes widened(Dtypes dtypes) {
    for (auto &[variable, dtype] : dtypes) {
        dtype = widened(dtype);
    }
    return dtypes;
}

// The attributes of the call, with dtypes adapted to the widened tensors.
std::vector<AttributeArgument> widened(const Signature &signature, const Dtypes &dtypes,
                                       std::vector<AttributeArgument> attributes) {
    for (const op_call::AttributeParameter &parameter : signature.attributes) {
        const auto variable = dtypes.find(parameter.variable);
        for (AttributeArgument &one : attributes) {
            if (one.name == parameter.name && variable != dtypes.end()) {
                one.value = opdock_dtype_unpack(variable->second);
            }
        }
    }
    return attributes;
}

HostTensor converted(const HostTensor &from, uint32_t dtype, const Moved &moved, uint64_t seed) {
    HostTensor to(dtype, from.shape);
    if (from.dtype == dtype && moved.by == 0) {
        std::copy_n(from.memory.get(), from.bytes, to.memory.get());
        return to;
    }
    std::vector<double> values = op_call::load_elements(from.dtype, from.memory.get(), from.values);
    if (moved.by != 0) {
        Random random(seed);
        const bool all_up = random.chance(0.5);
        for (double &value : values) {
            const bool up = moved.together ? all_up : random.chance(0.5);
            value *= 1 + (up ? moved.by : -moved.by);
        }
    }
    op_call::store_elements(dtype, to.memory.get(), values);
    return to;
}

Result result_of(const std::string &name, const HostTensor &tensor) {
    return {name, tensor.shape, op_call::load_elements(tensor.dtype, tensor.memory.get(), tensor.values)};
}

Results results_of(const std::vector<Output> &outputs) {
    Results results;
    for (const Output &output : outputs) {
        results.push_back({output.name, output.shape,
                           op_call::load_elements(output.dtype, output.elements.data(), values_in(output))});
    }
    return results;
}

// Allocates the outputs of a call in host memory.
std::vector<Tensors> allocate(Operands &outputs) {
    std::vector<Tensors> tensors;
    for (auto &list : outputs) {
        Tensors &of_parameter = tensors.emplace_back();
        for (op_call::Operand &operand : list) {
            of_parameter.emplace_back(operand.dtype, operand.shape);
            operand.data = of_parameter.back().values == 0 ? nullptr : of_parameter.back().memory.get();
        }
    }
    return tensors;
}

// Runs a prepared call in host memory. Throws opdock::Error.
void run(const Prepared &prepared, std::vector<void *> pointers) {
    const HostTensor workspace(OPDOCK_U8, {static_cast<int64_t>(prepared.workspace_size())});
    const opdock_status status = prepared.run(pointers, nullptr, workspace.memory.get());
    if (status != OPDOCK_OK) {
        throw Error(status, opdock_last_error());
    }
}

std::string reference_of(const Host &host, const std::string &op) {
    const json document = json::parse(host.describe());
    for (const json &one : document.at("ops")) {
        if (one.at("op") != op) {
            continue;
        }
        for (const json &implementation : one.at("implementations")) {
            if (implementation.at("kind") == "reference" && implementation.at("device") == "cpu") {
                return implementation.at("impl_id").get<std::string>();
            }
        }
    }
    return "";
}

} // namespace

struct Reference::ForwardOp {
    ForwardOp(const Host &host, Signature of_op) : signature(std::move(of_op)), reference(host, signature) {}

    const Signature signature;
    const Reference reference;
};

Reference::Reference(const Host &host, const Signature &signature, Calls *calls)
    : host_(host), signature_(signature), calls_(calls), impl_id_(reference_of(host, signature.op)) {
    for (const std::string &op : forward_ops_of(signature)) {
        try {
            forward_ops_.try_emplace(op, std::make_unique<const ForwardOp>(
                                             host, op_call::read_signature(json::parse(host.op(op).signature_json()))));
        } catch (const Error &) { // no such op here: its results stay made up
            continue;
        }
    }
}

Reference::~Reference() = default;

bool Reference::takes(const Shapes &shapes, bool is_bare) const {
    Dtypes dtypes;
    for (const std::string &variable : signature_.dtype_variables) {
        // A variable that a where clause restricts to fp8 or integers does not take f32.
        const auto begins = [&](const char *dtype) {
            return signature_.text.find(variable + " in " + dtype) != std::string::npos;
        };
        dtypes[variable] = begins("e4m3") ? OPDOCK_E4M3 : begins("i64") ? OPDOCK_I64 : OPDOCK_F32;
    }
    Operands inputs(signature_.inputs.size());
    Case plain;
    plain.without = appended_to_standard(signature_);
    for (size_t i = 0; i < inputs.size(); ++i) {
        const Parameter &input = signature_.inputs[i];
        const bool is_there = plain.has(input) && !(is_bare && input.optional);
        const size_t count = !is_there ? 0 : input.list ? shapes.size() : 1;
        for (size_t j = 0; j < count; ++j) {
            inputs[i].push_back({nullptr, dtype_in(input.dtype, dtypes), dims_in(input.dims, shapes[j]), cpu});
        }
    }
    try {
        const Op op = host_.op(signature_.op);
        const std::vector<AttributeArgument> attributes = required_attributes(signature_, dtypes);
        const Operands outputs = op_call::infer_outputs(op, signature_, inputs, attributes);
        if (calls_ != nullptr) {
            Case one;
            one.attributes = attributes;
            return calls_->takes(one, inputs);
        }
        if (exists()) {
            const op_call::Call call(signature_, inputs, outputs, attributes, cpu);
            static_cast<void>(op_call::prepare_for(host_, signature_.op, impl_id_, call.args()));
        }
        return true;
    } catch (const Error &) {
        return false; // declined by the op, or by the reference
    }
}

std::optional<Results> Reference::run(const Case &one, const std::vector<Tensors> &inputs, const Moved &moved,
                                      std::string &why) const {
    Case wide = one;
    wide.dtypes = widened(one.dtypes);
    wide.attributes = widened(signature_, wide.dtypes, one.attributes);
    std::vector<Tensors> wide_inputs(inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
        for (const HostTensor &tensor : inputs[i]) {
            wide_inputs[i].push_back(
                converted(tensor, dtype_in(signature_.inputs[i].dtype, wide.dtypes),
                          Moved{rounding_of(signature_, signature_.inputs[i], tensor.dtype, moved.by), moved.together},
                          derive(one.seed + wide_inputs[i].size(), signature_.inputs[i].name)));
        }
    }
    try {
        return calls_ != nullptr ? run_there(wide, wide_inputs) : run_here(wide, wide_inputs);
    } catch (const Error &error) {
        why = error.what();
        return std::nullopt;
    }
}

Results Reference::run_here(const Case &one, std::vector<Tensors> &inputs) const {
    const Op op = host_.op(signature_.op);
    Operands in = op_call::operands_of(inputs);
    Operands out = op_call::infer_outputs(op, signature_, in, one.attributes,
                                          [&](size_t o) { return one.has(signature_.outputs[o]); });
    const std::vector<Tensors> outputs = allocate(out);
    const op_call::Call call(signature_, in, out, one.attributes, cpu);
    const Prepared prepared = op_call::prepare_for(host_, signature_.op, impl_id_, call.args());
    plugin_check::run(prepared, op_call::pointers_of(signature_, in, out));
    std::vector<Output> written;
    for (size_t i = 0; i < outputs.size(); ++i) {
        for (const HostTensor &tensor : outputs[i]) {
            written.push_back({signature_.outputs[i].name,
                               tensor.dtype,
                               tensor.shape,
                               {tensor.memory.get(), tensor.memory.get() + tensor.bytes}});
        }
    }
    clear_uncounted(signature_, written);
    Results results = results_of(written);
    for (size_t i = 0; i < inputs.size(); ++i) {
        for (size_t j = 0; signature_.inputs[i].mut && j < inputs[i].size(); ++j) {
            results.push_back(result_of(signature_.inputs[i].name, inputs[i][j]));
        }
    }
    return results;
}

// Runs it in its process, the only one where its code runs.
Answer Reference::answer_to(const Case &one, const std::vector<Tensors> &inputs) const {
    try {
        Case plain = one;
        plain.exercise = Exercise::call;
        calls_->begin(0, plain, inputs, {Turn{}});
        return calls_->answers(0).front();
    } catch (const Ended &ended) {
        throw Ended(ended.check, std::string("the reference implementation: ") + ended.what(), ended.before_any_call);
    }
}

Results Reference::run_there(const Case &one, const std::vector<Tensors> &inputs) const {
    const Answer answer = answer_to(one, inputs);
    if (answer.status != OPDOCK_OK) {
        throw Error(answer.status, answer.message);
    }
    return results_of(answer.outputs);
}

std::optional<HostTensor> Reference::forward(const Forward &forward, const Case &one,
                                             const std::map<std::string, HostTensor *> &known) const {
    const auto found = forward_ops_.find(forward.op);
    if (found == forward_ops_.end()) {
        return std::nullopt;
    }
    const Signature &signature = found->second->signature;
    Case of_forward = one;
    of_forward.dtypes = widened(one.dtypes);
    std::erase_if(of_forward.attributes, [&](const AttributeArgument &attribute) {
        return !op_call::find_named(signature.attributes, attribute.name);
    });
    for (const op_call::AttributeParameter &attribute : signature.attributes) { // a dim that an attribute determined
        const auto dim = one.shapes.front().names.find(attribute.name);
        if (attribute.is_required() && dim != one.shapes.front().names.end()) {
            of_forward.attributes.push_back({attribute.name, dim->second});
        }
    }
    std::erase_if(of_forward.without, [&](const std::string &name) { // all outputs, and inputs as they are here
        return !op_call::find_named(signature.inputs, name);
    });
    std::vector<Tensors> inputs(signature.inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
        const Parameter &input = signature.inputs[i];
        if (!of_forward.has(input)) {
            continue;
        }
        const uint32_t dtype = dtype_in(input.dtype, of_forward.dtypes);
        const auto same = known.find(input.name);
        inputs[i].push_back(same != known.end() ? converted(*same->second, dtype, {}, 0)
                                                : draw_input(of_forward, signature, input, dtype,
                                                             dims_in(input.dims, one.shapes.front())));
    }
    std::string why;
    const std::optional<Results> results = found->second->reference.run(of_forward, inputs, {}, why);
    for (const Result &result : results.value_or(Results())) {
        if (result.name == forward.output) {
            HostTensor tensor(OPDOCK_F32, result.shape);
            op_call::store_elements(OPDOCK_F32, tensor.memory.get(), result.values);
            return tensor;
        }
    }
    return std::nullopt;
}

} // namespace opdock::plugin_check
