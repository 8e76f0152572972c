// Expressions of docs/tuning.md, as opdock/triton/_expression.py compiles them: instructions of a stack machine.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace opdock::triton {

// Numbered as in _expression.py.
enum class Operation : std::uint8_t {
    constant,
    variable,
    negate,
    add,
    subtract,
    multiply,
    divide,
    remainder,
    power,
    less,
    less_equal,
    greater,
    greater_equal,
    equal,
    not_equal,
    jump_if_zero, // pops the value; `value` is the next step
    jump,
    truth, // 0 or 1
    minimum,
    maximum,
    absolute,
    floor,
    ceil,
    log2,
    sqrt,
    next_pow2,
    prev_pow2,
    ceil_div,
    round_up,
    end
};

struct Step {
    Operation operation;
    double value; // a constant, a variable's number, or a step's
};

struct Expression {
    std::string text; // for messages
    std::vector<Step> steps;

    bool empty() const { return steps.empty(); }
};

// Throws std::logic_error for steps that do not form an expression.
double evaluate(const Expression &expression, std::span<const double> variables);

// The same, rounded down. Throws a Failure (UNSUPPORTED) if the result does not fit a 64-bit integer.
std::int64_t evaluate_integer(const Expression &expression, std::span<const double> variables);

} // namespace opdock::triton
