#include "op-call/signature.hpp"

#include <algorithm>
#include <cctype>

#include "cli/fill.hpp"
#include "cli/printable.hpp"

namespace opdock::op_call {
namespace {

using nlohmann::json;

std::vector<Parameter> read_parameters(const json &list) {
    std::vector<Parameter> parameters;
    for (const json &one : list) {
        parameters.push_back({one.at("name").get<std::string>(), one.at("dtype").get<std::string>(),
                              one.at("dims").get<std::vector<std::string>>(), one.at("optional").get<bool>(),
                              one.at("list").get<bool>(), one.at("mut").get<bool>(), one.at("host").get<bool>()});
    }
    return parameters;
}

std::string upper(std::string text) {
    std::transform(text.begin(), text.end(), text.begin(),
                   [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    return text;
}

struct Line {
    std::string option;
    std::string remark;
    bool missing = false;
};

std::string remark_of(const Parameter &parameter) {
    return parameter.type() + (parameter.list ? ", once for each tensor" : "") +
           (parameter.optional ? ", optional" : "") + (parameter.mut ? ", written" : "");
}

std::string to_text(const std::vector<Line> &lines) {
    size_t width = 0;
    for (const Line &line : lines) {
        width = std::max(width, line.option.size());
    }
    std::string text;
    for (const Line &line : lines) {
        text += (line.missing ? "\n  > " : "\n    ") + line.option + std::string(width - line.option.size() + 2, ' ') +
                line.remark + (line.missing ? "  (missing)" : "");
    }
    return text;
}

} // namespace

std::string Parameter::type() const {
    std::string text;
    for (const std::string &dim : dims) {
        text += (text.empty() ? "" : ", ") + dim;
    }
    return dtype + "[" + text + "]" + (list ? "*" : "") + (optional ? "?" : "");
}

Signature read_signature(const json &json) {
    Signature signature;
    signature.op = json.at("op").get<std::string>();
    signature.text = json.at("signature").get<std::string>();
    signature.inputs = read_parameters(json.at("inputs"));
    signature.outputs = read_parameters(json.at("outputs"));
    for (const auto &one : json.at("attributes")) {
        signature.attributes.push_back({one.at("name").get<std::string>(), one.at("type").get<std::string>(),
                                        one.at("default"), one.at("optional").get<bool>(),
                                        one.at("variable").is_null() ? "" : one.at("variable").get<std::string>()});
    }
    signature.dtype_variables = json.at("dtype_variables").get<std::vector<std::string>>();
    return signature;
}

Signature signature_of(const Op &op) {
    return read_signature(json::parse(op.signature_json()));
}

std::string expected_arguments(const Signature &signature, const std::vector<std::string> &missing,
                               const Spelling &spelling, size_t width) {
    const auto is_missing = [&](const std::string &name) {
        return std::find(missing.begin(), missing.end(), name) != missing.end();
    };
    std::vector<Line> lines;
    for (const Parameter &input : signature.inputs) {
        lines.push_back({spelling.input + (" " + input.name) + "=SOURCE", remark_of(input), is_missing(input.name)});
    }
    for (const AttributeParameter &attribute : signature.attributes) {
        lines.push_back({"--attr " + attribute.name + "=" + upper(attribute.type),
                         attribute.is_required() ? "required"
                         : attribute.optional    ? "optional"
                                                 : "default " + attribute.by_default.dump(),
                         is_missing(attribute.name)});
    }
    const bool writes_outputs = spelling.outputs == Spelling::Outputs::written;
    for (const Parameter &output : signature.outputs) {
        if (writes_outputs || (spelling.outputs == Spelling::Outputs::optional && output.optional)) {
            lines.push_back({"--output " + output.name + (writes_outputs ? "[=FILE]" : ""), remark_of(output)});
        }
    }
    return "  " + cli::fill(cli::parameters_of(signature.text), 2, 6, width) + to_text(lines);
}

std::string expected_text(const Signature &signature, const Spelling &spelling) {
    const size_t width = cli::page_of_stdout().width();
    std::string forms = spelling.forms;
    for (size_t at = forms.find("\n  "); at != std::string::npos; at = forms.find("\n  ")) {
        forms.replace(at, 3, " "); // broken for messages, which do not know the page width
    }
    return cli::printable(signature.op + "\n" + expected_arguments(signature, {}, spelling, width)) + "\n  " +
           cli::fill(cli::words_of(forms), 2, 2, width) + "\n";
}

} // namespace opdock::op_call
