#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include <fmt/format.h>

#include "signature/dtype.hpp"
#include "signature/signature_parser.hpp"

namespace opdock::core {

void SignatureParser::parse_attributes() {
    do {
        signature_.attributes.push_back(parse_attribute());
    } while (accept(","));
}

AttributeSpec SignatureParser::parse_attribute() {
    const Token start = token_;
    if (signature_.attributes.size() == max_parameters) {
        lexer_.fail(start.offset, fmt::format("an op has at most {} attributes", max_parameters));
    }
    AttributeSpec attribute;
    attribute.name = new_name("attribute");
    // An attribute's name stands for its value in later shapes and clauses.
    const auto &dims = signature_.dim_names;
    if (std::find(dims.begin(), dims.end(), attribute.name) != dims.end()) {
        lexer_.fail(start.offset,
                    fmt::format("attribute '{}' has the name of a dim; rename one of them", attribute.name));
    }
    expect(":", fmt::format("after '{}'", attribute.name));
    parse_attribute_type(&attribute);
    if (accept("?")) {
        if (attribute.dtype_variable >= 0) {
            lexer_.fail(start.offset,
                        fmt::format("'{}' binds a dtype variable, so it cannot be optional; give it a default",
                                    attribute.name));
        }
        attribute.required = false;
        attribute.optional = true;
    } else if (accept("=")) {
        attribute.required = false;
        parse_default(&attribute);
    }
    return attribute;
}

void SignatureParser::parse_attribute_type(AttributeSpec *attribute) {
    static constexpr std::array<std::pair<std::string_view, uint32_t>, 5> types{{{"int", OPDOCK_VALUE_INT},
                                                                                 {"float", OPDOCK_VALUE_FLOAT},
                                                                                 {"bool", OPDOCK_VALUE_BOOL},
                                                                                 {"string", OPDOCK_VALUE_STRING},
                                                                                 {"dtype", OPDOCK_VALUE_DTYPE}}};
    attribute->dtype_variable = dtype_variable();
    if (attribute->dtype_variable >= 0) {
        attribute->type = OPDOCK_VALUE_DTYPE;
        sure_.dtypes |= 1u << attribute->dtype_variable;
        known_.dtypes |= 1u << attribute->dtype_variable;
        advance();
        return;
    }
    for (const auto &[name, type] : types) {
        if (token_.is_word(name)) {
            attribute->type = type;
        }
    }
    if (attribute->type == OPDOCK_VALUE_NONE) {
        fail_expected("int, float, bool, string, dtype, int[], float[], string[] or a dtype variable");
    }
    advance();
    const uint32_t list = attribute->type == OPDOCK_VALUE_INT      ? OPDOCK_VALUE_INTS
                          : attribute->type == OPDOCK_VALUE_FLOAT  ? OPDOCK_VALUE_FLOATS
                          : attribute->type == OPDOCK_VALUE_STRING ? OPDOCK_VALUE_STRINGS
                                                                   : OPDOCK_VALUE_NONE;
    if (list != OPDOCK_VALUE_NONE && accept("[")) {
        expect("]", fmt::format("to end the type {}", value_type_name(list)));
        attribute->type = list;
    }
}

void SignatureParser::parse_default(AttributeSpec *attribute) {
    switch (attribute->type) {
    case OPDOCK_VALUE_INT:
        attribute->integer = parse_integer();
        break;
    case OPDOCK_VALUE_FLOAT:
        attribute->number = parse_real();
        break;
    case OPDOCK_VALUE_BOOL:
        if (!token_.is_word("true") && !token_.is_word("false")) {
            fail_expected("true or false");
        }
        attribute->integer = token_.is_word("true") ? 1 : 0;
        advance();
        break;
    case OPDOCK_VALUE_STRING:
        attribute->text = parse_string();
        break;
    case OPDOCK_VALUE_DTYPE:
        attribute->integer = parse_dtype_name();
        break;
    case OPDOCK_VALUE_STRINGS:
        expect("[", "to begin the empty list, the only default of a list of strings");
        expect("]", "to end the empty list, the only default of a list of strings");
        break;
    default:
        parse_numbers(attribute);
        break;
    }
}

int64_t SignatureParser::parse_integer() {
    const Token start = token_;
    const bool negative = accept("-");
    if (token_.kind != Token::Kind::integer) {
        fail_expected("a whole number");
    }
    const std::string digits = fmt::format("{}{}", negative ? "-" : "", token_.text);
    int64_t value = 0;
    if (std::from_chars(digits.data(), digits.data() + digits.size(), value).ec != std::errc()) {
        lexer_.fail(start.offset, fmt::format("{} does not fit into 64 bits", SignatureLexer::shown(digits)));
    }
    advance();
    return value;
}

double SignatureParser::parse_real() {
    const Token start = token_;
    const bool negative = accept("-");
    double value = 0;
    if (token_.is_word("inf")) {
        value = std::numeric_limits<double>::infinity();
    } else if (token_.kind == Token::Kind::real || token_.kind == Token::Kind::integer) {
        const std::string_view digits = token_.text;
        if (std::from_chars(digits.data(), digits.data() + digits.size(), value).ec != std::errc()) {
            lexer_.fail(start.offset, fmt::format("{} does not fit into a double", SignatureLexer::shown(digits)));
        }
    } else {
        fail_expected("a number");
    }
    advance();
    return negative ? -value : value;
}

std::string SignatureParser::parse_string() {
    if (token_.kind != Token::Kind::string) {
        fail_expected("a string in double quotes");
    }
    std::string text;
    for (size_t i = 0; i < token_.text.size(); ++i) {
        i += token_.text[i] == '\\' ? 1 : 0;
        text += token_.text[i];
    }
    advance();
    return text;
}

void SignatureParser::parse_numbers(AttributeSpec *attribute) {
    const bool is_whole = attribute->type == OPDOCK_VALUE_INTS;
    const std::string_view numbers = is_whole ? "whole numbers" : "numbers";
    expect("[", fmt::format("to begin a list of {}", numbers));
    if (accept("]")) {
        return;
    }
    do {
        if (is_whole) {
            attribute->integers.push_back(parse_integer());
        } else {
            attribute->numbers.push_back(parse_real());
        }
    } while (accept(","));
    expect("]", fmt::format("or ',' in a list of {}", numbers));
}

uint32_t SignatureParser::parse_dtype_name() {
    const auto dtype = token_.kind == Token::Kind::word ? core::parse_dtype(token_.text) : std::nullopt;
    if (!dtype) {
        std::string names;
        for (const NamedDtype &known : named_dtypes) {
            names += fmt::format("{} ", known.name);
        }
        fail_expected(fmt::format("a dtype ({}or one upper-case letter as a variable)", names));
    }
    advance();
    return *dtype;
}

int SignatureParser::dtype_variable() {
    if (token_.kind != Token::Kind::word || token_.text.size() != 1 || token_.text[0] < 'A' || token_.text[0] > 'Z') {
        return -1;
    }
    auto &variables = signature_.dtype_variables;
    const auto known = std::find(variables.begin(), variables.end(), token_.text);
    const int index = static_cast<int>(known - variables.begin());
    if (known == variables.end()) {
        if (variables.size() == max_dtype_variables) {
            lexer_.fail(token_.offset, fmt::format("a signature has at most {} dtype variables", max_dtype_variables));
        }
        variables.emplace_back(token_.text);
        signature_.allowed_dtypes.push_back({OPDOCK_F32, OPDOCK_F16, OPDOCK_BF16});
    }
    return index;
}

void SignatureParser::parse_where() {
    do {
        const bool upper = token_.kind == Token::Kind::word && token_.text[0] >= 'A' && token_.text[0] <= 'Z';
        if (upper) {
            parse_dtype_clause();
        } else {
            parse_dim_clause();
        }
    } while (accept(","));
}

void SignatureParser::parse_dtype_clause() {
    const auto &variables = signature_.dtype_variables;
    const auto variable = std::find(variables.begin(), variables.end(), token_.text);
    if (variable == variables.end()) {
        lexer_.fail(token_.offset, fmt::format("no parameter has the dtype variable '{}'", token_.text));
    }
    const auto index = static_cast<size_t>(variable - variables.begin());
    if ((restricted_ & (1u << index)) != 0) {
        lexer_.fail(token_.offset, fmt::format("'{}' has two clauses", token_.text));
    }
    restricted_ |= 1u << index;
    advance();
    if (!token_.is_word("in")) {
        fail_expected("'in' and the dtypes that the variable stands for, separated by '|'");
    }
    advance();
    std::vector<uint32_t> listed;
    do {
        const Token name = token_;
        const uint32_t dtype = parse_dtype_name();
        if (std::find(listed.begin(), listed.end(), dtype) != listed.end()) {
            lexer_.fail(name.offset, fmt::format("'{}' twice", name.text));
        }
        listed.push_back(dtype);
    } while (accept("|"));
    // In the order of named_dtypes, so that the order in the text does not matter.
    auto &allowed = signature_.allowed_dtypes[index];
    allowed.clear();
    for (const NamedDtype &known : named_dtypes) {
        if (std::find(listed.begin(), listed.end(), known.packed) != listed.end()) {
            allowed.push_back(known.packed);
        }
    }
}

void SignatureParser::parse_dim_clause() {
    using Kind = Constraint::Kind;
    static constexpr std::array<std::pair<std::string_view, Kind>, 6> operators{{{"<", Kind::less},
                                                                                 {"<=", Kind::less_equal},
                                                                                 {">", Kind::greater},
                                                                                 {">=", Kind::greater_equal},
                                                                                 {"==", Kind::equal},
                                                                                 {"!=", Kind::not_equal}}};
    Constraint constraint{Kind::in, parse_expression(), {}, 0};
    const auto found = std::find_if(operators.begin(), operators.end(), [this](auto &o) { return token_.is(o.first); });
    if (found != operators.end()) {
        constraint.kind = found->second;
    } else if (!token_.is_word("in")) {
        fail_expected("<, <=, >, >=, ==, != or 'in'");
    }
    advance();
    do {
        constraint.right.push_back(parse_expression());
    } while (constraint.kind == Kind::in && accept("|"));

    const auto read = [&constraint](const Expression &expression) {
        for (const Term &term : expression) {
            constraint.dims |= term.kind == Term::Kind::dim ? 1u << term.value : 0;
        }
    };
    read(constraint.left);
    std::for_each(constraint.right.begin(), constraint.right.end(), read);
    signature_.constraints.push_back(std::move(constraint));
}

void SignatureParser::check_dtype_defaults() const {
    for (const AttributeSpec &attribute : signature_.attributes) {
        if (attribute.dtype_variable < 0 || attribute.required) {
            continue;
        }
        const auto index = static_cast<size_t>(attribute.dtype_variable);
        const auto &allowed = signature_.allowed_dtypes[index];
        if (std::find(allowed.begin(), allowed.end(), static_cast<uint32_t>(attribute.integer)) == allowed.end()) {
            lexer_.fail(token_.offset, fmt::format("the default {} of attribute '{}' is not among the dtypes of {}: {}",
                                                   dtype_name(static_cast<uint32_t>(attribute.integer)), attribute.name,
                                                   signature_.dtype_variables[index], print_dtypes(allowed)));
        }
    }
}

} // namespace opdock::core
