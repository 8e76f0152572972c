#include "arguments.hpp"

#include <charconv>
#include <optional>
#include <set>

#include "cli/exit.hpp"
#include "cli/suggest.hpp"
#include "opdock/abi/dtype.h"

namespace opdock::plugin_run {
namespace {

template<class List>
std::vector<std::string> names_of(const List &list) {
    std::vector<std::string> names;
    for (const auto &one : list) {
        names.push_back(one.name);
    }
    return names;
}

template<class List>
std::optional<size_t> find(const List &list, const std::string &name) {
    for (size_t i = 0; i < list.size(); ++i) {
        if (list[i].name == name) {
            return i;
        }
    }
    return std::nullopt;
}

[[noreturn]] void unknown(const char *option, const std::string &name, const std::vector<std::string> &known,
                          const Signature &signature) {
    throw cli::UsageError(std::string(option) + " '" + name + "': " + signature.op + " has no such argument" +
                          cli::did_you_mean(name, known) + "\n" + expected_arguments(signature, {}));
}

template<class Number>
Number whole_text_as(std::string_view text, const AttributeParameter &parameter) {
    Number value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) {
        throw cli::UsageError("--attr " + parameter.name + ": '" + std::string(text) + "' is not of type " +
                              parameter.type);
    }
    return value;
}

bool parse_switch(const std::string &text, const AttributeParameter &parameter) {
    for (const char *word : {"1", "true", "yes", "on"}) {
        if (text == word) {
            return true;
        }
    }
    for (const char *word : {"0", "false", "no", "off"}) {
        if (text == word) {
            return false;
        }
    }
    throw cli::UsageError("--attr " + parameter.name + ": '" + text + "' is neither true nor false");
}

std::vector<int64_t> parse_integers(std::string_view text, const AttributeParameter &parameter) {
    std::vector<int64_t> list;
    if (text.size() >= 2 && text.front() == '[' && text.back() == ']') {
        text = text.substr(1, text.size() - 2);
    }
    while (!text.empty()) {
        const size_t comma = text.find(',');
        list.push_back(whole_text_as<int64_t>(text.substr(0, comma), parameter));
        text = comma == std::string_view::npos ? "" : text.substr(comma + 1);
    }
    return list;
}

void match_inputs(const Request &request, const Signature &signature, Arguments &arguments) {
    arguments.inputs.resize(signature.inputs.size());
    for (const Named &input : request.inputs) {
        const auto index = find(signature.inputs, input.name);
        if (!index) {
            unknown("--in", input.name, names_of(signature.inputs), signature);
        }
        auto &sources = arguments.inputs[*index];
        if (!sources.empty() && !signature.inputs[*index].list) {
            throw cli::UsageError("--in " + input.name + " was given twice, and is not a list");
        }
        sources.push_back(parse_source(input.text));
    }
}

void match_attributes(const Request &request, const Signature &signature, Arguments &arguments) {
    for (const Named &attribute : request.attributes) {
        const auto index = find(signature.attributes, attribute.name);
        if (!index) {
            unknown("--attr", attribute.name, names_of(signature.attributes), signature);
        }
        if (find(arguments.attributes, attribute.name)) {
            throw cli::UsageError("--attr " + attribute.name + " was given twice");
        }
        arguments.attributes.push_back(parse_attribute(signature.attributes[*index], attribute.text));
    }
}

std::vector<std::string> missing_names(const Signature &signature, const Arguments &arguments) {
    std::vector<std::string> missing;
    for (size_t i = 0; i < signature.inputs.size(); ++i) {
        if (arguments.inputs[i].empty() && !signature.inputs[i].optional) {
            missing.push_back(signature.inputs[i].name);
        }
    }
    for (const AttributeParameter &attribute : signature.attributes) {
        if (attribute.by_default.is_null() && !find(arguments.attributes, attribute.name)) {
            missing.push_back(attribute.name);
        }
    }
    return missing;
}

void check_nothing_missing(const Signature &signature, const Arguments &arguments) {
    const std::vector<std::string> missing = missing_names(signature, arguments);
    if (missing.empty()) {
        return;
    }
    std::string names;
    for (const std::string &name : missing) {
        names += (names.empty() ? "'" : ", '") + name + "'";
    }
    throw cli::UsageError(signature.op + " needs " + names + "\n" + expected_arguments(signature, missing) + "\n  " +
                          source_forms);
}

// Two tensors in one place would overwrite each other.
void check_distinct(const FilePart &file, const std::string &tensor, std::set<std::string> &taken) {
    const std::string part = file.format == FilePart::Format::npy ? "" : ":" + tensor;
    if (!taken.insert(place_of(file) + part).second) {
        throw cli::UsageError("two outputs would be written to '" + file.path + part + "'");
    }
}

void match_outputs(const Request &request, const Signature &signature, Arguments &arguments) {
    arguments.outputs.resize(signature.outputs.size());
    arguments.written_inputs.resize(signature.inputs.size());
    std::set<std::string> taken;
    for (const Named &output : request.outputs) {
        const auto index = find(signature.outputs, output.name);
        const auto input = find(signature.inputs, output.name);
        if (!index && !(input && signature.inputs[*input].mut)) {
            std::vector<std::string> known = names_of(signature.outputs);
            for (const Parameter &parameter : signature.inputs) {
                if (parameter.mut) {
                    known.push_back(parameter.name);
                }
            }
            unknown("--out", output.name, known, signature);
        }
        auto &targets = index ? arguments.outputs[*index] : arguments.written_inputs[*input];
        if (!targets.empty() && !(index ? signature.outputs[*index] : signature.inputs[*input]).list) {
            throw cli::UsageError("--out " + output.name + " was given twice, and is not a list");
        }
        Target target{targets.size(), std::nullopt};
        if (!output.text.empty()) {
            target.file = parse_file_part(output.text);
            if (target.file->format == FilePart::Format::safetensors && target.file->tensor.empty()) {
                target.file->tensor = output.name + (targets.empty() ? "" : "." + std::to_string(targets.size()));
            }
            check_distinct(*target.file, target.file->tensor, taken);
        }
        targets.push_back(std::move(target));
    }
}

} // namespace

AttributeArgument parse_attribute(const AttributeParameter &parameter, const std::string &text) {
    if (parameter.type == "int") {
        return {parameter.name, whole_text_as<int64_t>(text, parameter)};
    }
    if (parameter.type == "float") {
        return {parameter.name, whole_text_as<double>(text, parameter)};
    }
    if (parameter.type == "bool") {
        return {parameter.name, parse_switch(text, parameter)};
    }
    if (parameter.type == "dtype") {
        return {parameter.name, opdock_dtype_unpack(parse_dtype(text))};
    }
    if (parameter.type == "int[]") {
        return {parameter.name, parse_integers(text, parameter)};
    }
    return {parameter.name, text};
}

Arguments match(const Request &request, const Signature &signature) {
    Arguments arguments;
    match_inputs(request, signature, arguments);
    match_attributes(request, signature, arguments);
    check_nothing_missing(signature, arguments);
    match_outputs(request, signature, arguments);
    return arguments;
}

} // namespace opdock::plugin_run
