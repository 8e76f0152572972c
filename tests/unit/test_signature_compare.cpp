#include <doctest/doctest.h>

#include <string>

#include "signature/signature.hpp"
#include "standard_signatures.hpp"

using namespace opdock;
using namespace opdock::core;
using opdock::OpDeclaration;

namespace {

Compatibility compare_texts(std::string_view a, std::string_view b, std::string *why = nullptr) {
    return compare(parse_signature(a), parse_signature(b), why);
}

std::string conflict(std::string_view a, std::string_view b) {
    std::string why = "no conflict";
    const bool conflicts = compare_texts(a, b, &why) == Compatibility::conflict;
    CHECK((why != "no conflict") == conflicts);
    // The order of the two makes no difference.
    CHECK((compare_texts(b, a) == Compatibility::conflict) == conflicts);
    return why;
}

} // namespace

TEST_CASE("a declaration is compatible with itself, and standard ops conflict with each other") {
    for (const OpDeclaration &a : test::standard_ops) {
        for (const OpDeclaration &b : test::standard_ops) {
            CAPTURE(std::string(a.signature));
            CAPTURE(std::string(b.signature));
            CHECK(compare_texts(a.signature, b.signature) ==
                  (a.name == b.name ? Compatibility::same : Compatibility::conflict));
        }
    }
}

TEST_CASE("spelling, names of dims and names of dtype variables make no difference") {
    CHECK(compare_texts("f(x: T[n, m]) -> (y: T[2*n]) where m >= n, m in 1|n",
                        "f( x:U[a,b] )->( y:U[a*2] ) where b in 1|a, b >= a") == Compatibility::same);
    CHECK(compare_texts("f(x: T[n]) -> () where T in e4m3|e5m2", "f(x: T[n]) -> () where T in e5m2|e4m3") ==
          Compatibility::same);
    CHECK(compare_texts("f(*, k: int, m: int) -> () where k <= 4, m <= 8",
                        "f(*, k: int, m: int) -> () where m <= 8, k <= 4") == Compatibility::same);
}

TEST_CASE("appending attributes with defaults extends a signature") {
    const char *shorter = "f(x: T[n], *, eps: float = 1e-5) -> (y: T[n])";
    const char *longer = "f(x: T[n], *, eps: float = 1e-5, exact: bool = false) -> (y: T[n])";
    CHECK(compare_texts(longer, shorter) == Compatibility::extends);
    CHECK(compare_texts(shorter, longer) == Compatibility::extended_by);
    CHECK(compare_texts("f(x: T[n], *, eps: float = 1e-5) -> ()", "f(x: T[n]) -> ()") == Compatibility::extends);
}

TEST_CASE("appending optional inputs and outputs extends a signature") {
    CHECK(compare_texts("f(x: T[n], b: U[n]?) -> (y: T[n], s: f32[n]?)", "f(x: T[n]) -> (y: T[n])") ==
          Compatibility::extends);
    CHECK(compare_texts("f(xs: T[n]*) -> ()", "f(xs: T[n]*, ys: T[n]*?) -> ()") == Compatibility::extended_by);
}

TEST_CASE("an attribute that becomes a dim of appended outputs extends a signature, and limited is a conflict") {
    const char *shorter = "f(x: T[n], *, k: int) -> (y: T[n])";
    CHECK(compare_texts(shorter, "f(x: T[n], *, k: int) -> (y: T[n], z: T[k]?)") == Compatibility::extended_by);
    CHECK(conflict(shorter, "f(x: T[n], *, k: int) -> (y: T[n], z: T[k]?) where k <= n") ==
          "'where k <= n' is only in one of them");
    CHECK(conflict("f(x: T[n]) -> (y: T[n])", "f(x: T[n], *, k: int = 1) -> (y: T[n]) where k <= n") ==
          "'where k <= n' is only in one of them");
    CHECK(conflict("f(x: T[n], *, k: int, m: int) -> (y: T[k])", "f(x: T[n], *, k: int, m: int) -> (y: T[m])") ==
          "attribute 'k: int' is a dim in one of them only");
    // The dim of the appended input comes before the attribute's.
    CHECK(compare_texts("f(x: T[n], *, k: int) -> (y: T[2*k], z: T[n+k]) where k <= n, k in 1|n",
                        "f(x: T[a], b: T[c]?, *, k: int) -> (y: T[2*k], z: T[a+k]) where k <= a, k in 1|a, c > k") ==
          Compatibility::extended_by);
}

TEST_CASE("a counted dim is the same one behind an appended input, and needs the same bound") {
    const char *shorter = "f(x: T[n]) -> (y: T[m, n], m: i64[]) where m <= n";
    CHECK(compare_texts(shorter, "f(x: T[a], b: T[c]?) -> (y: T[d, a], m: i64[], d: i64[]) where d <= a") ==
          Compatibility::conflict);
    CHECK(compare_texts(shorter, "f(x: T[a], b: T[c]?) -> (y: T[m, a], m: i64[]) where m <= a") ==
          Compatibility::extended_by);
    CHECK(compare_texts(shorter, "f(x: T[n]) -> (y: T[m, n], m: i64[], z: T[m]?) where m <= n") ==
          Compatibility::extended_by);
    CHECK(conflict(shorter, "f(x: T[n]) -> (y: T[m, n], m: i64[]) where m <= n, m <= 4") ==
          "'where m <= 4' is only in one of them");
}

TEST_CASE("appending what a call must give is a conflict") {
    CHECK(conflict("f(x: T[n]) -> ()", "f(x: T[n], b: T[n]) -> ()") ==
          "input 'b: T[n]' is only in one of them and not optional");
    CHECK(conflict("f(x: T[n]) -> ()", "f(x: T[n]) -> (y: T[n])") ==
          "output 'y: T[n]' is only in one of them and not optional");
    CHECK(conflict("f(x: T[n]) -> ()", "f(x: T[n], *, p: float) -> ()") ==
          "attribute 'p: float' is only in one of them and has no default");
}

TEST_CASE("two declarations that each append something conflict") {
    CHECK(conflict("f(x: T[n], b: T[n]?) -> ()", "f(x: T[n], *, p: float = 0.0) -> ()") ==
          "each has a parameter or an attribute that the other lacks");
}

TEST_CASE("any difference in a shared parameter is a conflict that shows both") {
    const char *plain = "f(x: T[n], b: T[n]) -> ()";
    for (const char *other : {"b: U[n]", "b: f32[n]", "b: T[n]?", "b: T[n]*", "b: T[n, 1]", "b: T[..., n]", "b: T[m]",
                              "b: T[2*n]", "mut b: T[n]", "host b: T[n]", "c: T[n]"}) {
        CAPTURE(other);
        CHECK(conflict(plain, std::string("f(x: T[n], ") + other + ") -> ()") ==
              std::string("input 2 is 'b: T[n]' in one and '") + other + "' in the other");
    }
    CHECK(conflict("f(x: T[n]) -> (y ~ x: T[n])", "f(x: T[n]) -> (y: T[n])") ==
          "output 1 is 'y ~ x: T[n]' in one and 'y: T[n]' in the other");
}

TEST_CASE("any difference in a shared attribute is a conflict that shows both") {
    for (const char *other : {"eps: float = 1e-6", "eps: float", "epsilon: float = 1e-5", "eps: int = 1"}) {
        CAPTURE(other);
        CHECK(conflict("f(*, eps: float = 1e-5) -> ()", std::string("f(*, ") + other + ") -> ()") ==
              std::string("attribute 1 is 'eps: float = 1e-5' in one and '") + other + "' in the other");
    }
}

TEST_CASE("two sets of dtypes for one variable that have one in common are compatible, whichever form is longer") {
    const char *usual = "f(x: T[n]) -> ()";
    for (const char *clause : {"T in f32", "T in f32|f16", "T in f32|f16|bf16|e4m3", "T in f32|e4m3"}) {
        CAPTURE(clause);
        CHECK(compare_texts(std::string("f(x: T[n]) -> () where ") + clause, usual) == Compatibility::same);
        CHECK(compare_texts(usual, std::string("f(x: T[n]) -> () where ") + clause) == Compatibility::same);
        CHECK(compare_texts(std::string("f(x: T[n], *, p: float = 0.0) -> () where ") + clause, usual) ==
              Compatibility::extends);
        CHECK(compare_texts("f(x: T[n], *, p: float = 0.0) -> ()", std::string("f(x: T[n]) -> () where ") + clause) ==
              Compatibility::extends);
    }
    // Each variable is compared by itself.
    CHECK(compare_texts("f(x: T[n], w: U[n]) -> () where T in f32, U in f32|f16",
                        "f(x: T[n], w: U[n]) -> () where T in f32|f16, U in f16") == Compatibility::same);
}

TEST_CASE("two sets of dtypes that have none in common are a conflict") {
    CHECK(conflict("f(x: T[n]) -> ()", "f(x: T[n]) -> () where T in e4m3|e5m2") ==
          "T stands for f32|f16|bf16 in one and e4m3|e5m2 in the other, which have none in common");
    CHECK(conflict("f(x: T[n], w: U[n]) -> () where U in f32",
                   "f(x: A[n], w: B[n], *, p: float = 0.0) -> () where A in f32, B in f16") ==
          "B stands for f32 in one and f16 in the other, which have none in common");
    CHECK(conflict("f(x: f32[n]) -> ()", "f(x: T[n]) -> () where T in f32") ==
          "input 1 is 'x: f32[n]' in one and 'x: T[n]' in the other");
}

TEST_CASE("where clauses about dims of the shared part must agree") {
    CHECK(conflict("f(x: T[m, s]) -> ()", "f(x: T[m, s]) -> () where m >= s") ==
          "'where m >= s' is only in one of them");
    CHECK(conflict("f(x: T[m, s]) -> () where m > s", "f(x: T[m, s]) -> () where m >= s") ==
          "'where m >= s' is only in one of them");
}

TEST_CASE("a clause about appended dims takes nothing from the shorter form") {
    CHECK(compare_texts("f(x: T[n], r: f32[m]?) -> () where m >= n", "f(x: T[n]) -> ()") == Compatibility::extends);
    CHECK(conflict("f(x: T[n], r: f32[m]?) -> () where n > 1", "f(x: T[n]) -> ()") ==
          "'where n > 1' is only in one of them");
}

TEST_CASE("an appended input may not move a dtype variable, because implementations list dtypes in order") {
    CHECK(conflict("f(x: F[n], b: U[n]?, *, to: T) -> ()", "f(x: F[n], *, to: T) -> ()") ==
          "the dtype variable of attribute 'to: T' is not at the same place in the order of first appearance");
}
