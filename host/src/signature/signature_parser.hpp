// Recursive descent parser of signatures: one function for each rule of the grammar in docs/signatures.md.
// signature_parser.cpp implements parameters and dims, signature_parser_attributes.cpp attributes and where clauses.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "signature/signature.hpp"
#include "signature/signature_lexer.hpp"

namespace opdock::core {

class SignatureParser {
  public:
    explicit SignatureParser(std::string_view text) : lexer_(text) {}

    Signature parse();

  private:
    // The names with a value: dims, dtype variables (a bit for each) and `...`.
    struct Bindings {
        uint32_t dims = 0;
        uint32_t dtypes = 0;
        bool ellipsis = false;
    };

    void advance() { token_ = lexer_.next(); }
    [[noreturn]] void fail_expected(std::string_view expected) const;
    void expect(std::string_view symbol, std::string_view where);
    bool accept(std::string_view symbol);
    // Reads the name of a parameter or attribute; names must be unique.
    std::string new_name(std::string_view what);

    void parse_inputs();
    void parse_outputs();
    Parameter parse_parameter(bool is_output);
    void parse_markers(Parameter *parameter, bool is_output);
    void parse_alias(Parameter *parameter);
    void parse_dtype(Parameter *parameter);
    void parse_shape(Parameter *parameter, bool is_output);
    void parse_dim(Parameter *parameter, bool is_output);
    void check_element_dims(const Parameter &parameter, const Token &start);
    void check_alias(const Parameter &output, const Token &start) const;
    void check_bound(const Parameter &output, const Token &start) const;

    Expression parse_expression(size_t nesting = 0);
    void parse_product(Expression *expression, size_t nesting);
    void parse_factor(Expression *expression, size_t nesting);
    void append(Expression *expression, Term term) const;
    uint8_t dim_index();
    uint8_t new_dim();
    void check_counted_dims();

    void parse_attributes();
    AttributeSpec parse_attribute();
    void parse_attribute_type(AttributeSpec *attribute);
    void parse_default(AttributeSpec *attribute);
    int64_t parse_integer();
    double parse_real();
    std::string parse_string();
    void parse_numbers(AttributeSpec *attribute);
    uint32_t parse_dtype_name();

    int dtype_variable(); // index of the current token's variable
    void parse_where();
    void parse_dtype_clause();
    void parse_dim_clause();
    void check_dtype_defaults() const;

    SignatureLexer lexer_;
    Token token_;
    Signature signature_;
    std::vector<std::string> names_;
    // Dims of outputs that nothing before them determines, and their first token.
    std::vector<std::pair<uint8_t, Token>> counted_;
    Bindings sure_;           // bound by a required input or an attribute
    Bindings known_;          // the same, and those bound by optional inputs
    Bindings used_;           // by the parameter being parsed
    uint32_t new_dims_ = 0;   // that first appear in that parameter
    uint32_t own_dims_ = 0;   // that it binds, as far as it has been parsed
    uint32_t restricted_ = 0; // dtype variables with a where clause
    enum class Part { inputs, outputs, clauses };
    Part part_ = Part::inputs;
};

} // namespace opdock::core
