#include "op-call/arguments.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <string_view>

#include "cli/exit.hpp"
#include "cli/suggest.hpp"
#include "op-call/element.hpp"

namespace opdock::op_call {
namespace {

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

std::string whole_text(std::string_view text, const AttributeParameter & /*of*/) {
    return std::string(text);
}

// "1,2", with or without brackets; "" and "[]" are empty.
template<class Parse>
auto parse_list(std::string_view text, const AttributeParameter &parameter, Parse parse) {
    std::vector<decltype(parse(text, parameter))> list;
    if (text.size() >= 2 && text.front() == '[' && text.back() == ']') {
        text = text.substr(1, text.size() - 2);
    }
    while (!text.empty()) {
        const size_t comma = text.find(',');
        list.push_back(parse(text.substr(0, comma), parameter));
        text = comma == std::string_view::npos ? "" : text.substr(comma + 1);
    }
    return list;
}

// Gated ops, with both halves in one tensor or in two. Liger-Kernel's geglu is the two-tensor op.
struct GatedOps {
    std::string_view of_one;
    std::string_view of_two;
};
constexpr std::array<GatedOps, 4> gated_ops = {{{"geglu", "gelu_and_mul"},
                                                {"swiglu", "silu_and_mul"},
                                                {"geglu_bwd", "gelu_and_mul_bwd"},
                                                {"swiglu_bwd", "silu_and_mul_bwd"}}};

// For an input that a gated op lacks and its counterpart may have; "" for all other ops.
std::string hint_at_gated_op(const std::string &op) {
    for (const auto &[of_one, of_two] : gated_ops) {
        if (op == of_one) {
            return "; for two tensors, gate and up, use the op '" + std::string(of_two) + "'";
        }
        if (op == of_two) {
            return "; for one tensor with both halves, use the op '" + std::string(of_one) + "'";
        }
    }
    return "";
}

void match_inputs(const std::vector<Named> &inputs, const Signature &signature, const Spelling &spelling,
                  Arguments &arguments) {
    arguments.inputs.resize(signature.inputs.size());
    for (const Named &input : inputs) {
        const auto index = find_named(signature.inputs, input.name);
        if (!index) {
            unknown_argument(spelling.input, input.name, names_of(signature.inputs), signature, spelling);
        }
        auto &sources = arguments.inputs[*index];
        if (!sources.empty() && !signature.inputs[*index].list) {
            throw cli::UsageError(spelling.input + (" " + input.name) + " was given twice, but is not a list");
        }
        sources.push_back(spelling.parse(input.text));
    }
}

void match_attributes(const std::vector<Named> &attributes, const Signature &signature, const Spelling &spelling,
                      Arguments &arguments) {
    for (const Named &attribute : attributes) {
        const auto index = find_named(signature.attributes, attribute.name);
        if (!index) {
            unknown_argument("--attr", attribute.name, names_of(signature.attributes), signature, spelling);
        }
        if (find_named(arguments.attributes, attribute.name)) {
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
        if (attribute.is_required() && !find_named(arguments.attributes, attribute.name)) {
            missing.push_back(attribute.name);
        }
    }
    return missing;
}

void check_nothing_missing(const Signature &signature, const Spelling &spelling, const Arguments &arguments) {
    const std::vector<std::string> missing = missing_names(signature, arguments);
    if (missing.empty()) {
        return;
    }
    std::string names;
    for (const std::string &name : missing) {
        names += (names.empty() ? "'" : ", '") + name + "'";
    }
    throw cli::UsageError(signature.op + " needs " + names + "\n" + expected_arguments(signature, missing, spelling) +
                          "\n  " + spelling.forms);
}

// For a generated tensor; the dims of files are not known before they are read.
int64_t smallest_dim(const Source &source) {
    int64_t smallest = std::numeric_limits<int64_t>::max();
    if (const auto *made_up = std::get_if<MadeUp>(&source)) {
        for (const int64_t dim : made_up->shape) {
            smallest = std::min(smallest, dim);
        }
    }
    return smallest;
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
        return {parameter.name, parse_list(text, parameter, whole_text_as<int64_t>)};
    }
    if (parameter.type == "float[]") {
        return {parameter.name, parse_list(text, parameter, whole_text_as<double>)};
    }
    if (parameter.type == "string[]") {
        return {parameter.name, parse_list(text, parameter, whole_text)};
    }
    return {parameter.name, text};
}

Arguments match(const std::vector<Named> &inputs, const std::vector<Named> &attributes, const Signature &signature,
                const Spelling &spelling) {
    Arguments arguments;
    match_inputs(inputs, signature, spelling, arguments);
    match_attributes(attributes, signature, spelling, arguments);
    check_nothing_missing(signature, spelling, arguments);
    return arguments;
}

std::vector<std::string> match_outputs(const std::vector<std::string> &names, const Signature &signature,
                                       const Spelling &spelling) {
    std::vector<std::string> optional;
    for (const Parameter &output : signature.outputs) {
        if (output.optional) {
            optional.push_back(output.name);
        }
    }
    std::vector<std::string> matched;
    for (const std::string &name : names) {
        const auto index = find_named(signature.outputs, name);
        if (!index) {
            unknown_argument("--output", name, optional, signature, spelling);
        }
        if (!signature.outputs[*index].optional) {
            throw cli::UsageError("--output " + name + ": it is not optional and is always computed");
        }
        if (std::find(matched.begin(), matched.end(), name) != matched.end()) {
            throw cli::UsageError("--output " + name + " was given twice");
        }
        matched.push_back(name);
    }
    return matched;
}

void guess_ranges(Arguments &arguments) {
    for (size_t i = 0; i < arguments.inputs.size(); ++i) {
        for (Source &source : arguments.inputs[i]) {
            auto *made_up = std::get_if<MadeUp>(&source);
            if (made_up == nullptr || !wants_guess(*made_up)) {
                continue;
            }
            int64_t past = std::numeric_limits<int64_t>::max();
            for (size_t k = 0; k < arguments.inputs.size(); ++k) {
                for (const Source &other : arguments.inputs[k]) {
                    past = k == i ? past : std::min(past, smallest_dim(other));
                }
            }
            past = past == std::numeric_limits<int64_t>::max() ? 1 : past;
            past = std::min(past, static_cast<int64_t>(integers_of(made_up->dtype).second));
            made_up->range = {0.0, static_cast<double>(std::max<int64_t>(past, 1))};
        }
    }
}

void unknown_argument(const std::string &option, const std::string &name, const std::vector<std::string> &known,
                      const Signature &signature, const Spelling &spelling) {
    const char *what = " has no such argument";
    if (find_named(signature.inputs, name)) {
        what = " has it as an input";
    } else if (find_named(signature.outputs, name)) {
        what = " has it as an output";
    } else if (find_named(signature.attributes, name)) {
        what = " has it as an attribute";
    }
    std::string hint = cli::did_you_mean(name, known);
    if (hint.empty() && option == spelling.input) {
        hint = hint_at_gated_op(signature.op);
    }
    throw cli::UsageError(option + " '" + name + "': " + signature.op + what + hint + "\n" +
                          expected_arguments(signature, {}, spelling));
}

} // namespace opdock::op_call
