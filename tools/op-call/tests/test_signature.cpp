#include "op-call/signature.hpp"

#include <doctest/doctest.h>

#include "op-call/tests/signatures.hpp"

using namespace opdock::op_call;

TEST_CASE("a parameter's type is written as in the signature") {
    const Signature signature =
        parsed("f(a: T[..., 2*n], host b: i64[], mut c: U[(n+7)/8, 1]*, d: f32[n]?) -> (e ~ a: T[..., 2*n])");
    const auto type_of = [&](size_t input) { return signature.inputs.at(input).type(); };
    CHECK(type_of(0) == "T[..., 2*n]");
    CHECK(type_of(1) == "i64[]");
    CHECK(type_of(2) == "U[(n+7)/8, 1]*");
    CHECK(type_of(3) == "f32[n]?");
    CHECK(signature.outputs.at(0).type() == "T[..., 2*n]");
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
