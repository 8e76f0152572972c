// A parsed signature: an op's parameters and attributes. docs/signatures.md has the grammar and its meaning.
//
// The parser does all work that can be done once: dims and dtype variables become small integers, so that validating a
// call compares integers and looks up no names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "opdock/abi/value.h"
#include "opdock/opdock.h"

namespace opdock::core {

inline constexpr size_t max_signature_bytes = 4096;
inline constexpr size_t max_name_bytes = 128;
inline constexpr size_t max_parameters = 64; // inputs and outputs together; attributes have the same limit
inline constexpr size_t max_dims = 32;       // distinct dim names of one signature
inline constexpr size_t max_dtype_variables = 8;
inline constexpr size_t max_expression_terms = 31;

// Arithmetic on dims in postfix order: (n+7)/8 is n 7 + 8 /.
struct Term {
    enum class Kind : uint8_t { number, dim, add, subtract, multiply, divide, remainder };
    Kind kind;
    int64_t value; // the number, or the index of the dim; 0 for operators
    bool operator==(const Term &) const = default;
};
using Expression = std::vector<Term>;

struct Dim {
    enum class Kind : uint8_t {
        number,     // 1: `number`
        name,       // n: the first appearance binds `index`, all others must match
        scaled,     // 2*n: `number` * `index`, binds as well
        expression, // (n+7)/8: checked or computed, never solved
    };
    Kind kind;
    uint8_t index = 0;
    int64_t number = 0;
    Expression expression;
    bool operator==(const Dim &) const = default;
};

struct Parameter {
    std::string name;
    bool mut = false;  // an input that the op writes
    bool host = false; // lives in host memory, whatever the op's device
    bool list = false;
    bool optional = false;
    int alias = -1; // output ~ input: index of the input
    // Index of the dtype variable; -1 for the fixed type `dtype`.
    int dtype_variable = -1;
    uint32_t dtype = 0;
    std::vector<Dim> dims; // without the ellipsis
    int ellipsis = -1;     // number of `dims` before `...`; -1 without an ellipsis
    int counts = -1;       // for an output that counts the filled part of a dim of other outputs: index of the dim
    bool operator==(const Parameter &) const = default;
};

// "int", "float[]", ... as spelled in signatures; "" for an unknown type.
std::string_view value_type_name(uint32_t type);

struct AttributeSpec {
    std::string name;
    uint32_t type = OPDOCK_VALUE_NONE; // OPDOCK_VALUE_INT and so on, never NONE
    bool required = true;
    bool optional = false;   // neither required nor with a default: absent unless given
    int dtype_variable = -1; // the variable that a dtype attribute binds, if any
    int dim = -1;            // the dim that an int attribute binds by its name, if any
    // The default value: the member for `type` is valid.
    int64_t integer = 0; // int, bool and dtype
    double number = 0;
    std::string text;
    std::vector<int64_t> integers;
    std::vector<double> numbers; // a list of strings can only have the empty default

    // The default as a value that borrows from this object.
    opdock_value default_value() const;
    // "int", "float[]", ... as spelled in signatures; "dtype" whether or not it binds a variable.
    std::string_view type_name() const { return value_type_name(type); }
    bool operator==(const AttributeSpec &) const = default;
};

// A where clause about dims: left OP right, or left in a|b|c. Clauses about dtypes are in `allowed_dtypes`.
struct Constraint {
    enum class Kind : uint8_t { less, less_equal, greater, greater_equal, equal, not_equal, in };
    Kind kind;
    Expression left;
    std::vector<Expression> right; // exactly one, except for `in`
    uint32_t dims = 0;             // a bit for each dim that it reads
    bool operator==(const Constraint &) const = default;
};

struct Signature {
    std::string name;
    std::vector<std::string> dtype_variables;          // in order of first appearance
    std::vector<std::vector<uint32_t>> allowed_dtypes; // for each variable, packed
    std::vector<std::string> dim_names;                // in order of first appearance
    // A bit for each dim that first appears in a list: each list element has its own value. The same for `...`.
    uint32_t element_dims = 0;
    bool element_ellipsis = false;
    // A bit for each dim that an output counts: the caller chooses its size.
    uint32_t counted_dims = 0;
    std::vector<Parameter> inputs;
    std::vector<Parameter> outputs;
    std::vector<AttributeSpec> attributes;
    std::vector<Constraint> constraints;
    std::string text; // canonical

    size_t n_params() const { return inputs.size() + outputs.size(); }
    const Parameter &parameter(size_t i) const { return i < inputs.size() ? inputs[i] : outputs[i - inputs.size()]; }
    bool writes_inputs() const { return has_mut; } // `mut`; overlap of `~` is known only per call
    bool has_lists() const { return n_lists != 0; }

    bool has_mut = false;
    size_t n_lists = 0;

    bool operator==(const Signature &) const = default;
};

// Throws Error(OPDOCK_INVALID_ARGUMENT) with the column, what was expected and what was found.
Signature parse_signature(std::string_view text);

// The canonical spelling, which parses to the same signature.
std::string print_signature(const Signature &signature);
std::string print_parameter(const Signature &signature, const Parameter &parameter);
std::string print_dtype(const Signature &signature, const Parameter &parameter); // "T" or "f32"
// Dtype combinations that the signature allows, in its order: all, or the first 4,096.
inline constexpr size_t max_tuples = 4096;
std::vector<std::vector<uint32_t>> all_tuples(const Signature &signature);
size_t number_of_tuples(const Signature &signature); // size of all_tuples()

std::string print_attribute(const Signature &signature, const AttributeSpec &attribute);
std::vector<std::string> print_dims(const Signature &signature, const Parameter &parameter); // "...", "n"
std::string print_shape(const Signature &signature, const Parameter &parameter);             // "[..., n]"
std::string print_dim(const Signature &signature, const Dim &dim);
std::string print_expression(const Signature &signature, const Expression &expression);
std::string print_constraint(const Signature &signature, const Constraint &constraint);
std::string_view print_operator(Constraint::Kind kind);        // "<=", "in"
std::string print_dtypes(const std::vector<uint32_t> &dtypes); // "f32|bf16"

enum class Compatibility { same, extends, extended_by, conflict };

// Compatibility of two declarations of one op: `extends` if `a` only appends attributes with defaults or optional
// parameters to `b`, `same` if neither appends any. Names of dims and dtype variables do not matter. Either one may
// allow more dtypes for a variable, whichever is longer. On conflict, *why describes the difference.
Compatibility compare(const Signature &a, const Signature &b, std::string *why);

} // namespace opdock::core
