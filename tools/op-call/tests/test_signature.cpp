#include "op-call/signature.hpp"

#include <doctest/doctest.h>

#include "op-call/tests/signatures.hpp"

using namespace opdock::op_call;

TEST_CASE("the type of a parameter is found in the text") {
    CHECK(type_in("f(a: T[2*n], bb: U[(n+7)/8, m], mut b: i32[1]?) -> (c: T[n])", "b") == "i32[1]?");
    CHECK(type_in("f(a: T[2*n], bb: U[(n+7)/8, m], mut b: i32[1]?)", "bb") == "U[(n+7)/8, m]");
    CHECK(type_in("-> (output ~ input: T[...])", "output") == "T[...]");
    CHECK(type_in("-> (output ~ input: T[...])", "input").empty());
    CHECK(type_in("f(host a: T[n], mut host b: i32[1])", "a") == "T[n]");
    CHECK(type_in("f(host a: T[n], mut host b: i32[1])", "b") == "i32[1]");
    CHECK(type_in("f() -> ()", "x").empty());
    CHECK(type_in("", "x").empty());
}

TEST_CASE("the expected arguments are listed and the missing ones marked") {
    CHECK(expected_arguments(rmsnorm(), {"weight"}, sources_spelling) ==
          "  rmsnorm_fwd(input: T[..., n], weight: U[n], *, eps: float = 1e-5,\n"
          "      zero_centered_gamma: bool = false) -> (output: T[..., n],\n"
          "      rsigma: f32[...]?)\n"
          "    --in input=SOURCE                T[..., n]\n"
          "  > --in weight=SOURCE               U[n]  (missing)\n"
          "    --attr eps=FLOAT                 default 1e-05\n"
          "    --attr zero_centered_gamma=BOOL  default false\n"
          "    --output output[=FILE]           T[..., n]\n"
          "    --output rsigma[=FILE]           f32[...]?, optional");
}

TEST_CASE("lists, written inputs and required attributes are told apart") {
    const std::string text = expected_arguments(sgd(), {}, sources_spelling);
    CHECK(text.find("--in params=SOURCE     U[n]*, once for each tensor, written\n") != std::string::npos);
    CHECK(text.find("--attr momentum=FLOAT  required") != std::string::npos);
}
