// Printing signatures. signature_parser.cpp reads them, signature_compare.cpp compares them.
#include "signature/signature.hpp"

#include <charconv>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "signature/dtype.hpp"

namespace opdock::core {

namespace {

// The shortest spelling that parses to the same double and is recognizable as one: 1e-5, 7.0.
std::string print_real(double value) {
    std::string text(32, '\0');
    text.resize(static_cast<size_t>(std::to_chars(text.data(), text.data() + text.size(), value).ptr - text.data()));
    const size_t e = text.find('e');
    if (!std::isfinite(value)) {
        return text;
    }
    if (e == std::string::npos) {
        return text.find('.') == std::string::npos ? text + ".0" : text;
    }
    const bool negative = text[e + 1] == '-';
    const std::string digits = text.substr(text.find_first_not_of('0', e + 2));
    return fmt::format("{}e{}{}", text.substr(0, e), negative ? "-" : "", digits);
}

std::string print_string(const std::string &value) {
    std::string text = "\"";
    for (const char c : value) {
        if (c == '"' || c == '\\') {
            text += '\\';
        }
        text += c;
    }
    return text + '"';
}

std::string print_default(const AttributeSpec &attribute) {
    switch (attribute.type) {
    case OPDOCK_VALUE_INT:
        return fmt::format("{}", attribute.integer);
    case OPDOCK_VALUE_FLOAT:
        return print_real(attribute.number);
    case OPDOCK_VALUE_BOOL:
        return attribute.integer != 0 ? "true" : "false";
    case OPDOCK_VALUE_STRING:
        return print_string(attribute.text);
    case OPDOCK_VALUE_DTYPE:
        return dtype_name(static_cast<uint32_t>(attribute.integer));
    case OPDOCK_VALUE_FLOATS: {
        std::string text;
        for (const double number : attribute.numbers) {
            text += (text.empty() ? "" : ", ") + print_real(number);
        }
        return "[" + text + "]";
    }
    default:
        return fmt::format("[{}]", fmt::join(attribute.integers, ", "));
    }
}

} // namespace

opdock_value AttributeSpec::default_value() const {
    opdock_value value{};
    if (optional) {
        return value; // NONE
    }
    value.type = type;
    switch (type) {
    case OPDOCK_VALUE_FLOAT:
        value.as.f = number;
        break;
    case OPDOCK_VALUE_STRING:
        value.as.s = text.c_str();
        value.count = static_cast<uint32_t>(text.size());
        break;
    case OPDOCK_VALUE_INTS:
        value.as.ints = integers.data();
        value.count = static_cast<uint32_t>(integers.size());
        break;
    case OPDOCK_VALUE_FLOATS:
        value.as.floats = numbers.data();
        value.count = static_cast<uint32_t>(numbers.size());
        break;
    case OPDOCK_VALUE_STRINGS:
        break;
    default:
        value.as.i = integer;
        break;
    }
    return value;
}

size_t number_of_tuples(const Signature &signature) {
    size_t number = 1;
    for (const std::vector<uint32_t> &allowed : signature.allowed_dtypes) {
        number = std::min(max_tuples, number * allowed.size());
    }
    return number;
}

std::vector<std::vector<uint32_t>> all_tuples(const Signature &signature) {
    std::vector<std::vector<uint32_t>> tuples = {{}};
    for (const std::vector<uint32_t> &allowed : signature.allowed_dtypes) {
        std::vector<std::vector<uint32_t>> longer;
        for (const std::vector<uint32_t> &tuple : tuples) {
            for (size_t i = 0; i < allowed.size() && longer.size() < max_tuples; ++i) {
                longer.push_back(tuple);
                longer.back().push_back(allowed[i]);
            }
        }
        tuples = std::move(longer);
    }
    return tuples;
}

std::string_view value_type_name(uint32_t type) {
    switch (type) {
    case OPDOCK_VALUE_INT:
        return "int";
    case OPDOCK_VALUE_FLOAT:
        return "float";
    case OPDOCK_VALUE_BOOL:
        return "bool";
    case OPDOCK_VALUE_STRING:
        return "string";
    case OPDOCK_VALUE_DTYPE:
        return "dtype";
    case OPDOCK_VALUE_INTS:
        return "int[]";
    case OPDOCK_VALUE_FLOATS:
        return "float[]";
    case OPDOCK_VALUE_STRINGS:
        return "string[]";
    default:
        return "";
    }
}

std::string print_attribute(const Signature &signature, const AttributeSpec &attribute) {
    std::string text = fmt::format("{}: {}", attribute.name,
                                   attribute.dtype_variable < 0
                                       ? attribute.type_name()
                                       : signature.dtype_variables[static_cast<size_t>(attribute.dtype_variable)]);
    if (attribute.optional) {
        text += "?";
    } else if (!attribute.required) {
        text += " = " + print_default(attribute);
    }
    return text;
}

std::string print_parameter(const Signature &signature, const Parameter &parameter) {
    std::string text =
        fmt::format("{}{}{}", parameter.mut ? "mut " : "", parameter.host ? "host " : "", parameter.name);
    if (parameter.alias >= 0) {
        text += " ~ " + signature.inputs[static_cast<size_t>(parameter.alias)].name;
    }
    return text + ": " + print_dtype(signature, parameter) + print_shape(signature, parameter) +
           (parameter.list ? "*" : "") + (parameter.optional ? "?" : "");
}

std::string print_dtype(const Signature &signature, const Parameter &parameter) {
    return parameter.dtype_variable < 0 ? dtype_name(parameter.dtype)
                                        : signature.dtype_variables[static_cast<size_t>(parameter.dtype_variable)];
}

std::vector<std::string> print_dims(const Signature &signature, const Parameter &parameter) {
    std::vector<std::string> dims;
    for (const Dim &dim : parameter.dims) {
        dims.push_back(print_dim(signature, dim));
    }
    if (parameter.ellipsis >= 0) {
        dims.insert(dims.begin() + parameter.ellipsis, "...");
    }
    return dims;
}

std::string print_shape(const Signature &signature, const Parameter &parameter) {
    return fmt::format("[{}]", fmt::join(print_dims(signature, parameter), ", "));
}

std::string print_expression(const Signature &signature, const Expression &expression) {
    struct Piece {
        std::string text;
        int precedence;
    };
    std::vector<Piece> stack;
    for (const Term &term : expression) {
        if (term.kind == Term::Kind::number) {
            stack.push_back({fmt::format("{}", term.value), 3});
            continue;
        }
        if (term.kind == Term::Kind::dim) {
            stack.push_back({signature.dim_names[static_cast<size_t>(term.value)], 3});
            continue;
        }
        const bool product = term.kind != Term::Kind::add && term.kind != Term::Kind::subtract;
        const int precedence = product ? 2 : 1;
        const char symbol = term.kind == Term::Kind::add        ? '+'
                            : term.kind == Term::Kind::subtract ? '-'
                            : term.kind == Term::Kind::multiply ? '*'
                            : term.kind == Term::Kind::divide   ? '/'
                                                                : '%';
        const Piece right = std::move(stack.back());
        stack.pop_back();
        const Piece left = std::move(stack.back());
        stack.pop_back();
        const auto wrap = [](const Piece &piece, bool parentheses) {
            return parentheses ? "(" + piece.text + ")" : piece.text;
        };
        stack.push_back(
            {wrap(left, left.precedence < precedence) + symbol + wrap(right, right.precedence <= precedence),
             precedence});
    }
    return stack.back().text;
}

std::string print_dim(const Signature &signature, const Dim &dim) {
    switch (dim.kind) {
    case Dim::Kind::number:
        return fmt::format("{}", dim.number);
    case Dim::Kind::name:
        return signature.dim_names[dim.index];
    case Dim::Kind::scaled:
        return fmt::format("{}*{}", dim.number, signature.dim_names[dim.index]);
    case Dim::Kind::expression:
        return print_expression(signature, dim.expression);
    }
    return "";
}

std::string_view print_operator(Constraint::Kind kind) {
    switch (kind) {
    case Constraint::Kind::less:
        return "<";
    case Constraint::Kind::less_equal:
        return "<=";
    case Constraint::Kind::greater:
        return ">";
    case Constraint::Kind::greater_equal:
        return ">=";
    case Constraint::Kind::equal:
        return "==";
    case Constraint::Kind::not_equal:
        return "!=";
    case Constraint::Kind::in:
        return "in";
    }
    return "";
}

std::string print_constraint(const Signature &signature, const Constraint &constraint) {
    std::vector<std::string> right;
    for (const Expression &expression : constraint.right) {
        right.push_back(print_expression(signature, expression));
    }
    return fmt::format("{} {} {}", print_expression(signature, constraint.left), print_operator(constraint.kind),
                       fmt::join(right, "|"));
}

std::string print_dtypes(const std::vector<uint32_t> &dtypes) {
    std::string text;
    for (const uint32_t dtype : dtypes) {
        text += (text.empty() ? "" : "|") + dtype_name(dtype);
    }
    return text;
}

std::string print_signature(const Signature &signature) {
    std::vector<std::string> inputs;
    std::vector<std::string> outputs;
    std::vector<std::string> clauses;
    for (const Parameter &input : signature.inputs) {
        inputs.push_back(print_parameter(signature, input));
    }
    if (!signature.attributes.empty()) {
        inputs.emplace_back("*");
    }
    for (const AttributeSpec &attribute : signature.attributes) {
        inputs.push_back(print_attribute(signature, attribute));
    }
    for (const Parameter &output : signature.outputs) {
        outputs.push_back(print_parameter(signature, output));
    }
    for (const Constraint &constraint : signature.constraints) {
        clauses.push_back(print_constraint(signature, constraint));
    }
    const std::vector<uint32_t> usual{OPDOCK_F32, OPDOCK_F16, OPDOCK_BF16};
    for (size_t i = 0; i < signature.dtype_variables.size(); ++i) {
        if (signature.allowed_dtypes[i] != usual) {
            clauses.push_back(
                fmt::format("{} in {}", signature.dtype_variables[i], print_dtypes(signature.allowed_dtypes[i])));
        }
    }
    return fmt::format("{}({}) -> ({}){}{}", signature.name, fmt::join(inputs, ", "), fmt::join(outputs, ", "),
                       clauses.empty() ? "" : " where ", fmt::join(clauses, ", "));
}

} // namespace opdock::core
