#include "op-call/shapes_file.hpp"

#include <doctest/doctest.h>

#include "cli/exit.hpp"
#include "op-call/source.hpp"
#include "op-call/subject.hpp"

using namespace opdock::op_call;

static std::string complaint(const std::string &text) {
    try {
        parse_shapes(text, "s.yaml");
        return "";
    } catch (const opdock::cli::Failure &failure) {
        return failure.what();
    }
}

TEST_CASE("a list of shapes is read with its places") {
    const auto shapes = parse_shapes(R"(
- op: rmsnorm_fwd
  inputs: {input: "f32[4,8]", weight: "f32[8]"}
  attributes: {eps: 1e-6}
  outputs: [rsigma]
- op: sgd
  impl: vendor.acme
  inputs:
    grads: ["f32[2]", "f32[3]"]
  attributes: {dims: [1, -2]}
)",
                                     "s.yaml");
    REQUIRE(shapes.size() == 2);
    CHECK(shapes[0].op == "rmsnorm_fwd");
    CHECK(shapes[0].impl.empty());
    CHECK(shapes[0].inputs.at(1).text == "f32[8]");
    CHECK(shapes[0].attributes.at(0).text == "1e-6");
    CHECK(shapes[0].outputs == std::vector<std::string>{"rsigma"});
    CHECK(shapes[1].outputs.empty());
    CHECK(shapes[0].place == "s.yaml:2:3");
    CHECK(shapes[1].impl == "vendor.acme");
    CHECK(shapes[1].inputs.size() == 2);
    CHECK(shapes[1].inputs[1].name == "grads");
    CHECK(shapes[1].attributes.at(0).text == "[1,-2]");
}

TEST_CASE("what is wrong is said with line and column") {
    CHECK(complaint("- op: f\n  inptus: {}\n").find("s.yaml:2:3: unknown field 'inptus'; did you mean 'inputs'?") == 0);
    CHECK(complaint("- inputs: {}\n") == "s.yaml:1:3: this shape has no 'op'");
    CHECK(complaint("- op: f\n") == "s.yaml:1:3: this shape has no 'inputs'");
    CHECK(complaint("op: f\n").find("s.yaml:1:1: expected a list of shapes") == 0);
    CHECK(complaint("- op: f\n  inputs: 3\n").find("s.yaml:2:11: expected a map of inputs") == 0);
    CHECK(complaint("- op: f\n  inputs: {a: {}}\n").find("s.yaml:2:15: expected a source") == 0);
    CHECK(complaint("- op: [f]\n  inputs: {}\n").find("s.yaml:1:7: expected the name of an op") == 0);
    CHECK(complaint("- op: f\n  inputs: {}\n  outputs: x\n").find("s.yaml:3:12: expected a list of optional outputs") ==
          0);
    CHECK(
        complaint("- op: f\n  inputs: {}\n  outputs: [x, {}]\n").find("s.yaml:3:16: expected the name of an output") ==
        0);
    CHECK(complaint("[]") == "s.yaml:1:1: the list of shapes is empty");
    CHECK(complaint("- op: &a f\n").find("s.yaml:1:") == 0);
}

TEST_CASE("hostile texts are one error") {
    CHECK(complaint(std::string(1000, '[')).find("s.yaml:1:") == 0);
    CHECK_FALSE(complaint(std::string(1 << 20, 'x')).empty());
    CHECK_FALSE(complaint("- op: f\n  op: g\n  inputs: {}\n").empty());
}

TEST_CASE("a call that a host recorded says where it ran, who served it and how its tensors lie") {
    const auto shapes = parse_shapes(R"(# The calls of a process
- op: "gelu"
  device: "cuda:1"
  served_by: "vendor.cuda"
  config: "BLOCK=8"
  calls: 12
  microseconds: 1.500
  share: 0.2500
  inputs:
    input: "f32[4,8]"
  strides:
    input: "[1,4]"
  attributes:
    approximate: ""
- {op: gelu, inputs: {input: "f32[4]"}}
)",
                                     "s.yaml");
    REQUIRE(shapes.size() == 2);
    CHECK(shapes[0].is_recorded());
    CHECK(shapes[0].recorded_on == "cuda:1");
    CHECK(shapes[0].served_by == "vendor.cuda");
    CHECK(shapes[0].impl.empty()); // all implementations are compared
    CHECK(shapes[0].strides.at(0).text == "[1,4]");
    CHECK(shapes[0].attributes.at(0).text.empty());
    CHECK(label_of(shapes[0]) == "gelu input=f32[4,8] strides(input)=[1,4] approximate=");
    CHECK_FALSE(shapes[1].is_recorded());
    CHECK(complaint("- op: f\n  inputs: {}\n  strides: 3\n").find("s.yaml:3:12: expected a map of strides") == 0);
}

TEST_CASE("strides are those of a tensor without gaps, whatever the order of its dims") {
    CHECK(opdock::op_call::parse_strides("packed", {4, 8}).empty());
    CHECK(opdock::op_call::parse_strides("[1,4]", {4, 8}) == std::vector<int64_t>{1, 4});
    CHECK(opdock::op_call::parse_strides("[8,1]", {4, 8}) == std::vector<int64_t>{8, 1});
    CHECK(opdock::op_call::parse_strides("[8,1,16]", {2, 8, 3}) == std::vector<int64_t>{8, 1, 16});
    CHECK(opdock::op_call::parse_strides("[99,1]", {1, 8}) ==
          std::vector<int64_t>{99, 1}); // the stride of a dim of size 1 never counts
    CHECK(opdock::op_call::parse_strides("[]", {}).empty());
    for (const char *text : {"[16,1]", "[0,1]", "[1,1]", "[-8,1]", "[8]", "[8,1,1]", "[8,x]", "8,1", "", "[8,1"}) {
        CAPTURE(text);
        CHECK_THROWS_AS((void)opdock::op_call::parse_strides(text, {4, 8}), opdock::cli::UsageError);
    }
}
