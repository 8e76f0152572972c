#include "arguments.hpp"

#include <set>
#include <utility>

#include "cli/exit.hpp"

namespace opdock::plugin_run {
namespace {

using op_call::find_named;

// Refuses two tensors for the same place, as they would overwrite each other.
void check_distinct(const FilePart &file, const std::string &tensor, std::set<std::string> &taken) {
    const std::string part = file.format == FilePart::Format::npy ? "" : ":" + tensor;
    if (!taken.insert(op_call::place_of(file) + part).second) {
        throw cli::UsageError("two outputs would be written to '" + file.path + part + "'");
    }
}

void match_outputs(const Request &request, const Signature &signature, Arguments &arguments) {
    arguments.outputs.resize(signature.outputs.size());
    arguments.written_inputs.resize(signature.inputs.size());
    std::set<std::string> taken;
    for (const Named &output : request.outputs) {
        const auto index = find_named(signature.outputs, output.name);
        const auto input = find_named(signature.inputs, output.name);
        if (!index && !(input && signature.inputs[*input].mut)) {
            std::vector<std::string> known = op_call::names_of(signature.outputs);
            for (const op_call::Parameter &parameter : signature.inputs) {
                if (parameter.mut) {
                    known.push_back(parameter.name);
                }
            }
            op_call::unknown_argument("--output", output.name, known, signature, op_call::sources_spelling);
        }
        auto &targets = index ? arguments.outputs[*index] : arguments.written_inputs[*input];
        if (!targets.empty() && !(index ? signature.outputs[*index] : signature.inputs[*input]).list) {
            throw cli::UsageError("--output " + output.name + " was given twice, but is not a list");
        }
        Target target{targets.size(), std::nullopt};
        if (!output.text.empty()) {
            target.file = op_call::parse_file_part(output.text);
            if (target.file->format == FilePart::Format::safetensors && target.file->tensor.empty()) {
                target.file->tensor = output.name + (targets.empty() ? "" : "." + std::to_string(targets.size()));
            }
            check_distinct(*target.file, target.file->tensor, taken);
        }
        targets.push_back(std::move(target));
    }
}

} // namespace

Arguments match(const Request &request, const Signature &signature) {
    Arguments arguments{
        op_call::match(request.inputs, request.attributes, signature, op_call::sources_spelling), {}, {}};
    match_outputs(request, signature, arguments);
    return arguments;
}

} // namespace opdock::plugin_run
