#include "limits.hpp"

#include <algorithm>

namespace tvm_ffi {
namespace {

// As in signatures: division rounds down, and a % 0 is a. Returns false if the result overflows.
bool apply(Term::Kind kind, std::int64_t left, std::int64_t right, std::int64_t &result) {
    switch (kind) {
    case Term::Kind::add:
        return !__builtin_add_overflow(left, right, &result);
    case Term::Kind::subtract:
        return !__builtin_sub_overflow(left, right, &result);
    case Term::Kind::multiply:
        return !__builtin_mul_overflow(left, right, &result);
    case Term::Kind::divide: // by a positive integer, as in signatures
        result = left / right - (left % right < 0 ? 1 : 0);
        return true;
    default: // the remainder
        if (right == 0) {
            result = left;
        } else if (right == -1) { // INT64_MIN / -1 traps
            result = 0;
        } else {
            result = left % right;
            result += result != 0 && (result < 0) != (right < 0) ? right : 0;
        }
        return true;
    }
}

enum class Outcome { value, unbound, too_large };

Outcome evaluate(const std::vector<Term> &terms, const DimOf &dim, std::int64_t &value) {
    std::vector<std::int64_t> stack;
    for (const Term &term : terms) {
        if (term.kind == Term::Kind::number || term.kind == Term::Kind::dim) {
            stack.push_back(term.kind == Term::Kind::number ? term.number : dim(term.dim));
            if (term.kind == Term::Kind::dim && stack.back() < 0) {
                return Outcome::unbound;
            }
            continue;
        }
        const std::int64_t right = stack.back();
        stack.pop_back();
        if (!apply(term.kind, stack.back(), right, stack.back())) {
            return Outcome::too_large;
        }
    }
    value = stack.back();
    return Outcome::value;
}

bool compare(Limit::Kind kind, std::int64_t left, std::int64_t right) {
    switch (kind) {
    case Limit::Kind::less:
        return left < right;
    case Limit::Kind::less_equal:
        return left <= right;
    case Limit::Kind::greater:
        return left > right;
    case Limit::Kind::greater_equal:
        return left >= right;
    case Limit::Kind::not_equal:
        return left != right;
    default:
        return left == right;
    }
}

} // namespace

bool holds(const Limit &limit, const DimOf &dim) {
    std::int64_t left = 0, right = 0;
    const Outcome outcome = evaluate(limit.left, dim, left);
    if (outcome != Outcome::value) {
        return outcome == Outcome::unbound;
    }
    return std::any_of(limit.right.begin(), limit.right.end(), [&](const std::vector<Term> &terms) {
        const Outcome found = evaluate(terms, dim, right);
        return found == Outcome::unbound || (found == Outcome::value && compare(limit.kind, left, right));
    });
}

} // namespace tvm_ffi
