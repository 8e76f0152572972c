#include <doctest/doctest.h>

#include <cstring>
#include <limits>
#include <string>

#include "call_arguments.hpp"
#include "signature/bind.hpp"
#include "signature/layout.hpp"
#include "standard_signatures.hpp"

using namespace opdock;
using namespace opdock::core;
using opdock::core::parse_signature;
using opdock::test::CallArguments;
using opdock::test::dtype_value;
using opdock::test::error_of;
using opdock::test::value;

namespace {

constexpr DLDevice cuda0{kDLCUDA, 0};
constexpr DLDevice cuda1{kDLCUDA, 1};
constexpr int64_t huge = std::numeric_limits<int64_t>::max();

std::string bind_error(std::string_view signature, CallArguments &call, Pointing pointing = Pointing::required) {
    const Signature parsed = parse_signature(signature);
    return error_of([&] { bind(parsed, call.args(), pointing); });
}

// A valid call, for tests to make invalid.
CallArguments rmsnorm(std::vector<int64_t> leading = {4}, int64_t n = 8) {
    CallArguments call;
    std::vector<int64_t> shape = leading;
    shape.push_back(n);
    call.in(OPDOCK_BF16, shape).in(OPDOCK_F32, {n}).out(OPDOCK_BF16, shape).out(OPDOCK_F32, leading);
    return call;
}

std::string rmsnorm_error(CallArguments &call) {
    return bind_error(OPDOCK_OP_RMSNORM_FWD, call);
}

// The arguments grads, params, exp_avg, exp_avg_sq, lr and step, with tensors of these sizes.
CallArguments adam(const std::vector<int64_t> &sizes) {
    CallArguments call;
    for (const uint32_t dtype : {OPDOCK_BF16, OPDOCK_F32, OPDOCK_F32, OPDOCK_F32}) {
        for (const int64_t size : sizes) {
            call.in(dtype, {size});
        }
    }
    const auto count = static_cast<uint32_t>(sizes.size());
    call.in(OPDOCK_F32, {1}).in(OPDOCK_F32, {1}).lists({count, count, count, count});
    return call;
}

constexpr const char *attributes_op = "f(x: T[n], *, i: int, f: float = 0.5, b: bool = true, s: string = \"tanh\", "
                                      "d: dtype = f16, l: int[] = [1, 2]) -> ()";

CallArguments one_tensor() {
    CallArguments call;
    call.in(OPDOCK_F32, {4});
    return call;
}

} // namespace

// --- what a valid call becomes

TEST_CASE("a valid call is bound: tensors, defaults, dtypes and device") {
    const Signature signature = parse_signature(OPDOCK_OP_RMSNORM_FWD);
    CallArguments call = rmsnorm();
    const opdock_args &args = call.args();
    const Bound bound = bind(signature, args);
    CHECK(bound.tensors ==
          std::vector<const DLTensor *>{args.inputs[0], args.inputs[1], args.outputs[0], args.outputs[1]});
    CHECK(bound.first == std::vector<uint32_t>{0, 1, 2, 3, 4});
    REQUIRE(bound.attributes.size() == 2);
    CHECK(bound.attributes[0].type == OPDOCK_VALUE_FLOAT);
    CHECK(bound.attributes[0].as.f == 1e-5);
    CHECK(bound.attributes[1].type == OPDOCK_VALUE_BOOL);
    CHECK(bound.attributes[1].as.i == 0);
    CHECK(bound.dtypes == std::vector<uint32_t>{OPDOCK_BF16, OPDOCK_F32});
    CHECK(bound.device.device_type == kDLCPU);
    CHECK_FALSE(bound.writes_inputs);
}

TEST_CASE("leading dims may be many, none, or empty") {
    for (const auto &leading : std::vector<std::vector<int64_t>>{{}, {3}, {2, 3, 4, 5, 6, 7, 8}, {0}, {3, 0, 2}}) {
        CallArguments call = rmsnorm(leading);
        CHECK(rmsnorm_error(call) == "no error");
    }
    CallArguments no_columns = rmsnorm({4}, 0);
    CHECK(rmsnorm_error(no_columns) == "no error");
}

TEST_CASE("an absent optional output is a null, given or left out") {
    const Signature signature = parse_signature(OPDOCK_OP_RMSNORM_FWD);
    CallArguments given;
    given.in(OPDOCK_F32, {4, 8}).in(OPDOCK_F32, {8}).out(OPDOCK_F32, {4, 8}).out_absent();
    CallArguments left_out;
    left_out.in(OPDOCK_F32, {4, 8}).in(OPDOCK_F32, {8}).out(OPDOCK_F32, {4, 8});
    for (CallArguments *call : {&given, &left_out}) {
        const Bound bound = bind(signature, call->args());
        REQUIRE(bound.tensors.size() == 4);
        CHECK(bound.tensors[3] == nullptr);
        CHECK(bound.first == std::vector<uint32_t>{0, 1, 2, 3, 4});
    }
}

TEST_CASE("an absent optional input in the middle keeps the places of those after it") {
    const Signature signature = parse_signature("f(a: T[n], b: U[m]?, c: f32[n]) -> (y: T[n])");
    CallArguments call;
    call.in(OPDOCK_F16, {4}).in_absent().in(OPDOCK_F32, {4}).out(OPDOCK_F16, {4});
    const opdock_args &args = call.args();
    const Bound bound = bind(signature, args);
    CHECK(bound.tensors == std::vector<const DLTensor *>{args.inputs[0], nullptr, args.inputs[2], args.outputs[0]});
    CHECK(bound.dtypes == std::vector<uint32_t>{OPDOCK_F16, 0}); // U is not bound
}

TEST_CASE("binding into a used Bound gives what a fresh one gets") {
    const Signature adam_signature = parse_signature(OPDOCK_OP_MULTI_TENSOR_ADAM);
    const Signature rmsnorm_signature = parse_signature(OPDOCK_OP_RMSNORM_FWD);
    CallArguments lists = adam({3, 4});
    CallArguments single = rmsnorm();
    Bound reused;
    bind(adam_signature, lists.args(), reused);
    CHECK(reused.writes_inputs);
    bind(rmsnorm_signature, single.args(), reused);
    const Bound fresh = bind(rmsnorm_signature, single.args());
    CHECK(reused.tensors == fresh.tensors);
    CHECK(reused.first == fresh.first);
    CHECK(reused.dtypes == fresh.dtypes);
    CHECK(reused.attributes.size() == fresh.attributes.size());
    CHECK(reused.writes_inputs == fresh.writes_inputs);
    CHECK(reused.used_inputs == fresh.used_inputs);
}

// --- struct and counts

TEST_CASE("an opdock_args of an older layout or with flags is refused") {
    const Signature signature = parse_signature(OPDOCK_OP_RMSNORM_FWD);
    CallArguments call = rmsnorm();
    opdock_args args = call.args();
    constexpr uint32_t smallest = OPDOCK_STRUCT_SIZE(opdock_args, stream);
    args.struct_size = smallest - 1;
    CHECK(error_of([&] { full_args(args); }) == "opdock_args.struct_size is " + std::to_string(smallest - 1) +
                                                    ", expected at least " + std::to_string(smallest) +
                                                    "; set it with OPDOCK_STRUCT_SIZE");
    args.struct_size = sizeof args + 8; // a newer caller's
    CHECK(error_of([&] { bind(signature, full_args(args)); }) == "no error");
    args.flags = 2;
    CHECK(error_of([&] { bind(signature, args); }) == "op 'rmsnorm_fwd': opdock_args.flags is 0x2, expected 0");
}

TEST_CASE("what lies past a caller's struct_size is not read") {
    CallArguments call = rmsnorm();
    opdock_args args = call.args();
    args.struct_size = OPDOCK_STRUCT_SIZE(opdock_args, stream);
    args.list_sizes = reinterpret_cast<const uint32_t *>(1);
    args.device = cuda1;
    args.workspace_size = 7;
    const opdock_args full = full_args(args);
    CHECK(full.inputs == args.inputs);
    CHECK(full.list_sizes == nullptr);
    CHECK(full.device.device_id == 0);
    CHECK(full.workspace_size == 0);
    const Signature signature = parse_signature(OPDOCK_OP_RMSNORM_FWD);
    CHECK(error_of([&] { bind(signature, full); }) == "no error");
}

TEST_CASE("a count without its array is refused") {
    const Signature signature = parse_signature(OPDOCK_OP_RMSNORM_FWD);
    CallArguments call = rmsnorm();
    opdock_args args = call.args();
    args.inputs = nullptr;
    CHECK(error_of([&] { bind(signature, args); }) ==
          "op 'rmsnorm_fwd': opdock_args.n_inputs is 2 and its array is null");
    args = call.args();
    args.n_attributes = 1;
    args.attributes = nullptr;
    CHECK(error_of([&] { bind(signature, args); }) ==
          "op 'rmsnorm_fwd': opdock_args.n_attributes is 1 and its array is null");
    args = call.args();
    args.n_lists = 1;
    args.list_sizes = nullptr;
    CHECK(error_of([&] { bind(signature, args); }) ==
          "op 'rmsnorm_fwd': opdock_args.n_lists is 1 and its array is null");
}

TEST_CASE("a missing tensor is named") {
    CallArguments null;
    null.in(OPDOCK_F32, {4, 8}).in_absent().out(OPDOCK_F32, {4, 8});
    CHECK(rmsnorm_error(null) == "op 'rmsnorm_fwd': input 'weight' is missing: it is null and not optional");
    CallArguments few;
    few.in(OPDOCK_F32, {4, 8}).out(OPDOCK_F32, {4, 8});
    CHECK(rmsnorm_error(few) == "op 'rmsnorm_fwd': input 'weight' is missing: the call has 1 inputs");
    CallArguments no_output;
    no_output.in(OPDOCK_F32, {4, 8}).in(OPDOCK_F32, {8});
    CHECK(rmsnorm_error(no_output) == "op 'rmsnorm_fwd': output 'output' is missing: the call has 0 outputs");
}

TEST_CASE("an extra tensor is an error that shows the signature") {
    CallArguments call;
    call.in(OPDOCK_F32, {4}).in(OPDOCK_F32, {4}).out(OPDOCK_F32, {4});
    CHECK(bind_error(OPDOCK_OP_GELU, call) ==
          "op 'gelu': got 2 inputs, expected at most 1: gelu(input: T[...]) -> (output ~ input: T[...])");
    CallArguments outputs;
    outputs.in(OPDOCK_F32, {4}).out(OPDOCK_F32, {4}).out_absent();
    CHECK(bind_error(OPDOCK_OP_GELU, outputs) ==
          "op 'gelu': got 2 outputs, expected at most 1: gelu(input: T[...]) -> (output ~ input: T[...])");
}

TEST_CASE("list sizes for an op without lists are an error") {
    CallArguments call = rmsnorm();
    call.lists({1});
    CHECK(rmsnorm_error(call) == "op 'rmsnorm_fwd': n_lists is 1, expected 0: it has no lists");
}

// --- shapes

TEST_CASE("a dim that disagrees is named with where it was bound") {
    CallArguments call = rmsnorm();
    call.input(1).shape = {5};
    CHECK(rmsnorm_error(call) ==
          "op 'rmsnorm_fwd': input 'weight' of shape [5]: dim 0 is 5, expected n = 8 as in input 'input'");
}

TEST_CASE("leading dims never broadcast") {
    CallArguments call = rmsnorm({4, 2});
    call.output(1).shape = {4, 1};
    CHECK(
        rmsnorm_error(call) ==
        "op 'rmsnorm_fwd': output 'rsigma' of shape [4, 1]: its '...' is [4, 1], expected [4, 2] as in input 'input'");
    call.output(1).shape = {4};
    CHECK(rmsnorm_error(call) ==
          "op 'rmsnorm_fwd': output 'rsigma' of shape [4]: its '...' is [4], expected [4, 2] as in input 'input'");
    CallArguments add;
    add.in(OPDOCK_F32, {4, 8}).in(OPDOCK_F32, {8}).out(OPDOCK_F32, {4, 8});
    CHECK(bind_error(OPDOCK_OP_ADD, add) ==
          "op 'add': input 'b' of shape [8]: its '...' is [8], expected [4, 8] as in input 'a'");
}

TEST_CASE("a wrong rank says what it should be") {
    CallArguments call = rmsnorm();
    call.input(1).shape = {8, 1};
    CHECK(rmsnorm_error(call) == "op 'rmsnorm_fwd': input 'weight' of shape [8, 1]: rank is 2, expected 1 for [n]");
    call = rmsnorm();
    call.input(0).shape = {};
    CHECK(rmsnorm_error(call) ==
          "op 'rmsnorm_fwd': input 'input' of shape []: rank is 0, expected at least 1 for [..., n]");
}

TEST_CASE("2*n is solved from an input and checked on an output") {
    CallArguments call;
    call.in(OPDOCK_F32, {4, 10}).out(OPDOCK_F32, {4, 5});
    CHECK(bind_error(OPDOCK_OP_SWIGLU, call) == "no error");
    call.output(0).shape = {4, 10};
    CHECK(bind_error(OPDOCK_OP_SWIGLU, call) ==
          "op 'swiglu': output 'output' of shape [4, 10]: dim 1 is 10, expected n = 5 as in input 'input'");
    call.input(0).shape = {4, 9};
    CHECK(bind_error(OPDOCK_OP_SWIGLU, call) ==
          "op 'swiglu': input 'input' of shape [4, 9]: dim 1 is 9, expected a multiple of 2 (2*n)");
}

TEST_CASE("a bound 2*n is checked, with the value it was computed from") {
    CallArguments call;
    call.in(OPDOCK_F32, {4, 5}).in(OPDOCK_F32, {4, 11}).out(OPDOCK_F32, {4, 10});
    CHECK(bind_error(OPDOCK_OP_SWIGLU_BWD, call) ==
          "op 'swiglu_bwd': input 'input' of shape [4, 11]: dim 1 is 11, expected 2*n = 10, with n = 5 (input 'grad')");
}

TEST_CASE("a computed dim rounds down and is checked") {
    const char *signature = "f(x: T[n]) -> (mask: u8[(n+7)/8])";
    CallArguments call;
    call.in(OPDOCK_F32, {17}).out(OPDOCK_U8, {3});
    CHECK(bind_error(signature, call) == "no error");
    call.output(0).shape = {2};
    CHECK(bind_error(signature, call) ==
          "op 'f': output 'mask' of shape [2]: dim 0 is 2, expected (n+7)/8 = 3, with n = 17 (input 'x')");
}

TEST_CASE("a number as a dim is exact") {
    CallArguments call;
    call.in(OPDOCK_F32, {64, 2, 4, 16}).in(OPDOCK_F32, {64, 1, 2, 16}).out(OPDOCK_F32, {64, 2, 4, 16});
    CHECK(bind_error(OPDOCK_OP_FUSED_ROPE_FWD, call) ==
          "op 'fused_rope_fwd': input 'freqs' of shape [64, 1, 2, 16]: dim 2 is 2, expected 1");
}

TEST_CASE("where clauses are checked and show the values") {
    CallArguments rope;
    rope.in(OPDOCK_F32, {64, 2, 4, 16}).in(OPDOCK_F32, {32, 1, 1, 16}).out(OPDOCK_F32, {64, 2, 4, 16});
    CHECK(bind_error(OPDOCK_OP_FUSED_ROPE_FWD, rope) ==
          "op 'fused_rope_fwd': 'where m >= s' does not hold: s = 64 (input 'input'), m = 32 (input 'freqs')");
    rope.input(1).shape = {64, 1, 1, 17};
    CHECK(bind_error(OPDOCK_OP_FUSED_ROPE_FWD, rope) ==
          "op 'fused_rope_fwd': 'where r <= d' does not hold: d = 16 (input 'input'), r = 17 (input 'freqs')");
    CallArguments softmax;
    softmax.in(OPDOCK_F32, {4, 2, 8, 8}).in(OPDOCK_U8, {1, 1, 8, 8}).out(OPDOCK_F32, {4, 2, 8, 8});
    CHECK(bind_error(OPDOCK_OP_SCALED_MASKED_SOFTMAX_FWD, softmax) == "no error");
    softmax.input(1).shape[0] = 4;
    CHECK(bind_error(OPDOCK_OP_SCALED_MASKED_SOFTMAX_FWD, softmax) == "no error");
    softmax.input(1).shape[0] = 2;
    CHECK(bind_error(OPDOCK_OP_SCALED_MASKED_SOFTMAX_FWD, softmax) ==
          "op 'scaled_masked_softmax_fwd': 'where m in 1|b' does not hold: b = 4 (input 'input'), m = 2 (input "
          "'mask')");
}

TEST_CASE("every comparison of a where clause means what it says") {
    const auto holds = [](const std::string &clause, int64_t a, int64_t b) {
        CallArguments call;
        call.in(OPDOCK_F32, {a, b});
        return bind_error("f(x: T[a, b]) -> () where " + clause, call) == "no error";
    };
    const auto table = [&holds](const std::string &clause) {
        return std::vector<bool>{holds(clause, 1, 2), holds(clause, 2, 2), holds(clause, 3, 2)};
    };
    CHECK(table("a < b") == std::vector<bool>{true, false, false});
    CHECK(table("a <= b") == std::vector<bool>{true, true, false});
    CHECK(table("a > b") == std::vector<bool>{false, false, true});
    CHECK(table("a >= b") == std::vector<bool>{false, true, true});
    CHECK(table("a == b") == std::vector<bool>{false, true, false});
    CHECK(table("a != b") == std::vector<bool>{true, false, true});
    CHECK(table("a in 1|b+1") == std::vector<bool>{true, false, true});
    CHECK(table("(a-4)/2 == 0-1") == std::vector<bool>{false, true, true}); // -3/2 rounds down to -2
    CHECK(table("a%b == 0") == std::vector<bool>{false, true, false});
    CHECK(table("a%b == 1") == std::vector<bool>{true, false, true});
    CHECK(table("(a-4)%2 == 1") == std::vector<bool>{true, false, true});        // the remainder of -3/2
    CHECK(table("b%(1-a) == 0") == std::vector<bool>{false, true, true});        // the remainder of -3/2
    CHECK(table("(a+1)%(0-b) == 0-1") == std::vector<bool>{false, true, false}); // 3%-2
    CHECK(table("(0-9223372036854775807-1)%(a-2) == 0") == std::vector<bool>{true, false, true});
}

TEST_CASE("a clause about the dims of an absent input is not checked") {
    const char *signature = "f(x: T[n], r: f32[m]?) -> () where m >= n";
    CallArguments absent = one_tensor();
    CHECK(bind_error(signature, absent) == "no error");
    CallArguments present = one_tensor();
    present.in(OPDOCK_F32, {3});
    CHECK(bind_error(signature, present) ==
          "op 'f': 'where m >= n' does not hold: n = 4 (input 'x'), m = 3 (input 'r')");
}

TEST_CASE("an ellipsis in the middle or at the end leaves the fixed dims in place") {
    CallArguments call;
    call.in(OPDOCK_F32, {7, 2, 3, 9}).in(OPDOCK_F32, {2, 3, 9}).out(OPDOCK_F32, {7, 2, 3});
    CHECK(bind_error("f(x: T[b, ..., n], y: T[..., n]) -> (z: T[b, ...])", call) == "no error");
    call.input(0).shape = {7, 9};
    CHECK(bind_error("f(x: T[b, ..., n], y: T[..., n]) -> (z: T[b, ...])", call) ==
          "op 'f': input 'y' of shape [2, 3, 9]: its '...' is [2, 3], expected [] as in input 'x'");
}

TEST_CASE("impossible shapes are refused before anything is computed from them") {
    CallArguments call = rmsnorm();
    call.input(0).shape = {4, -8};
    CHECK(rmsnorm_error(call) == "op 'rmsnorm_fwd': input 'input' of shape [4, -8]: dim 1 is negative");
    call.input(0).shape = {1, 1, 1, 1, 1, 1, 1, 1, 8};
    CHECK(rmsnorm_error(call) == "op 'rmsnorm_fwd': input 'input' has 9 dims, expected 0 to 8");

    const Signature signature = parse_signature("f(x: T[n]) -> ()");
    DLTensor shapeless{};
    shapeless.device = test::cpu;
    shapeless.ndim = 1;
    shapeless.dtype = opdock_dtype_unpack(OPDOCK_F32);
    const DLTensor *input = &shapeless;
    CallArguments one = one_tensor();
    opdock_args args = one.args();
    args.inputs = &input;
    CHECK(error_of([&] { bind(signature, args); }) ==
          "op 'f': input 'x' has 1 dim but no shape (DLTensor.shape is null)");
    shapeless.ndim = -1;
    CHECK(error_of([&] { bind(signature, args); }) == "op 'f': input 'x' has -1 dims, expected 0 to 8");
}

TEST_CASE("a size that 64 bits cannot count is an error, unless some other dim is 0") {
    const char *signature = "f(x: T[...]) -> ()";
    CallArguments call;
    call.in(OPDOCK_F32, {huge, 2});
    call.input(0).address = 0x1000;
    const std::string expected = "at 0x1000 + 0 is larger than 64 bits can address";
    CHECK(bind_error(signature, call) == "op 'f': input 'x' of shape [9223372036854775807, 2] " + expected);
    call.input(0).shape = {huge};
    CHECK(bind_error(signature, call) == "op 'f': input 'x' of shape [9223372036854775807] " + expected);
    call.input(0).shape = {2, 2};
    call.input(0).strides = {huge / 4, 1};
    CHECK(bind_error(signature, call) == "op 'f': input 'x' of shape [2, 2] " + expected);
    call.input(0).shape = {huge, huge, 0};
    call.input(0).strides = {};
    CHECK(bind_error(signature, call) == "no error");
    call.input(0).shape = {4};
    call.input(0).address = ~uint64_t{0} - 14;
    CHECK(bind_error(signature, call) ==
          "op 'f': input 'x' of shape [4] at 0xfffffffffffffff1 + 0 is larger than 64 bits can address");
}

TEST_CASE("a computed dim that overflows is an error") {
    CallArguments call;
    call.in(OPDOCK_F32, {huge, 0}).out(OPDOCK_F32, {1, 0});
    CHECK(bind_error("f(x: T[n, m]) -> (y: T[n*3+1, m])", call) ==
          "op 'f': output 'y' of shape [1, 0]: dim 0 is 1, expected n*3+1 = more than 64 bits, with n = "
          "9223372036854775807 (input 'x')");
    CHECK(bind_error("f(x: T[n, m]) -> (y: T[3*n, m])", call) ==
          "op 'f': output 'y' of shape [1, 0]: dim 0 is 1, expected 3*n = more than 64 bits, with n = "
          "9223372036854775807 (input 'x')");
}

// --- dtypes

TEST_CASE("a dtype outside a variable's set is named with the set") {
    CallArguments call = rmsnorm();
    call.input(0).dtype = OPDOCK_I32;
    CHECK(rmsnorm_error(call) ==
          "op 'rmsnorm_fwd': input 'input' has dtype i32, expected T, which stands for f32|f16|bf16");
    call.input(0).dtype = OPDOCK_DTYPE(kDLFloat, 64);
    CHECK(rmsnorm_error(call) ==
          "op 'rmsnorm_fwd': input 'input' has dtype f64, expected T, which stands for f32|f16|bf16");
}

TEST_CASE("a dtype that disagrees is named with where it was bound") {
    CallArguments call = rmsnorm();
    call.output(0).dtype = OPDOCK_F16;
    CHECK(rmsnorm_error(call) ==
          "op 'rmsnorm_fwd': output 'output' has dtype f16, expected T = bf16 as in input 'input'");
    call = rmsnorm();
    call.output(1).dtype = OPDOCK_BF16;
    CHECK(rmsnorm_error(call) == "op 'rmsnorm_fwd': output 'rsigma' has dtype bf16, expected f32");
}

TEST_CASE("vector types are refused") {
    CallArguments call = rmsnorm();
    call.input(0).dtype = OPDOCK_F32 + (3u << 16);
    CHECK(rmsnorm_error(call) ==
          "op 'rmsnorm_fwd': input 'input' has dtype f32x4, expected T, which stands for f32|f16|bf16");
}

TEST_CASE("a dtype attribute binds the variable of the outputs") {
    const Signature signature = parse_signature(OPDOCK_OP_QUANTIZE);
    CallArguments call;
    call.in(OPDOCK_BF16, {4}).in(OPDOCK_F32, {1}).out(OPDOCK_E5M2, {4}).attribute(dtype_value(OPDOCK_E5M2));
    CHECK(bind(signature, call.args()).dtypes == std::vector<uint32_t>{OPDOCK_BF16, OPDOCK_E5M2});
    call.output(0).dtype = OPDOCK_E4M3;
    CHECK(bind_error(OPDOCK_OP_QUANTIZE, call) ==
          "op 'quantize': output 'output' has dtype e4m3, expected F = e5m2 as in attribute 'dtype'");
}

TEST_CASE("a dtype attribute obeys the variable's set and what inputs bound before") {
    CallArguments call;
    call.in(OPDOCK_BF16, {4}).in(OPDOCK_F32, {1}).out(OPDOCK_F32, {4}).attribute(dtype_value(OPDOCK_F32));
    CHECK(bind_error(OPDOCK_OP_QUANTIZE, call) ==
          "op 'quantize': attribute 'dtype' is f32, expected F, which stands for e4m3|e5m2");
    CallArguments same;
    same.in(OPDOCK_BF16, {4}).attribute(dtype_value(OPDOCK_F32));
    CHECK(bind_error("f(x: T[n], *, to: T) -> ()", same) ==
          "op 'f': attribute 'to' is f32, expected T = bf16 as in input 'x'");
}

// --- attributes

TEST_CASE("attributes are taken by position or by name, in any order") {
    const Signature signature = parse_signature(attributes_op);
    CallArguments positions = one_tensor();
    positions.attribute(value(3)).attribute(value(0.25)).attribute(value(false));
    CallArguments names = one_tensor();
    names.attribute("b", value(false)).attribute("i", value(3)).attribute("f", value(0.25));
    for (CallArguments *call : {&positions, &names}) {
        const Bound bound = bind(signature, call->args());
        REQUIRE(bound.attributes.size() == 6);
        CHECK(bound.attributes[0].as.i == 3);
        CHECK(bound.attributes[1].as.f == 0.25);
        CHECK(bound.attributes[2].as.i == 0);
        CHECK(std::string(bound.attributes[3].as.s, bound.attributes[3].count) == "tanh");
        CHECK(bound.attributes[4].as.i == OPDOCK_F16);
        CHECK(std::vector<int64_t>(bound.attributes[5].as.ints, bound.attributes[5].as.ints + 2) ==
              std::vector<int64_t>{1, 2});
        CHECK(bound.used_attributes == 3);
    }
}

TEST_CASE("a nameless attribute among named ones is the one at its position") {
    const Signature signature = parse_signature(OPDOCK_OP_RMSNORM_FWD);
    CallArguments mixed = rmsnorm();
    mixed.attribute("eps", value(1e-6)).attribute(value(true));
    const Bound bound = bind(signature, mixed.args());
    CHECK(bound.attributes.at(0).as.f == 1e-6);
    CHECK(bound.attributes.at(1).as.i == 1);
    CallArguments clash = rmsnorm();
    clash.attribute("zero_centered_gamma", value(true)).attribute(value(true));
    CHECK(rmsnorm_error(clash) == "op 'rmsnorm_fwd': attribute 'zero_centered_gamma' is given twice");
}

TEST_CASE("an int is taken where a float is expected, and nothing else is converted") {
    const Signature signature = parse_signature(attributes_op);
    CallArguments call = one_tensor();
    call.attribute(value(3)).attribute(value(2));
    const Bound bound = bind(signature, call.args());
    CHECK(bound.attributes[1].type == OPDOCK_VALUE_FLOAT);
    CHECK(bound.attributes[1].as.f == 2.0);

    const auto error = [](const char *name, opdock_value given) {
        CallArguments wrong = one_tensor();
        wrong.attribute("i", value(3)).attribute(name, given);
        return bind_error(attributes_op, wrong);
    };
    CHECK(error("f", value(true)) == "op 'f': attribute 'f' is of type bool, expected float");
    CHECK(error("f", value("2")) == "op 'f': attribute 'f' is of type string, expected float");
    CHECK(error("b", value(1)) == "op 'f': attribute 'b' is of type int, expected bool");
    CHECK(error("s", value(1.0)) == "op 'f': attribute 's' is of type float, expected string");
    CHECK(error("d", value(1)) == "op 'f': attribute 'd' is of type int, expected dtype");
    CHECK(error("l", value(1)) == "op 'f': attribute 'l' is of type int, expected int[]");
    CHECK(error("l", value(1, 77)) == "op 'f': attribute 'l' is of type 77, expected int[]");
}

TEST_CASE("NONE takes the default, and is an error where there is none") {
    const Signature signature = parse_signature(attributes_op);
    CallArguments call = one_tensor();
    call.attribute(value(3)).attribute(opdock_value{}).attribute(value(false));
    CHECK(bind(signature, call.args()).attributes.at(1).as.f == 0.5);
    CallArguments none = one_tensor();
    none.attribute(opdock_value{});
    CHECK(bind_error(attributes_op, none) == "op 'f': attribute 'i' of type int is missing; it has no default");
    CallArguments nothing = one_tensor();
    CHECK(bind_error(attributes_op, nothing) == "op 'f': attribute 'i' of type int is missing; it has no default");
}

TEST_CASE("unknown, duplicate and extra attributes are errors") {
    CallArguments unknown = rmsnorm();
    unknown.attribute("epsilon", value(1e-6));
    CHECK(rmsnorm_error(unknown) ==
          "op 'rmsnorm_fwd': unknown attribute 'epsilon'; the op has eps, zero_centered_gamma");
    CallArguments twice = rmsnorm();
    twice.attribute("eps", value(1e-6)).attribute("eps", value(1e-6));
    CHECK(rmsnorm_error(twice) == "op 'rmsnorm_fwd': attribute 'eps' is given twice");
    CallArguments many = rmsnorm();
    many.attribute(value(1e-6)).attribute(value(true)).attribute(value(true));
    CHECK(rmsnorm_error(many) == "op 'rmsnorm_fwd': got 3 attributes, expected at most 2");
    CallArguments none;
    none.in(OPDOCK_F32, {4}).out(OPDOCK_F32, {4}).attribute("eps", value(1));
    CHECK(bind_error(OPDOCK_OP_GELU, none) == "op 'gelu': unknown attribute 'eps'; the op has none");
}

TEST_CASE("an attribute's content is checked") {
    const auto error = [](const char *name, opdock_value given) {
        CallArguments wrong = one_tensor();
        wrong.attribute("i", value(3)).attribute(name, given);
        return bind_error(attributes_op, wrong);
    };
    CHECK(error("b", value(2, OPDOCK_VALUE_BOOL)) == "op 'f': attribute 'b' is 2, expected 0 or 1 for a bool");
    opdock_value text = value("tanh");
    text.count = 3; // need not be terminated there
    CHECK(error("s", text) == "no error");
    text.count = 5;
    CHECK(error("s", text) == "op 'f': attribute 's' is not a string of 5 bytes without NUL");
    text.as.s = nullptr;
    CHECK(error("s", text) == "op 'f': attribute 's' is not a string of 5 bytes without NUL");
    opdock_value list = value(std::vector<int64_t>{});
    list.count = 2;
    list.as.ints = nullptr;
    CHECK(error("l", list) == "op 'f': attribute 'l' is null, expected 2 numbers");
    list.count = 0;
    CHECK(error("l", list) == "no error"); // an empty list has no memory
    CHECK(error("d", dtype_value(OPDOCK_F32 + (1u << 16))) ==
          "op 'f': attribute 'd' is 0x22002, expected a dtype as OPDOCK_DTYPE or OPDOCK_DTYPE_4X2 packs it");
    CHECK(error("d", value(int64_t{-1}, OPDOCK_VALUE_DTYPE)) ==
          "op 'f': attribute 'd' is 0xffffffffffffffff, expected a dtype as OPDOCK_DTYPE or OPDOCK_DTYPE_4X2 packs it");
}

TEST_CASE("a bool is 0 or 1, and a dtype is of one lane, or of two of four bits") {
    const auto error = [](const char *name, opdock_value given) {
        CallArguments wrong = one_tensor();
        wrong.attribute("i", value(3)).attribute(name, given);
        return bind_error(attributes_op, wrong);
    };
    CHECK(error("b", value(0, OPDOCK_VALUE_BOOL)) == "no error");
    CHECK(error("b", value(1, OPDOCK_VALUE_BOOL)) == "no error");
    CHECK(error("b", value(-1, OPDOCK_VALUE_BOOL)) == "op 'f': attribute 'b' is -1, expected 0 or 1 for a bool");
    const auto dtype_error = [&](int64_t packed) { return error("d", value(packed, OPDOCK_VALUE_DTYPE)); };
    const std::string expected = ", expected a dtype as OPDOCK_DTYPE or OPDOCK_DTYPE_4X2 packs it";
    const auto lanes = [](uint16_t count, uint8_t bits) {
        return static_cast<int64_t>(opdock_dtype_pack({kDLUInt, bits, count}));
    };
    CHECK(dtype_error(lanes(1, 8)) == "no error");
    CHECK(dtype_error(lanes(2, 4)) == "no error");
    for (const int64_t packed : {lanes(0, 8), lanes(2, 8), lanes(3, 4), lanes(1, 8) + (int64_t{1} << 32)}) {
        CHECK(dtype_error(packed).find(expected) != std::string::npos);
    }
}

TEST_CASE("lists of floats and strings are given or their default, optional attributes given or absent") {
    const Signature signature =
        parse_signature("f(x: f32[n], *, f: float[] = [1.5], s: string[] = [], o: float?) -> ()");
    CallArguments without = one_tensor();
    Bound bound = bind(signature, without.args());
    CHECK(bound.attributes[0].count == 1);
    CHECK(bound.attributes[0].as.floats[0] == 1.5);
    CHECK(bound.attributes[1].count == 0);
    CHECK(bound.attributes[2].type == OPDOCK_VALUE_NONE);
    CHECK(bound.used_attributes == 0);
    const std::vector<double> floats = {2.5, 3.5};
    const std::vector<opdock_text> strings = {{"ab", 2}, {"", 0}};
    CallArguments with = one_tensor();
    with.attribute(value(floats)).attribute(value(strings)).attribute(value(7)); // an int where a float is expected
    bound = bind(signature, with.args());
    CHECK(bound.attributes[0].as.floats[1] == 3.5);
    CHECK(std::string(bound.attributes[1].as.strings[0].text) == "ab");
    CHECK(bound.attributes[2].as.f == 7);
    CHECK(bound.used_attributes == 3);
    const auto error = [&](const char *name, const opdock_value &given) {
        CallArguments wrong = one_tensor();
        wrong.attribute(name, given);
        return bind_error(signature.text, wrong);
    };
    CHECK(error("f", value(std::vector<int64_t>{1})) == "op 'f': attribute 'f' is of type int[], expected float[]");
    CHECK(error("o", value("text")) == "op 'f': attribute 'o' is of type string, expected float");
    CHECK(error("s", value(std::vector<opdock_text>{{"a", 1}, {"b", 2}})) ==
          "op 'f': attribute 's' has at index 1 no string of 2 bytes without NUL");
    CHECK(error("s", value(std::vector<opdock_text>{{"a", 2}, {"b", 1}})) ==
          "op 'f': attribute 's' has at index 0 no string of 2 bytes without NUL");
    opdock_value null = value(std::vector<opdock_text>{});
    null.count = 2;
    null.as.strings = nullptr;
    CHECK(error("s", null) == "op 'f': attribute 's' is null, expected 2 strings");
}

// --- devices

TEST_CASE("all tensors are on one device, and an error names both") {
    CallArguments call = rmsnorm();
    call.input(0).device = cuda1;
    CHECK(rmsnorm_error(call) == "op 'rmsnorm_fwd': input 'weight' is on cpu:0, expected cuda:1 as input 'input'");
    call.input(1).device = cuda0;
    CHECK(rmsnorm_error(call) == "op 'rmsnorm_fwd': input 'weight' is on cuda:0, expected cuda:1 as input 'input'");
    call.input(0).device = cuda0;
    call.input(1).device = cuda1;
    CHECK(rmsnorm_error(call) == "op 'rmsnorm_fwd': input 'weight' is on cuda:1, expected cuda:0 as input 'input'");
    for (DLDevice *device : {&call.input(0).device, &call.output(0).device, &call.output(1).device}) {
        *device = cuda1;
    }
    const Signature signature = parse_signature(OPDOCK_OP_RMSNORM_FWD);
    const Bound bound = bind(signature, call.args());
    CHECK(bound.device.device_type == kDLCUDA);
    CHECK(bound.device.device_id == 1);
}

TEST_CASE("a tensor marked host is in host memory, pinned or not, and does not tell the device") {
    const char *signature = "f(host lr: f32[1], x: T[n]) -> ()";
    CallArguments call;
    call.in(OPDOCK_F32, {1}).in(OPDOCK_F32, {4});
    call.input(1).device = cuda1;
    for (const DLDeviceType host : {kDLCPU, kDLCUDAHost, kDLROCMHost}) {
        call.input(0).device = {host, 0};
        const Signature parsed = parse_signature(signature);
        CHECK(bind(parsed, call.args()).device.device_type == kDLCUDA);
    }
    call.input(0).device = cuda1;
    CHECK(bind_error(signature, call) == "op 'f': input 'lr' is on cuda:1, expected host memory (cpu)");
}

TEST_CASE("without a tensor that tells, the arguments name the device") {
    const Signature signature = parse_signature("f(host x: f32[1], y: T[n]?) -> ()");
    CallArguments call;
    call.in(OPDOCK_F32, {1});
    opdock_args &args = call.args();
    CHECK(error_of([&] { bind(signature, args); }) ==
          "op 'f': no tensor of this call determines the device; set opdock_args.device");
    args.device = cuda1;
    CHECK(bind(signature, args).device.device_id == 1);
}

TEST_CASE("a device type of newer DLPack is passed on, and 0 is none") {
    CallArguments call = one_tensor();
    const Signature signature = parse_signature("f(x: T[n]) -> ()");
    opdock_args &args = call.args();
    DLTensor tensor = *args.inputs[0];
    const DLTensor *input = &tensor;
    args.inputs = &input;
    const auto set_type = [&tensor](int32_t type) { std::memcpy(&tensor.device, &type, sizeof type); };
    set_type(17);
    CHECK(error_of([&] { bind(signature, args); }) == "no error");
    set_type(0);
    CHECK(error_of([&] { bind(signature, args); }) == "op 'f': input 'x' has device type 0; set DLTensor.device");
}

// --- memory

TEST_CASE("null data is an error exactly when there are elements") {
    CallArguments call = rmsnorm();
    call.input(1).address = 0;
    CHECK(rmsnorm_error(call) == "op 'rmsnorm_fwd': input 'weight' has elements but no data (DLTensor.data is null)");
    CHECK(bind_error(OPDOCK_OP_RMSNORM_FWD, call, Pointing::optional) == "no error");
    CallArguments empty = rmsnorm({0});
    empty.input(0).address = empty.output(0).address = empty.output(1).address = 0;
    CHECK(rmsnorm_error(empty) == "no error");
}

TEST_CASE("an output may not overlap an input") {
    CallArguments call = rmsnorm();
    call.output(0).address = call.input(0).address;
    CHECK(rmsnorm_error(call) ==
          "op 'rmsnorm_fwd': output 'output' is written and overlaps input 'input' in memory; only "
          "'output ~ input' may share, and then as the same view");
    // A single byte of overlap is enough, at either end.
    call.output(0).address = call.input(0).address + 4 * 8 * 2 - 1;
    CHECK(rmsnorm_error(call) != "no error");
    call.output(0).address = call.input(0).address + 4 * 8 * 2;
    CHECK(rmsnorm_error(call) == "no error");
    call.output(0).address = call.input(0).address - 4 * 8 * 2;
    CHECK(rmsnorm_error(call) == "no error");
    call.output(0).address = call.input(0).address - 4 * 8 * 2 + 1;
    CHECK(rmsnorm_error(call) != "no error");
}

TEST_CASE("a tensor without elements overlaps nothing, wherever it lies") {
    CallArguments call;
    call.in(OPDOCK_F32, {0}).out(OPDOCK_F32, {4});
    call.input(0).address = call.output(0).address + 4;
    CHECK(bind_error("f(x: f32[m]) -> (y: f32[4])", call) == "no error");
}

TEST_CASE("outputs may not overlap each other, inputs may") {
    CallArguments outputs = rmsnorm();
    outputs.output(1).address = outputs.output(0).address + 2;
    CHECK(rmsnorm_error(outputs) ==
          "op 'rmsnorm_fwd': output 'rsigma' is written and overlaps output 'output' in memory; "
          "only 'output ~ input' may share, and then as the same view");
    CallArguments inputs;
    inputs.in(OPDOCK_F32, {4}).in(OPDOCK_F32, {4}).out(OPDOCK_F32, {4});
    inputs.input(1).address = inputs.input(0).address;
    CHECK(bind_error(OPDOCK_OP_SILU_AND_MUL, inputs) == "no error");
}

TEST_CASE("an output that is its '~' input makes the call one that writes its inputs") {
    const Signature signature = parse_signature(OPDOCK_OP_GELU);
    CallArguments call;
    call.in(OPDOCK_F32, {4, 8}).out(OPDOCK_F32, {4, 8});
    CHECK_FALSE(bind(signature, call.args()).writes_inputs);
    call.output(0).address = call.input(0).address;
    CHECK(bind(signature, call.args()).writes_inputs);
    call.output(0).strides = {8, 1}; // the same view, described differently
    CHECK(bind(signature, call.args()).writes_inputs);
    call.input(0).shape = call.output(0).shape = {1, 8};
    call.output(0).strides = {99, 1}; // with one row, its stride does not matter
    CHECK(bind(signature, call.args()).writes_inputs);
}

TEST_CASE("an output and its '~' input may both be absent") {
    CallArguments call;
    call.in(OPDOCK_F32, {4}).in_absent().out_absent();
    const Signature signature = parse_signature("f(a: T[n], x: T[n]?) -> (y ~ x: T[n]?)");
    const Bound bound = bind(signature, call.args());
    CHECK_FALSE(bound.writes_inputs);
    CHECK(bound.tensors[1] == nullptr);
    CHECK(bound.tensors[2] == nullptr);
}

TEST_CASE("an output that shares only part of its '~' input, or in another order, is an error") {
    CallArguments call;
    call.in(OPDOCK_F32, {4, 4}).out(OPDOCK_F32, {4, 4});
    const std::string expected = "op 'gelu': output 'output' overlaps input 'input' without being the same view: data, "
                                 "shape and strides must be equal";
    call.output(0).address = call.input(0).address + 4;
    CHECK(bind_error(OPDOCK_OP_GELU, call) == expected);
    call.output(0).address = call.input(0).address;
    call.output(0).strides = {1, 4};
    CHECK(bind_error(OPDOCK_OP_GELU, call) == expected);
}

TEST_CASE("each output may be its '~' input, beside outputs and inputs that are none") {
    const Signature signature = parse_signature("f(w: T[n], x: T[n], y: T[n]) -> (c: T[n], a ~ x: T[n], b ~ y: T[n])");
    for (const uint32_t which : {1u, 2u}) {
        CAPTURE(which);
        CallArguments call;
        call.in(OPDOCK_F32, {4}).in(OPDOCK_F32, {4}).in(OPDOCK_F32, {4});
        call.out(OPDOCK_F32, {4}).out(OPDOCK_F32, {4}).out(OPDOCK_F32, {4});
        CHECK_FALSE(bind(signature, call.args()).writes_inputs);
        call.output(which).address = call.input(which).address;
        CHECK(bind(signature, call.args()).writes_inputs);
        call.output(which).address = call.input(which).address + 4;
        CHECK(bind_error(signature.text, call).find("without being the same view") != std::string::npos);
        call.output(which).address = call.input(0).address;
        CHECK(bind_error(signature.text, call).find("is written and overlaps input 'w'") != std::string::npos);
    }
}

TEST_CASE("'~' allows one input, not another") {
    CallArguments call;
    call.in(OPDOCK_F32, {4}).in(OPDOCK_F32, {4}).out(OPDOCK_F32, {4});
    call.output(0).address = call.input(1).address;
    CHECK(bind_error(OPDOCK_OP_ADD, call) ==
          "op 'add': output 'output' is written and overlaps input 'b' in memory; only "
          "'output ~ input' may share, and then as the same view");
    // The output shares memory with `a` as declared, but `b` is the same memory.
    call.input(0).address = call.input(1).address;
    CHECK(bind_error(OPDOCK_OP_ADD, call) != "no error");
}

TEST_CASE("a given mut input is written, an absent one is not") {
    const Signature signature = parse_signature(OPDOCK_OP_QUANTIZE);
    CallArguments with;
    with.in(OPDOCK_F32, {4}).in(OPDOCK_F32, {1}).in(OPDOCK_F32, {1}).out(OPDOCK_E4M3, {4});
    with.attribute(dtype_value(OPDOCK_E4M3));
    CHECK(bind(signature, with.args()).writes_inputs);
    CallArguments without;
    without.in(OPDOCK_F32, {4}).in(OPDOCK_F32, {1}).in_absent().out(OPDOCK_E4M3, {4});
    without.attribute(dtype_value(OPDOCK_E4M3));
    CHECK_FALSE(bind(signature, without.args()).writes_inputs);
}

TEST_CASE("a mut input shares its memory with nothing") {
    CallArguments call;
    call.in(OPDOCK_F32, {4}).in(OPDOCK_F32, {1}).in(OPDOCK_F32, {1}).out(OPDOCK_E4M3, {4});
    call.attribute(dtype_value(OPDOCK_E4M3));
    call.input(2).address = call.input(1).address;
    CHECK(bind_error(OPDOCK_OP_QUANTIZE, call) ==
          "op 'quantize': input 'amax' is written and overlaps input 'scale' in "
          "memory; only 'output ~ input' may share, and then as the same view");
}

TEST_CASE("equal addresses on two devices are different memory") {
    CallArguments call;
    call.in(OPDOCK_F32, {4}).out(OPDOCK_F32, {4});
    call.input(0).device = cuda0;
    call.output(0).address = call.input(0).address;
    CHECK(bind_error("f(x: T[n]) -> (host y: T[n])", call) == "no error");
}

TEST_CASE("strides that meet an element twice are an error for what is written, not for what is read") {
    const auto error = [](std::vector<int64_t> shape, std::vector<int64_t> strides) {
        CallArguments call;
        call.in(OPDOCK_F32, shape).out(OPDOCK_F32, shape, std::move(strides));
        return bind_error("f(x: T[...]) -> (y: T[...])", call);
    };
    CHECK(error({4, 8}, {0, 1}) ==
          "op 'f': output 'y' of shape [4, 8] and strides [0, 1] has several indices for one element, so it cannot be "
          "written; pass a tensor of its own");
    CHECK(error({4, 8}, {1, 1}) != "no error");
    CHECK(error({4, 8}, {4, 1}) != "no error");  // rows overlap
    CHECK(error({4, 8}, {-4, 1}) != "no error"); // also backwards
    CHECK(error({4, 8}, {8, 1}) == "no error");
    CHECK(error({4, 8}, {100, 1}) == "no error");
    CHECK(error({4, 8}, {1, 4}) == "no error"); // transposed
    CHECK(error({4, 8}, {-8, 1}) == "no error");
    CHECK(error({3, 2}, {2, 3}) == "no error"); // 0 3 2 5 4 7: interleaved, without overlap
    CHECK(error({1, 8}, {0, 1}) == "no error"); // one row: its stride is never used
    CHECK(error({0, 8}, {0, 0}) == "no error");

    CallArguments expanded;
    expanded.in(OPDOCK_F32, {4, 8}, {0, 1}).out(OPDOCK_F32, {4, 8});
    CHECK(bind_error("f(x: T[...]) -> (y: T[...])", expanded) == "no error");
}

TEST_CASE("the reach of negative strides counts") {
    CallArguments call;
    call.in(OPDOCK_F32, {4}, {-1}).out(OPDOCK_F32, {4});
    const uint64_t address = call.input(0).address; // of the last element: all others lie below it
    call.output(0).address = address - 16;
    CHECK(bind_error("f(x: T[n]) -> (y: T[n])", call) != "no error");
    call.output(0).address = address + 4;
    CHECK(bind_error("f(x: T[n]) -> (y: T[n])", call) == "no error");
    call.output(0).address = address - 12 - 16;
    CHECK(bind_error("f(x: T[n]) -> (y: T[n])", call) == "no error");
}

TEST_CASE("two halves of each row of one buffer do not overlap, one element more and they do") {
    CallArguments call;
    for (int i = 0; i < 3; ++i) {
        call.in(OPDOCK_BF16, {4, 8});
    }
    call.out(OPDOCK_BF16, {4, 8}, {16, 1}).out(OPDOCK_BF16, {4, 8}, {16, 1});
    call.output(1).address = call.output(0).address + 8 * 2;
    CHECK(bind_error(OPDOCK_OP_SILU_AND_MUL_BWD, call) == "no error");
    call.output(1).address -= 2;
    CHECK(bind_error(OPDOCK_OP_SILU_AND_MUL_BWD, call) != "no error");
    call.output(1).address += 4;
    CHECK(bind_error(OPDOCK_OP_SILU_AND_MUL_BWD, call) != "no error");
}

TEST_CASE("even and odd elements do not overlap") {
    CallArguments call;
    call.in(OPDOCK_F32, {8}, {2}).out(OPDOCK_F32, {8}, {2});
    call.output(0).address = call.input(0).address + 4;
    CHECK(bind_error("f(x: T[n]) -> (y: T[n])", call) == "no error");
    call.output(0).address = call.input(0).address + 8;
    CHECK(bind_error("f(x: T[n]) -> (y: T[n])", call) != "no error");
}

// --- lists

TEST_CASE("lists are laid out one after the other, each element with dims of its own") {
    const Signature signature = parse_signature(OPDOCK_OP_MULTI_TENSOR_ADAM);
    CallArguments call = adam({3, 70, 0});
    const Bound bound = bind(signature, call.args());
    CHECK(bound.first == std::vector<uint32_t>{0, 3, 6, 9, 12, 13, 14, 15});
    CHECK(bound.tensors.size() == 15);
    CHECK(bound.tensors.back() == nullptr);
    CHECK(bound.dtypes == std::vector<uint32_t>{OPDOCK_BF16, OPDOCK_F32});
    CHECK(bound.writes_inputs);
    CHECK(bound.used_inputs == 6);
}

TEST_CASE("an element that disagrees is named by its number") {
    CallArguments call = adam({3, 70});
    call.input(5).shape = {71}; // exp_avg[1]
    CHECK(bind_error(OPDOCK_OP_MULTI_TENSOR_ADAM, call) == "op 'multi_tensor_adam': input 'exp_avg'[1] of shape [71]: "
                                                           "dim 0 is 71, expected n = 70 as in input 'grads'[1]");
    call = adam({3, 70});
    call.input(1).dtype = OPDOCK_F32; // grads[1]
    CHECK(bind_error(OPDOCK_OP_MULTI_TENSOR_ADAM, call) ==
          "op 'multi_tensor_adam': input 'grads'[1] has dtype f32, expected T = bf16 as in input 'grads'[0]");
}

TEST_CASE("lists have one length, and every list has a size") {
    CallArguments call = adam({3, 70});
    call.lists({2, 2, 1, 2});
    CHECK(bind_error(OPDOCK_OP_MULTI_TENSOR_ADAM, call) ==
          "op 'multi_tensor_adam': list 'exp_avg' has 1 element, expected 2 as in list 'grads'");
    call.lists({2, 2, 2});
    CHECK(bind_error(OPDOCK_OP_MULTI_TENSOR_ADAM, call) ==
          "op 'multi_tensor_adam': n_lists is 3, expected 4: list 'exp_avg_sq' has no size");
    call.lists({2, 2, 2, 2, 2});
    CHECK(bind_error(OPDOCK_OP_MULTI_TENSOR_ADAM, call) == "op 'multi_tensor_adam': n_lists is 5, expected 4");
    call.lists({9, 9, 9, 9});
    CHECK(bind_error(OPDOCK_OP_MULTI_TENSOR_ADAM, call) ==
          "op 'multi_tensor_adam': input 'params'[1] is missing: the call has 10 inputs");
}

TEST_CASE("a list has no gaps") {
    CallArguments call;
    call.in(OPDOCK_F32, {3}).in_absent().out(OPDOCK_F32, {1}).lists({2});
    CHECK(bind_error(OPDOCK_OP_MULTI_TENSOR_L2NORM, call) ==
          "op 'multi_tensor_l2norm': input 'inputs'[1] is missing: it is null and not optional");
}

TEST_CASE("empty lists are a valid call with nothing to do") {
    const Signature signature = parse_signature(OPDOCK_OP_MULTI_TENSOR_L2NORM);
    CallArguments call;
    call.out(OPDOCK_F32, {1}).lists({0});
    const Bound bound = bind(signature, call.args());
    CHECK(bound.first == std::vector<uint32_t>{0, 0, 1});
    CHECK(bound.dtypes == std::vector<uint32_t>{0});
}

TEST_CASE("an optional list may be absent, empty or as long as the others") {
    const char *text = "f(xs: T[n]*, ys: f32[n]*?) -> ()";
    const Signature signature = parse_signature(text);
    CallArguments left_out;
    left_out.in(OPDOCK_F32, {3}).in(OPDOCK_F32, {4}).lists({2});
    CHECK(bind(signature, left_out.args()).first == std::vector<uint32_t>{0, 2, 2});
    left_out.lists({2, 0});
    CHECK(bind(signature, left_out.args()).used_inputs == 1);
    CallArguments given;
    given.in(OPDOCK_F32, {3}).in(OPDOCK_F32, {4}).in(OPDOCK_F32, {3}).in(OPDOCK_F32, {4}).lists({2, 2});
    CHECK(bind(signature, given.args()).used_inputs == 2);
    given.lists({2, 1});
    CHECK(bind_error(text, given) == "op 'f': list 'ys' has 1 element, expected 2 as in list 'xs'");
}

TEST_CASE("dims bound outside of lists hold for every element") {
    const char *signature = "f(w: T[k], xs: T[n, k]*) -> (ys: T[n]*) where n <= k";
    CallArguments call;
    call.in(OPDOCK_F32, {8}).in(OPDOCK_F32, {3, 8}).in(OPDOCK_F32, {5, 8}).out(OPDOCK_F32, {3}).out(OPDOCK_F32, {5});
    call.lists({2, 2});
    CHECK(bind_error(signature, call) == "no error");
    call.input(2).shape = {5, 7};
    CHECK(bind_error(signature, call) ==
          "op 'f': input 'xs'[1] of shape [5, 7]: dim 1 is 7, expected k = 8 as in input 'w'");
    call.input(2).shape = {9, 8};
    call.output(1).shape = {9};
    CHECK(bind_error(signature, call) ==
          "op 'f': 'where n <= k' does not hold: k = 8 (input 'w'), n = 9 (input 'xs'[1])");
    call.input(2).shape = {5, 8};
    CHECK(bind_error(signature, call) ==
          "op 'f': output 'ys'[1] of shape [9]: dim 0 is 9, expected n = 5 as in input 'xs'[1]");
}

TEST_CASE("each element has an ellipsis of its own") {
    const char *signature = "f(xs: T[..., n]*) -> (sums: f32[...]*)";
    CallArguments call;
    call.in(OPDOCK_F32, {2, 8}).in(OPDOCK_F32, {4, 5, 8}).out(OPDOCK_F32, {2}).out(OPDOCK_F32, {4, 5}).lists({2, 2});
    CHECK(bind_error(signature, call) == "no error");
    call.output(1).shape = {2};
    CHECK(bind_error(signature, call) ==
          "op 'f': output 'sums'[1] of shape [2]: its '...' is [2], expected [4, 5] as in input 'xs'[1]");
}

TEST_CASE("'~' of lists goes element by element") {
    const Signature signature = parse_signature("f(xs: T[n]*) -> (ys ~ xs: T[n]*)");
    CallArguments call;
    call.in(OPDOCK_F32, {3}).in(OPDOCK_F32, {3}).out(OPDOCK_F32, {3}).out(OPDOCK_F32, {3}).lists({2, 2});
    call.output(1).address = call.input(1).address;
    CHECK(bind(signature, call.args()).writes_inputs);
    call.output(1).address = call.input(0).address;
    CHECK(error_of([&] { bind(signature, call.args()); }) != "no error");
}

TEST_CASE("an overlap is found among thousands of tensors, and only where there is one") {
    CallArguments call = adam(std::vector<int64_t>(1000, 16));
    CHECK(bind_error(OPDOCK_OP_MULTI_TENSOR_ADAM, call) == "no error");
    call.input(1500).address = call.input(2999).address + 60;
    CHECK(bind_error(OPDOCK_OP_MULTI_TENSOR_ADAM, call) ==
          "op 'multi_tensor_adam': input 'exp_avg'[999] is written and overlaps input 'params'[500] in memory; only "
          "'output ~ input' may share, and then as the same view");
    call.input(1500).address = call.input(2999).address + 64;
    CHECK(bind_error(OPDOCK_OP_MULTI_TENSOR_ADAM, call) == "no error");
    // Gradients are only read, so they may share memory.
    call.input(7).address = call.input(8).address;
    CHECK(bind_error(OPDOCK_OP_MULTI_TENSOR_ADAM, call) == "no error");
    call.input(1007).address = call.input(7).address;
    CHECK(bind_error(OPDOCK_OP_MULTI_TENSOR_ADAM, call) != "no error");
}

// --- shorter forms

TEST_CASE("a call fits a shorter form when it uses nothing that the form lacks") {
    const Signature shorter = parse_signature("f(x: T[n], *, eps: float = 1e-5) -> (y: T[n])");
    const Signature full = parse_signature("f(x: T[n], b: U[n]?, *, eps: float = 1e-5, exact: bool = false, "
                                           "mode: string = \"a\", axes: int[] = [1], by: float[] = [0.5]) -> "
                                           "(y: T[n], s: f32[n]?)");
    const auto fits = [&](CallArguments call) {
        const Bound bound = bind(full, call.args());
        CHECK(fits_form(full, full, bound));
        return fits_form(shorter, full, bound);
    };
    CallArguments plain;
    plain.in(OPDOCK_F32, {4}).out(OPDOCK_F32, {4});
    CHECK(fits(plain));
    CHECK(fits(CallArguments(plain).in_absent().out_absent()));
    CHECK_FALSE(fits(CallArguments(plain).in(OPDOCK_F32, {4})));
    CHECK_FALSE(fits(CallArguments(plain).out(OPDOCK_F32, {4})));
    CHECK(fits(CallArguments(plain).attribute("eps", value(1.0))));
    CHECK(fits(CallArguments(plain).attribute("exact", value(false))));
    CHECK_FALSE(fits(CallArguments(plain).attribute("exact", value(true))));
    CHECK(fits(CallArguments(plain).attribute("mode", value("a"))));
    CHECK_FALSE(fits(CallArguments(plain).attribute("mode", value("b"))));
    const std::vector<int64_t> same{1};
    const std::vector<int64_t> other{1, 2};
    CHECK(fits(CallArguments(plain).attribute("axes", value(same))));
    CHECK_FALSE(fits(CallArguments(plain).attribute("axes", value(other))));
    const std::vector<double> half{0.5};
    const std::vector<double> halves{0.5, 0.5};
    CHECK(fits(CallArguments(plain).attribute("by", value(half))));
    CHECK_FALSE(fits(CallArguments(plain).attribute("by", value(halves))));
}

TEST_CASE("tensors that take turns in one buffer do not overlap, wherever it begins and whichever is first") {
    for (const uint64_t begin : {0, 4, 8, 12, 400}) {
        for (int64_t apart = -12; apart <= 12; apart += 4) {
            CAPTURE(begin);
            CAPTURE(apart);
            CallArguments call;
            call.in(OPDOCK_F32, {8}, {3}).out(OPDOCK_F32, {8}, {3});
            call.input(0).address += begin;
            call.output(0).address = call.input(0).address + static_cast<uint64_t>(apart);
            CHECK((bind_error("f(x: T[n]) -> (y: T[n])", call) == "no error") == (apart % 12 != 0));
        }
    }
}
