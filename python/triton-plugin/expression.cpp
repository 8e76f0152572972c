#include "expression.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <stdexcept>

#include "opdock/plugin.hpp"

namespace opdock::triton {
namespace {

constexpr double largest = 9007199254740992; // 2^53, as in the host's expressions

double next_pow2(double x) {
    return std::isnan(x) ? x
           : x <= 1      ? 1
           : x > largest ? HUGE_VAL
                         : static_cast<double>(std::bit_ceil(static_cast<std::uint64_t>(std::ceil(x))));
}

double prev_pow2(double x) {
    return std::isnan(x) ? x
           : x < 2       ? 1
           : x > largest ? HUGE_VAL
                         : static_cast<double>(std::bit_floor(static_cast<std::uint64_t>(x)));
}

[[noreturn]] void malformed() {
    throw std::logic_error("an expression of the plugin is damaged");
}

class Stack {
  public:
    void push(double value) {
        if (size_ == values_.size()) {
            malformed();
        }
        values_[size_++] = value;
    }
    double pop() {
        if (size_ == 0) {
            malformed();
        }
        return values_[--size_];
    }

  private:
    std::array<double, 128> values_ = {};
    std::size_t size_ = 0;
};

double of_one(Operation operation, double a) {
    switch (operation) {
    case Operation::negate:
        return -a;
    case Operation::truth:
        return a != 0 ? 1 : 0;
    case Operation::absolute:
        return std::fabs(a);
    case Operation::floor:
        return std::floor(a);
    case Operation::ceil:
        return std::ceil(a);
    case Operation::log2:
        return std::log2(a);
    case Operation::sqrt:
        return std::sqrt(a);
    case Operation::next_pow2:
        return next_pow2(a);
    case Operation::prev_pow2:
        return prev_pow2(a);
    default:
        malformed();
    }
}

bool takes_one(Operation operation) {
    return operation == Operation::negate || operation == Operation::truth ||
           (operation >= Operation::absolute && operation <= Operation::prev_pow2);
}

double of_two(Operation operation, double a, double b) {
    switch (operation) {
    case Operation::add:
        return a + b;
    case Operation::subtract:
        return a - b;
    case Operation::multiply:
        return a * b;
    case Operation::divide:
        return a / b;
    case Operation::remainder:
        return std::fmod(a, b);
    case Operation::power:
        return std::pow(a, b);
    case Operation::less:
        return a < b ? 1 : 0;
    case Operation::less_equal:
        return a <= b ? 1 : 0;
    case Operation::greater:
        return a > b ? 1 : 0;
    case Operation::greater_equal:
        return a >= b ? 1 : 0;
    case Operation::equal:
        return a == b ? 1 : 0;
    case Operation::not_equal:
        return a != b ? 1 : 0;
    case Operation::minimum:
        return std::fmin(a, b);
    case Operation::maximum:
        return std::fmax(a, b);
    case Operation::ceil_div:
        return std::ceil(a / b);
    case Operation::round_up:
        return std::ceil(a / b) * b;
    default:
        malformed();
    }
}

std::size_t place(double value, std::size_t size) {
    if (!(value >= 0) || value >= static_cast<double>(size)) {
        malformed();
    }
    return static_cast<std::size_t>(value);
}

} // namespace

double evaluate(const Expression &expression, std::span<const double> variables) {
    Stack stack;
    const std::vector<Step> &steps = expression.steps;
    for (std::size_t at = 0; at < steps.size(); ++at) {
        const Step &step = steps[at];
        switch (step.operation) {
        case Operation::constant:
            stack.push(step.value);
            break;
        case Operation::variable:
            stack.push(variables[place(step.value, variables.size())]);
            break;
        case Operation::jump_if_zero:
            if (stack.pop() != 0) {
                break;
            }
            [[fallthrough]];
        case Operation::jump: { // only forward, so that every expression terminates
            const std::size_t next = place(step.value, steps.size() + 1);
            if (next <= at) {
                malformed();
            }
            at = next - 1;
            break;
        }
        default:
            if (takes_one(step.operation)) {
                stack.push(of_one(step.operation, stack.pop()));
            } else {
                const double b = stack.pop();
                stack.push(of_two(step.operation, stack.pop(), b));
            }
        }
    }
    return stack.pop();
}

std::int64_t evaluate_integer(const Expression &expression, std::span<const double> variables) {
    const double value = std::floor(evaluate(expression, variables));
    if (!(std::fabs(value) < 9.2e18)) {
        throw Failure(OPDOCK_UNSUPPORTED, "'" + expression.text + "' is not a 64-bit integer for this call");
    }
    return static_cast<std::int64_t>(value);
}

} // namespace opdock::triton
