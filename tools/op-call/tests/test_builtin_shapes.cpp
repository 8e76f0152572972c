#include "op-call/builtin_shapes.hpp"

#include <doctest/doctest.h>

#include "op-call/tests/signatures.hpp"

using namespace opdock::op_call;

TEST_CASE("the last dim has its size and the others share the rest") {
    const auto call = builtin_call(rmsnorm(), "bf16,f32", builtin_sizes[1], false);
    REQUIRE(call);
    REQUIRE(call->inputs.size() == 2);
    CHECK(call->inputs[0].name == "input");
    CHECK(call->inputs[0].text == "bf16[256,1024]");
    CHECK(call->inputs[1].text == "f32[1024]");
    CHECK(call->attributes.empty()); // all of them have a default
}

TEST_CASE("all dims can be alike, for ops that want them to agree") {
    const auto call = builtin_call(rmsnorm(), "f32,f32", builtin_sizes[0], true);
    REQUIRE(call);
    CHECK(call->inputs[0].text == "f32[128,128]");
    CHECK(call->inputs[1].text == "f32[128]");
}

TEST_CASE("lists have two tensors, optional inputs are left out and required attributes get a value") {
    const auto call = builtin_call(sgd(), "f32,f32", builtin_sizes[0], false);
    REQUIRE(call);
    REQUIRE(call->inputs.size() == 4);
    CHECK(call->inputs[0].text == "f32[16384]");
    CHECK(call->inputs[3].name == "params");
    REQUIRE(call->attributes.size() == 1);
    CHECK(call->attributes[0].name == "momentum");
}

TEST_CASE("a required text cannot be guessed") {
    auto signature = sgd();
    signature.attributes[0].type = "string";
    CHECK_FALSE(builtin_call(signature, "f32,f32", builtin_sizes[0], false));
}

TEST_CASE("f32 and bf16 are tuned, or what there is") {
    CHECK(builtin_dtypes({"f16,f16", "bf16,f32", "f32,f32", "bf16,bf16"}) ==
          std::vector<std::string>{"f32,f32", "bf16,f32"});
    CHECK(builtin_dtypes({"i64"}) == std::vector<std::string>{"i64"});
    CHECK(builtin_dtypes({}) == std::vector<std::string>{""});
}
