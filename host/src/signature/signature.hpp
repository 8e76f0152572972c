// A parsed signature: what an op takes and gives. docs/signatures.md has the grammar and what it means.
//
// Parsing does all that can be done once: dims and dtype variables become small numbers, so that validating a call
// compares integers and looks nothing up by name.
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
inline constexpr size_t max_dims = 32;       // different dim names of one signature
inline constexpr size_t max_dtype_variables = 8;
inline constexpr size_t max_expression_terms = 31;

// Arithmetic on dims in postfix order: (n+7)/8 is n 7 + 8 /.
struct Term {
    enum class Kind : uint8_t { number, dim, add, subtract, multiply, divide, remainder };
    Kind kind;
    int64_t value; // the number, or which dim; 0 for operators
    bool operator==(const Term &) const = default;
};
using Expression = std::vector<Term>;

struct Dim {
    enum class Kind : uint8_t {
        number,     // 1: `number`
        name,       // n: the first to appear binds `index`, the others must agree
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
    int alias = -1; // output ~ input: which input
    // Which dtype variable; -1 for the fixed type `dtype`.
    int dtype_variable = -1;
    uint32_t dtype = 0;
    std::vector<Dim> dims; // without the ellipsis
    int ellipsis = -1;     // how many of `dims` come before `...`; -1 without one
    int counts = -1;       // an output that tells how much of a dim of others it has filled: which dim
    bool operator==(const Parameter &) const = default;
};

// "int", "float[]", ... as signatures spell a type of attributes; "" for a number that is none.
std::string_view value_type_name(uint32_t type);

struct AttributeSpec {
    std::string name;
    uint32_t type = OPDOCK_VALUE_NONE; // OPDOCK_VALUE_INT and so on, never NONE
    bool required = true;
    bool optional = false;   // not required and without a default: absent, where nobody gives it
    int dtype_variable = -1; // a dtype attribute may bind a variable
    int dim = -1;            // an int attribute whose name stands as a dim binds that
    // The default: the one that `type` says.
    int64_t integer = 0; // int, bool and dtype
    double number = 0;
    std::string text;
    std::vector<int64_t> integers;
    std::vector<double> numbers; // a list of strings has no default but the empty one

    // The default as a value that borrows from this object.
    opdock_value default_value() const;
    // "int", "float[]", ... as signatures spell it; "dtype" whether or not it binds a variable.
    std::string_view type_name() const { return value_type_name(type); }
    bool operator==(const AttributeSpec &) const = default;
};

// A where clause about dims: left OP right, or left in a|b|c. Clauses about dtypes are `allowed_dtypes`.
struct Constraint {
    enum class Kind : uint8_t { less, less_equal, greater, greater_equal, equal, not_equal, in };
    Kind kind;
    Expression left;
    std::vector<Expression> right; // one, but for `in`
    uint32_t dims = 0;             // a bit for each dim that it reads
    bool operator==(const Constraint &) const = default;
};

struct Signature {
    std::string name;
    std::vector<std::string> dtype_variables;          // in order of first appearance
    std::vector<std::vector<uint32_t>> allowed_dtypes; // of each variable, packed
    std::vector<std::string> dim_names;                // in order of first appearance
    // Dims that first appear in a list: each element of the lists has its own. A bit for each dim; `...` likewise.
    uint32_t element_dims = 0;
    bool element_ellipsis = false;
    // Dims that an output counts: the caller chooses how many there may be. A bit for each.
    uint32_t counted_dims = 0;
    std::vector<Parameter> inputs;
    std::vector<Parameter> outputs;
    std::vector<AttributeSpec> attributes;
    std::vector<Constraint> constraints;
    std::string text; // canonical

    size_t n_params() const { return inputs.size() + outputs.size(); }
    const Parameter &parameter(size_t i) const { return i < inputs.size() ? inputs[i] : outputs[i - inputs.size()]; }
    bool writes_inputs() const { return has_mut; } // `mut`; an overlapping `~` is known per call only
    bool has_lists() const { return n_lists != 0; }

    bool has_mut = false;
    size_t n_lists = 0;

    bool operator==(const Signature &) const = default;
};

// Throws Error(OPDOCK_INVALID_ARGUMENT) that names the column, what was expected and what stands there.
Signature parse_signature(std::string_view text);

// The signature in one canonical spelling, which parses to the same signature.
std::string print_signature(const Signature &signature);
std::string print_parameter(const Signature &signature, const Parameter &parameter);
std::string print_dtype(const Signature &signature, const Parameter &parameter); // "T" or "f32"
// Combinations of dtypes that the signature allows, in the order in which it lists them: all, or the first 4,096.
inline constexpr size_t max_tuples = 4096;
std::vector<std::vector<uint32_t>> all_tuples(const Signature &signature);
size_t number_of_tuples(const Signature &signature); // that all_tuples gives

std::string print_attribute(const Signature &signature, const AttributeSpec &attribute);
std::vector<std::string> print_dims(const Signature &signature, const Parameter &parameter); // "...", "n"
std::string print_shape(const Signature &signature, const Parameter &parameter);             // "[..., n]"
std::string print_dim(const Signature &signature, const Dim &dim);
std::string print_expression(const Signature &signature, const Expression &expression);
std::string print_constraint(const Signature &signature, const Constraint &constraint);
std::string_view print_operator(Constraint::Kind kind);        // "<=", "in"
std::string print_dtypes(const std::vector<uint32_t> &dtypes); // "f32|bf16"

enum class Compatibility { same, extends, extended_by, conflict };

// Whether two declarations of one op go together: `extends` when `a` only appends attributes with defaults or optional
// parameters to `b`, `same` when neither appends any. What dims and dtype variables are called does not matter. Either
// may allow a variable more dtypes than the other, whichever is longer. On conflict, *why says what differs.
Compatibility compare(const Signature &a, const Signature &b, std::string *why);

} // namespace opdock::core
