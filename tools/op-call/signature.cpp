#include "op-call/signature.hpp"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "cli/fill.hpp"
#include "cli/printable.hpp"

namespace opdock::op_call {
namespace {

using nlohmann::json;

std::vector<Parameter> read_parameters(const json &list, const std::string &text) {
    std::vector<Parameter> parameters;
    for (const json &one : list) {
        const auto name = one.at("name").get<std::string>();
        parameters.push_back({name, type_in(text, name), one.at("optional").get<bool>(), one.at("list").get<bool>(),
                              one.at("mut").get<bool>(), one.at("host").get<bool>()});
    }
    return parameters;
}

std::string upper(std::string text) {
    std::transform(text.begin(), text.end(), text.begin(),
                   [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    return text;
}

std::string_view trimmed(std::string_view text) {
    const size_t begin = std::min(text.find_first_not_of(' '), text.size());
    return text.substr(begin, text.find_last_not_of(' ') + 1 - begin);
}

// Of "mut params: U[n]*" or "output ~ input: T[...]".
std::string_view name_of(std::string_view parameter) {
    parameter = trimmed(parameter);
    while (parameter.starts_with("mut ") || parameter.starts_with("host ")) {
        parameter = trimmed(parameter.substr(parameter.find(' ')));
    }
    return parameter.substr(0, parameter.find_first_of(" ~:"));
}

struct Line {
    std::string option;
    std::string remark;
    bool missing = false;
};

std::string remark_of(const Parameter &parameter) {
    return parameter.type + (parameter.list ? ", once for each tensor" : "") +
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

std::string type_in(std::string_view parameters, std::string_view name) {
    const size_t open = parameters.find('(');
    size_t begin = open + 1;
    int depth = 0;
    for (size_t i = open; i < parameters.size() && open != std::string_view::npos; ++i) {
        const char c = parameters[i];
        depth += c == '(' || c == '[' ? 1 : c == ')' || c == ']' ? -1 : 0;
        if (!(depth == 1 && c == ',') && depth != 0) {
            continue;
        }
        const std::string_view one = parameters.substr(begin, i - begin); // "output ~ input: T[...]"
        const size_t colon = one.find(':');
        if (colon != std::string_view::npos && name_of(one) == name) {
            return std::string(trimmed(one.substr(colon + 1)));
        }
        if (depth == 0) {
            break;
        }
        begin = i + 1;
    }
    return "";
}

Signature read_signature(const json &json) {
    Signature signature;
    signature.op = json.at("op").get<std::string>();
    signature.text = json.at("signature").get<std::string>();
    const size_t arrow = signature.text.find("->");
    const std::string before = signature.text.substr(0, arrow);
    const std::string after = arrow == std::string::npos ? "" : signature.text.substr(arrow);
    signature.inputs = read_parameters(json.at("inputs"), before);
    signature.outputs = read_parameters(json.at("outputs"), after);
    for (const auto &one : json.at("attributes")) {
        signature.attributes.push_back({one.at("name").get<std::string>(), one.at("type").get<std::string>(),
                                        one.at("default"), one.value("optional", false)});
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
        forms.replace(at, 3, " "); // it is broken for messages, which do not know where they are read
    }
    return cli::printable(signature.op + "\n" + expected_arguments(signature, {}, spelling, width)) + "\n  " +
           cli::fill(cli::words_of(forms), 2, 2, width) + "\n";
}

} // namespace opdock::op_call
