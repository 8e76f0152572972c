// The arithmetic of a manifest's limits.
#include <limits>

#include <doctest/doctest.h>

#include "limits.hpp"

using tvm_ffi::holds;
using tvm_ffi::Limit;
using tvm_ffi::Term;

namespace {

constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();

Term number(std::int64_t value) {
    return {Term::Kind::number, value, ""};
}

// True if the left expression equals that number, with n = 7 and k unbound.
bool is(std::vector<Term> left, std::int64_t right) {
    return holds({"", Limit::Kind::equal, std::move(left), {{number(right)}}},
                 [](const std::string &name) { return name == "n" ? 7 : -1; });
}

} // namespace

TEST_CASE("limits compute as signatures do") {
    const Term n = {Term::Kind::dim, 0, "n"};
    CHECK(is({n, number(2), {Term::Kind::multiply, 0, ""}, number(1), {Term::Kind::add, 0, ""}}, 15));
    CHECK(is({n, number(8), {Term::Kind::subtract, 0, ""}, number(2), {Term::Kind::divide, 0, ""}}, -1));
    CHECK(is({n, number(4), {Term::Kind::remainder, 0, ""}}, 3));
    CHECK(is({n, number(8), {Term::Kind::subtract, 0, ""}, number(4), {Term::Kind::remainder, 0, ""}}, 3));
    CHECK(is({n, number(0), {Term::Kind::remainder, 0, ""}}, 7));
    CHECK(is({number(-largest - 1), number(-1), {Term::Kind::remainder, 0, ""}}, 0));
}

TEST_CASE("a limit of an unbound dim holds, and one whose numbers are too large does not") {
    CHECK(is({{Term::Kind::dim, 0, "k"}}, 0));
    CHECK_FALSE(is({number(largest), number(2), {Term::Kind::multiply, 0, ""}}, -2));
    CHECK_FALSE(is({number(largest), number(1), {Term::Kind::add, 0, ""}}, -largest - 1));
}

TEST_CASE("each comparison is what its sign says") {
    const auto holds_for = [](Limit::Kind kind, std::int64_t left) {
        return holds({"", kind, {number(left)}, {{number(5)}, {number(9)}}}, {});
    };
    using Kind = Limit::Kind;
    CHECK(holds_for(Kind::in, 9));
    CHECK_FALSE(holds_for(Kind::in, 7));
    const auto compared = [](Kind kind, std::int64_t left) {
        return holds({"", kind, {number(left)}, {{number(5)}}}, {});
    };
    for (const std::int64_t left : {4, 5, 6}) {
        CHECK(compared(Kind::less, left) == (left < 5));
        CHECK(compared(Kind::less_equal, left) == (left <= 5));
        CHECK(compared(Kind::greater, left) == (left > 5));
        CHECK(compared(Kind::greater_equal, left) == (left >= 5));
        CHECK(compared(Kind::equal, left) == (left == 5));
        CHECK(compared(Kind::not_equal, left) == (left != 5));
    }
}
