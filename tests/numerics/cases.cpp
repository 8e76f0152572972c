#include "cases.hpp"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <unordered_map>

#include "op-call/source.hpp"

namespace numerics {

namespace {

using nlohmann::json;
using opdock::files::TensorData;
using Tensors = std::unordered_map<std::string, TensorData>;

Strides strides_of(const json &value) {
    const json &strides = value.at("strides");
    return strides.is_null() ? Strides() : Strides(strides.get<std::vector<std::int64_t>>());
}

std::optional<Input> input_of(const json &value, const Tensors &tensors) {
    if (value.is_null())
        return std::nullopt;
    return Input{value.at("name"), tensors.at(value.at("tensor")), strides_of(value)};
}

Output output_of(const json &value, const Tensors &tensors) {
    const TensorData &expected = tensors.at(value.at("expected"));
    Output output;
    output.name = value.at("name");
    output.dtype = opdock::op_call::parse_dtype(value.at("dtype").get<std::string>());
    output.shape = expected.shape;
    output.strides = strides_of(value);
    output.expected.resize(expected.bytes.size() / sizeof(double));
    if (!output.expected.empty())
        std::memcpy(output.expected.data(), expected.bytes.data(), expected.bytes.size());
    output.scale = value.at("scale");
    output.tolerance = value.at("tolerance");
    output.step = value.at("step");
    if (!value.at("in_place_of").is_null())
        output.in_place_of = value.at("in_place_of");
    return output;
}

Case case_of(const json &value, const Tensors &tensors) {
    Case result;
    result.name = value.at("name");
    result.attributes = value.at("attributes");
    result.status = value.at("status");
    result.message = value.at("message");
    result.refused = value.at("refused");
    for (const json &input : value.at("inputs")) {
        result.inputs.push_back(input_of(input, tensors));
        result.contiguous &= !result.inputs.back() || !result.inputs.back()->strides;
    }
    result.list_sizes = value.at("list_sizes").get<std::vector<std::uint32_t>>();
    for (const json &output : value.at("outputs")) {
        result.outputs.push_back(output.is_null() ? std::nullopt : std::optional(output_of(output, tensors)));
        result.contiguous &= !result.outputs.back() || !result.outputs.back()->strides;
    }
    for (const json &changed : value.at("changed"))
        result.changed.push_back(output_of(changed, tensors));
    return result;
}

} // namespace

Cases read_cases(const std::filesystem::path &folder, const std::string &op) {
    std::ifstream file(folder / (op + ".json"));
    if (!file)
        throw std::runtime_error("no cases for op '" + op + "' in '" + folder.string() + "': add it to ops/");
    const json index = json::parse(file);
    Tensors tensors;
    for (TensorData &tensor : opdock::files::read_safetensors(folder / (op + ".safetensors"))) {
        const std::string name = tensor.name;
        tensors.emplace(name, std::move(tensor));
    }
    Cases result;
    result.seed = index.at("seed");
    for (const json &value : index.at("cases"))
        result.cases.push_back(case_of(value, tensors));
    return result;
}

std::vector<std::string> ops_with_cases(const std::filesystem::path &folder) {
    std::vector<std::string> ops;
    for (const auto &entry : std::filesystem::directory_iterator(folder))
        if (entry.path().extension() == ".json")
            ops.push_back(entry.path().stem());
    std::sort(ops.begin(), ops.end());
    return ops;
}

} // namespace numerics
