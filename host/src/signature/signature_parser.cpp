#include "signature/signature_parser.hpp"

#include <algorithm>
#include <bit>
#include <charconv>

#include <fmt/format.h>

#include "signature/dtype.hpp"
#include "signature/other_names.hpp"
#include "text/error.hpp"

namespace opdock::core {

namespace {

constexpr size_t max_nesting = 16;

uint32_t dims_of(const Expression &expression) {
    uint32_t dims = 0;
    for (const Term &term : expression) {
        if (term.kind == Term::Kind::dim) {
            dims |= 1u << term.value;
        }
    }
    return dims;
}

// A single name and `int*name` can be solved; everything else is computed.
Dim classify(Expression expression) {
    using Kind = Term::Kind;
    if (expression.size() == 1) {
        const Term &term = expression.front();
        return term.kind == Kind::number ? Dim{Dim::Kind::number, 0, term.value, {}}
                                         : Dim{Dim::Kind::name, static_cast<uint8_t>(term.value), 0, {}};
    }
    if (expression.size() == 3 && expression[2].kind == Kind::multiply && expression[0].kind != expression[1].kind) {
        const bool number_first = expression[0].kind == Kind::number;
        const Term &number = expression[number_first ? 0 : 1];
        const Term &name = expression[number_first ? 1 : 0];
        if (number.value > 0) {
            return Dim{Dim::Kind::scaled, static_cast<uint8_t>(name.value), number.value, {}};
        }
    }
    return Dim{Dim::Kind::expression, 0, 0, std::move(expression)};
}

bool same_dtype(const Parameter &a, const Parameter &b) {
    return a.dtype_variable == b.dtype_variable && a.dtype == b.dtype;
}

} // namespace

void SignatureParser::fail_expected(std::string_view expected) const {
    lexer_.fail(token_.offset, fmt::format("expected {}, found {}", expected, SignatureLexer::describe(token_)));
}

void SignatureParser::expect(std::string_view symbol, std::string_view where) {
    if (!token_.is(symbol)) {
        fail_expected(fmt::format("'{}' {}", symbol, where));
    }
    advance();
}

bool SignatureParser::accept(std::string_view symbol) {
    const bool here = token_.is(symbol);
    if (here) {
        advance();
    }
    return here;
}

std::string SignatureParser::new_name(std::string_view what) {
    if (token_.kind != Token::Kind::word) {
        fail_expected(fmt::format("the name of an {}", what));
    }
    std::string name(token_.text);
    if (std::find(names_.begin(), names_.end(), name) != names_.end()) {
        lexer_.fail(
            token_.offset,
            fmt::format("the name '{}' is already used; inputs, attributes and outputs must have different names",
                        name));
    }
    names_.push_back(name);
    advance();
    return name;
}

Signature SignatureParser::parse() {
    signature_.name = standard_name(lexer_.op_name().text);
    advance();
    expect("(", "after the op's name");
    parse_inputs();
    expect(")", "or ',' in the list of inputs and attributes");
    expect("->", "and the outputs after ')'");
    expect("(", "before the outputs");
    parse_outputs();
    expect(")", "or ',' in the list of outputs");
    part_ = Part::clauses;
    if (token_.is_word("where")) {
        advance();
        parse_where();
    }
    if (token_.kind != Token::Kind::end) {
        fail_expected("'where' or the end");
    }
    check_dtype_defaults();
    check_counted_dims();
    signature_.text = print_signature(signature_);
    if (signature_.text.size() > max_signature_bytes) { // other hosts read it too and have this limit
        throw Error(OPDOCK_INVALID_ARGUMENT,
                    fmt::format("this signature has {} bytes when it is written with the usual spaces; signatures have "
                                "at most {}",
                                signature_.text.size(), max_signature_bytes));
    }
    return std::move(signature_);
}

void SignatureParser::parse_inputs() {
    if (token_.is(")")) {
        return;
    }
    do {
        if (accept("*")) {
            expect(",", "after '*', which separates attributes from inputs");
            parse_attributes();
            return;
        }
        signature_.inputs.push_back(parse_parameter(false));
    } while (accept(","));
}

void SignatureParser::parse_outputs() {
    part_ = Part::outputs;
    if (token_.is(")")) {
        return;
    }
    do {
        signature_.outputs.push_back(parse_parameter(true));
    } while (accept(","));
}

Parameter SignatureParser::parse_parameter(bool is_output) {
    const Token start = token_;
    if (signature_.n_params() == max_parameters) {
        lexer_.fail(start.offset, fmt::format("an op has at most {} inputs and outputs", max_parameters));
    }
    Parameter parameter;
    used_ = {};
    new_dims_ = own_dims_ = 0;
    parse_markers(&parameter, is_output);
    parameter.name = new_name(is_output ? "output" : "input");
    if (is_output && accept("~")) {
        parse_alias(&parameter);
    }
    expect(":", fmt::format("after '{}'", parameter.name));
    parse_dtype(&parameter);
    expect("[", "and the dims after the dtype");
    parse_shape(&parameter, is_output);
    parameter.list = accept("*");
    parameter.optional = accept("?");

    check_element_dims(parameter, start);
    if (is_output) {
        check_alias(parameter, start);
        check_bound(parameter, start);
    }
    const auto learn = [this](Bindings *bindings) {
        bindings->dims |= own_dims_;
        bindings->dtypes |= used_.dtypes;
        bindings->ellipsis |= used_.ellipsis;
    };
    learn(&known_);
    if (!parameter.optional) {
        learn(&sure_);
    }
    signature_.has_mut |= parameter.mut;
    signature_.n_lists += parameter.list ? 1 : 0;
    return parameter;
}

void SignatureParser::parse_markers(Parameter *parameter, bool is_output) {
    while (token_.is_word("mut") || token_.is_word("host")) {
        bool &marker = token_.is_word("mut") ? parameter->mut : parameter->host;
        if (marker) {
            lexer_.fail(token_.offset, fmt::format("'{}' twice", token_.text));
        }
        if (is_output && token_.is_word("mut")) {
            lexer_.fail(token_.offset, "'mut' marks inputs that the op writes; outputs are always written");
        }
        marker = true;
        advance();
    }
}

void SignatureParser::parse_alias(Parameter *parameter) {
    const auto &inputs = signature_.inputs;
    const auto input =
        std::find_if(inputs.begin(), inputs.end(), [this](const Parameter &p) { return token_.is_word(p.name); });
    if (input == inputs.end()) {
        fail_expected("the name of an input after '~'");
    }
    parameter->alias = static_cast<int>(input - inputs.begin());
    advance();
}

void SignatureParser::parse_dtype(Parameter *parameter) {
    parameter->dtype_variable = dtype_variable();
    if (parameter->dtype_variable >= 0) {
        used_.dtypes |= 1u << parameter->dtype_variable;
        advance();
    } else {
        parameter->dtype = parse_dtype_name();
    }
}

void SignatureParser::parse_shape(Parameter *parameter, bool is_output) {
    if (accept("]")) {
        return;
    }
    do {
        if (token_.is("...")) {
            if (parameter->ellipsis >= 0) {
                lexer_.fail(token_.offset, "'...' may appear at most once in a shape");
            }
            parameter->ellipsis = static_cast<int>(parameter->dims.size());
            used_.ellipsis = true;
            advance();
        } else {
            parse_dim(parameter, is_output);
        }
    } while (accept(","));
    expect("]", "or ',' in a shape");
}

void SignatureParser::parse_dim(Parameter *parameter, bool is_output) {
    const Token start = token_;
    if (parameter->dims.size() == OPDOCK_MAX_RANK) {
        lexer_.fail(start.offset, fmt::format("a tensor has at most {} dims", OPDOCK_MAX_RANK));
    }
    Expression expression = parse_expression();
    const uint32_t dims = dims_of(expression);
    Dim dim = classify(std::move(expression));
    if (dim.kind == Dim::Kind::expression && !is_output) {
        const uint32_t unbound = dims & ~(sure_.dims | own_dims_);
        if (unbound != 0) {
            lexer_.fail(
                start.offset,
                fmt::format("'{0}' is not bound here: a required input before it must have a dim '{0}' or '2*{0}'",
                            signature_.dim_names[static_cast<size_t>(std::countr_zero(unbound))]));
        }
    } else if (!is_output) {
        own_dims_ |= dims;
    }
    used_.dims |= dims;
    parameter->dims.push_back(std::move(dim));
}

// The first appearance of a dim decides whether it is shared or separate for each list element.
void SignatureParser::check_element_dims(const Parameter &parameter, const Token &start) {
    if (parameter.list) {
        if (signature_.n_lists == 0 && part_ == Part::outputs) {
            lexer_.fail(start.offset, "a list of outputs takes its length from a list of inputs; the op has none");
        }
        if (const uint32_t counted = used_.dims & signature_.counted_dims; counted != 0) {
            lexer_.fail(start.offset,
                        fmt::format("'{}' is counted by an output, so it cannot be a dim of a list",
                                    signature_.dim_names[static_cast<size_t>(std::countr_zero(counted))]));
        }
        signature_.element_dims |= new_dims_;
        signature_.element_ellipsis |= used_.ellipsis && !known_.ellipsis;
        return;
    }
    const uint32_t elements = used_.dims & signature_.element_dims;
    if (elements != 0 || (used_.ellipsis && signature_.element_ellipsis)) {
        const std::string name =
            elements != 0 ? signature_.dim_names[static_cast<size_t>(std::countr_zero(elements))] : "...";
        lexer_.fail(start.offset, fmt::format("'{}' differs between the elements of a list; '{}' is not a list", name,
                                              parameter.name));
    }
}

void SignatureParser::check_alias(const Parameter &output, const Token &start) const {
    if (output.alias < 0) {
        return;
    }
    const Parameter &input = signature_.inputs[static_cast<size_t>(output.alias)];
    if (!same_dtype(output, input) || output.dims != input.dims || output.ellipsis != input.ellipsis ||
        output.list != input.list || output.host != input.host) {
        lexer_.fail(start.offset, fmt::format("'{} ~ {}' share memory, so they need the same dtype, dims and markers",
                                              output.name, input.name));
    }
}

// Outputs are inferred from inputs, so every name in them must be bound whenever the output is wanted.
void SignatureParser::check_bound(const Parameter &output, const Token &start) const {
    const Bindings &bound = output.optional ? known_ : sure_;
    std::string name;
    if (const uint32_t dims = used_.dims & ~bound.dims; dims != 0) {
        name = signature_.dim_names[static_cast<size_t>(std::countr_zero(dims))];
    } else if (const uint32_t dtypes = used_.dtypes & ~bound.dtypes; dtypes != 0) {
        name = signature_.dtype_variables[static_cast<size_t>(std::countr_zero(dtypes))];
    } else if (used_.ellipsis && !bound.ellipsis) {
        name = "...";
    } else {
        return;
    }
    lexer_.fail(start.offset, fmt::format("'{}' of output '{}' is bound by no required input{}", name, output.name,
                                          name.size() == 1 && name[0] < 'a' ? " or dtype attribute" : ""));
}

Expression SignatureParser::parse_expression(size_t nesting) {
    if (nesting > max_nesting) {
        lexer_.fail(token_.offset, fmt::format("more than {} nested parentheses", max_nesting));
    }
    Expression expression;
    parse_product(&expression, nesting);
    while (token_.is("+") || token_.is("-")) {
        const auto kind = token_.is("+") ? Term::Kind::add : Term::Kind::subtract;
        advance();
        parse_product(&expression, nesting);
        append(&expression, {kind, 0});
    }
    return expression;
}

void SignatureParser::parse_product(Expression *expression, size_t nesting) {
    parse_factor(expression, nesting);
    while (token_.is("*") || token_.is("/") || token_.is("%")) {
        const auto kind = token_.is("*")   ? Term::Kind::multiply
                          : token_.is("/") ? Term::Kind::divide
                                           : Term::Kind::remainder;
        if (kind == Term::Kind::remainder && part_ != Part::clauses) {
            lexer_.fail(token_.offset, "'%' is for clauses, not for dims");
        }
        advance();
        const Token right = token_;
        parse_factor(expression, nesting);
        if (kind == Term::Kind::divide && (right.kind != Token::Kind::integer || expression->back().value == 0)) {
            lexer_.fail(right.offset, "dims can only be divided by a number of at least 1");
        }
        append(expression, {kind, 0});
    }
}

void SignatureParser::parse_factor(Expression *expression, size_t nesting) {
    if (accept("(")) {
        for (const Term &term : parse_expression(nesting + 1)) {
            append(expression, term);
        }
        expect(")", "in an expression");
    } else if (token_.kind == Token::Kind::integer) {
        append(expression, {Term::Kind::number, parse_integer()});
    } else {
        append(expression, {Term::Kind::dim, dim_index()});
    }
}

void SignatureParser::append(Expression *expression, Term term) const {
    if (expression->size() == max_expression_terms) {
        lexer_.fail(token_.offset,
                    fmt::format("an expression has at most {} numbers, names and operators", max_expression_terms));
    }
    expression->push_back(term);
}

uint8_t SignatureParser::dim_index() {
    if (token_.kind != Token::Kind::word || token_.text[0] < 'a' || token_.text[0] > 'z') {
        fail_expected("a dim: a name in lower case, a number, an expression, or '...'");
    }
    const auto &names = signature_.dim_names;
    const auto known = std::find(names.begin(), names.end(), token_.text);
    const auto index = known != names.end() ? static_cast<uint8_t>(known - names.begin()) : new_dim();
    advance();
    return index;
}

// Dims come from inputs; after the inputs, from an int attribute with this name or from an output that counts them.
uint8_t SignatureParser::new_dim() {
    auto &names = signature_.dim_names;
    const auto index = static_cast<uint8_t>(names.size());
    auto &attributes = signature_.attributes;
    const auto attribute = std::find_if(attributes.begin(), attributes.end(), [this](const AttributeSpec &one) {
        return one.type == OPDOCK_VALUE_INT && token_.is_word(one.name);
    });
    if (part_ == Part::clauses && attribute == attributes.end()) {
        lexer_.fail(
            token_.offset,
            fmt::format("no input or output has a dim '{0}', and no int attribute is named '{0}'", token_.text));
    }
    if (names.size() == max_dims) {
        lexer_.fail(token_.offset, fmt::format("a signature has at most {} different dims", max_dims));
    }
    names.emplace_back(token_.text);
    if (part_ == Part::inputs) {
        new_dims_ |= 1u << index;
        return index;
    }
    if (attribute != attributes.end()) {
        if (attribute->optional) {
            lexer_.fail(token_.offset,
                        fmt::format("'{0}' is optional, but a dim must always be present", attribute->name));
        }
        attribute->dim = index;
    } else {
        counted_.emplace_back(index, token_);
        signature_.counted_dims |= 1u << index;
    }
    sure_.dims |= 1u << index;
    known_.dims |= 1u << index;
    return index;
}

// Each needs an output of its name that counts it, and a clause that limits its size.
void SignatureParser::check_counted_dims() {
    for (const auto &[index, token] : counted_) {
        auto &outputs = signature_.outputs;
        const auto output = std::find_if(outputs.begin(), outputs.end(), [&name = token](const Parameter &one) {
            return name.is_word(one.name) && one.dtype_variable < 0 && one.dtype == OPDOCK_I64 && one.dims.empty() &&
                   one.ellipsis < 0 && !one.list && !one.optional;
        });
        if (output == outputs.end()) {
            lexer_.fail(token.offset, fmt::format("no input has a dim '{0}', no int attribute is named '{0}', and no "
                                                  "output '{0}: i64[]' counts it",
                                                  token.text));
        }
        output->counts = index;
        const uint32_t given = sure_.dims & ~signature_.counted_dims & ~signature_.element_dims;
        const auto bounds = [dim = index, given](const Constraint &clause) {
            return clause.kind == Constraint::Kind::less_equal && clause.left == Expression{{Term::Kind::dim, dim}} &&
                   (dims_of(clause.right.front()) & ~given) == 0;
        };
        if (std::none_of(signature_.constraints.begin(), signature_.constraints.end(), bounds)) {
            lexer_.fail(token.offset, fmt::format("the output '{0}' counts the dim '{0}', which needs a clause '{0} <= "
                                                  "...' that limits it by dims of required inputs and attributes",
                                                  token.text));
        }
    }
}

Signature parse_signature(std::string_view text) {
    if (text.size() > max_signature_bytes) {
        throw Error(OPDOCK_INVALID_ARGUMENT, fmt::format("this signature has {} bytes; signatures have at most {}",
                                                         text.size(), max_signature_bytes));
    }
    return SignatureParser(text).parse();
}

} // namespace opdock::core
