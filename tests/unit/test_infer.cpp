#include <doctest/doctest.h>

#include <array>
#include <limits>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "call_arguments.hpp"
#include "signature/dtype.hpp"
#include "signature/infer.hpp"
#include "standard_signatures.hpp"

using namespace opdock;
using namespace opdock::core;
using opdock::core::parse_signature;
using opdock::test::CallArguments;
using opdock::test::dtype_value;
using opdock::test::error_of;
using opdock::test::value;

namespace {

// The inferred outputs as text: "output bf16[4, 8]; rsigma f32[4]?"
std::string inferred(std::string_view signature, CallArguments &call) {
    const Signature parsed = parse_signature(signature);
    std::string text;
    for (const InferredOutput &spec : infer_outputs(parsed, call.args())) {
        CHECK(spec.name == parsed.outputs.at(spec.parameter).name);
        text += (text.empty() ? "" : "; ") + std::string(spec.name) + " " + core::dtype_name(spec.dtype) + "[";
        for (int32_t i = 0; i < spec.ndim; ++i) {
            text += (i == 0 ? "" : ", ") + std::to_string(spec.shape.at(static_cast<size_t>(i)));
        }
        text += spec.optional ? "]?" : "]";
    }
    return text;
}

// Zeroes the stack memory that later calls from here will use.
[[gnu::noinline]] void clear_stack() {
    std::array<volatile char, 16384> there;
    for (volatile char &byte : there) {
        byte = 0;
    }
}

std::string infer_error(std::string_view signature, CallArguments &call) {
    const Signature parsed = parse_signature(signature);
    return error_of([&] { infer_outputs(parsed, call.args()); });
}

} // namespace

TEST_CASE("outputs take dtype and shape from the inputs, optional ones as well") {
    CallArguments call;
    call.in(OPDOCK_BF16, {4, 2, 8}).in(OPDOCK_F32, {8});
    CHECK(inferred(OPDOCK_OP_RMSNORM_FWD, call) == "output bf16[4, 2, 8]; rsigma f32[4, 2]?");
    CallArguments row;
    row.in(OPDOCK_F16, {8}).in(OPDOCK_F16, {8});
    CHECK(inferred(OPDOCK_OP_RMSNORM_FWD, row) == "output f16[8]; rsigma f32[]?");
}

TEST_CASE("an int attribute tells a dim of an output") {
    const char *topk = "topk(x: T[..., n], *, k: int = 2) -> (values: T[..., k], indices: i64[..., k]) where k <= n";
    CallArguments call;
    call.in(OPDOCK_F32, {4, 8});
    CHECK(inferred(topk, call) == "values f32[4, 2]; indices i64[4, 2]");
    call.attribute(value(5));
    CHECK(inferred(topk, call) == "values f32[4, 5]; indices i64[4, 5]");
    CallArguments too_many;
    too_many.in(OPDOCK_F32, {4, 8}).attribute(value(9));
    CHECK(infer_error(topk, too_many) ==
          "op 'topk': 'where k <= n' does not hold: n = 8 (input 'x'), k = 9 (attribute 'k')");
    CallArguments negative;
    negative.in(OPDOCK_F32, {4, 8}).attribute(value(-1));
    CHECK(infer_error(topk, negative) == "op 'topk': attribute 'k' is -1; it is a dim, expected 0 or more");
    CallArguments lists;
    lists.in(OPDOCK_F32, {8}).in(OPDOCK_F32, {9}).lists({2}).attribute(value(3));
    CHECK(inferred("f(x: T[n]*, *, k: int) -> (y: T[n+k]*)", lists) == "y f32[11]; y f32[12]");
}

TEST_CASE("an output with a counted dim is inferred as large as it can be") {
    const char *nonzero = "nonzero(x: T[n, k], *, most: int = 100) -> (indices: i64[m, 2], m: i64[]) "
                          "where m <= n*k, m <= most";
    CallArguments call;
    call.in(OPDOCK_F32, {4, 8});
    CHECK(inferred(nonzero, call) == "indices i64[32, 2]; m i64[]");
    call.attribute(value(5));
    CHECK(inferred(nonzero, call) == "indices i64[5, 2]; m i64[]");
    const Signature parsed = parse_signature(nonzero); // former content of memory is not taken for a size
    const opdock_args &args = call.args();
    clear_stack();
    CHECK(infer_outputs(parsed, args).at(0).shape.at(0) == 5);
    CallArguments negative;
    negative.in(OPDOCK_F32, {4});
    CHECK(infer_error("f(x: T[n]) -> (y: T[m], m: i64[]) where m <= n-5", negative) ==
          "op 'f': output 'y' would have the negative dim m = -1");
    CallArguments shifted; // only a clause on the dim alone bounds the count
    shifted.in(OPDOCK_F32, {4});
    CHECK(inferred("f(x: T[n]) -> (y: T[m], m: i64[]) where m <= n, m-3 <= 1", shifted) == "y f32[4]; m i64[]");
    CHECK(inferred("f(x: T[n]) -> (y: T[m], m: i64[]) where m <= n, m >= 1, m < 3", shifted) == "y f32[4]; m i64[]");
    CHECK(inferred("f(x: T[n]) -> (y: T[a], a: i64[], z: T[b], b: i64[]) where b <= a-1, a <= n, b <= n", shifted) ==
          "y f32[4]; a i64[]; z f32[4]; b i64[]"); // nor does a clause on both
}

TEST_CASE("the tensors of each element of a list have to fit together") {
    for (const int64_t wrong : {0, 1}) {
        CallArguments adam;
        for (int i = 0; i < 4; ++i) {
            for (const int64_t element : {0, 1}) {
                adam.in(OPDOCK_F32, {i == 1 && element == wrong ? 7 : 3 + element});
            }
        }
        adam.in(OPDOCK_F32, {1}).in(OPDOCK_F32, {1}).lists({2, 2, 2, 2});
        const std::string error = infer_error(OPDOCK_OP_MULTI_TENSOR_ADAM, adam);
        CHECK_MESSAGE(error.find("7") != std::string::npos, error);
    }
}

TEST_CASE("standard ops infer what their documentation says") {
    CallArguments swiglu;
    swiglu.in(OPDOCK_F32, {0, 10});
    CHECK(inferred(OPDOCK_OP_SWIGLU, swiglu) == "output f32[0, 5]");
    CallArguments swiglu_bwd;
    swiglu_bwd.in(OPDOCK_F32, {3, 5}).in(OPDOCK_F32, {3, 10});
    CHECK(inferred(OPDOCK_OP_SWIGLU_BWD, swiglu_bwd) == "grad_input f32[3, 10]");
    CallArguments matmul;
    matmul.in(OPDOCK_F16, {7, 2, 3}).in(OPDOCK_F16, {7, 3, 4});
    CHECK(inferred(OPDOCK_OP_MATMUL, matmul) == "output f16[7, 2, 4]");
    CallArguments linear;
    linear.in(OPDOCK_F32, {2, 3}).in(OPDOCK_F32, {5, 3});
    CHECK(inferred(OPDOCK_OP_LINEAR_FWD, linear) == "output f32[2, 5]");
    CallArguments wgrad;
    wgrad.in(OPDOCK_F32, {2, 5}).in(OPDOCK_F32, {2, 3});
    CHECK(inferred(OPDOCK_OP_LINEAR_WGRAD, wgrad) == "grad_weight f32[5, 3]; grad_bias f32[5]?");
    CallArguments loss;
    loss.in(OPDOCK_BF16, {6, 100}).in(OPDOCK_I64, {6});
    CHECK(inferred(OPDOCK_OP_CROSS_ENTROPY_FWD, loss) == "loss f32[6]; lse f32[6]?");
    CallArguments dropout;
    dropout.in(OPDOCK_F32, {4, 4}).in(OPDOCK_I64, {2}).attribute("p", value(0.1));
    CHECK(inferred(OPDOCK_OP_DROPOUT_FWD, dropout) == "output f32[4, 4]; mask u8[4, 4]");
    CallArguments adam;
    adam.in(OPDOCK_F32, {3}).in(OPDOCK_F32, {3}).in(OPDOCK_F32, {3}).in(OPDOCK_F32, {3});
    adam.in(OPDOCK_F32, {1}).in(OPDOCK_F32, {1}).lists({1, 1, 1, 1});
    CHECK(inferred(OPDOCK_OP_MULTI_TENSOR_ADAM, adam).empty());
}

TEST_CASE("a dtype attribute tells the dtype of an output") {
    CallArguments call;
    call.in(OPDOCK_E4M3, {4}).in(OPDOCK_F32, {1}).attribute("dtype", dtype_value(OPDOCK_F16));
    CHECK(inferred(OPDOCK_OP_DEQUANTIZE, call) == "output f16[4]");
}

TEST_CASE("inference needs no data, no device and no outputs, and does not look at them") {
    const Signature signature = parse_signature(OPDOCK_OP_GELU);
    CallArguments call;
    call.in(OPDOCK_F32, {4}).out(OPDOCK_I64, {1, 2, 3}).out_absent();
    call.input(0).address = 0;
    call.input(0).device = DLDevice{static_cast<DLDeviceType>(0), 0};
    CHECK(inferred(OPDOCK_OP_GELU, call) == "output f32[4]");
}

TEST_CASE("computed dims follow the formula") {
    const char *signature = "f(x: T[a, n]) -> (y: u8[a*n, (n+7)/8, n-1, 8*((n+7)/8), 3])";
    CallArguments call;
    call.in(OPDOCK_F32, {2, 17});
    CHECK(inferred(signature, call) == "y u8[34, 3, 16, 24, 3]");
    call.input(0).shape = {2, 0};
    CHECK(infer_error(signature, call) == "op 'f': output 'y' would have the negative dim n-1 = -1");
}

TEST_CASE("an output with a dim beyond 64 bits is named, with what makes it so large") {
    CallArguments call;
    call.in(OPDOCK_F32, {std::numeric_limits<int64_t>::max()}, {0});
    const std::string with = " does not fit into 64 bits, with n = 9223372036854775807 (input 'x')";
    for (const char *dim : {"2*n", "n*n", "n+1"}) {
        const std::string expected = fmt::format("op 'f': output 'y' would have the dim {}, which{}", dim, with);
        CHECK(infer_error(fmt::format("f(x: T[n]) -> (y: T[{}])", dim), call) == expected);
        CHECK(infer_error(fmt::format("f(x: T[n]) -> (y: T[{}]?)", dim), call) == expected);
    }
    CHECK(infer_error("f(x: T[n]) -> (y: T[n]) where n*n > 3", call) == "op 'f': n*n of 'where n*n > 3'" + with);
    CallArguments rows;
    rows.in(OPDOCK_F32, {2, std::numeric_limits<int64_t>::max()}, {0, 0});
    CHECK(infer_error("f(x: T[m, n]) -> (y: T[n*n])", rows) ==
          "op 'f': output 'y' would have the dim n*n, which" + with);
}

TEST_CASE("an ellipsis goes where the output has it, up to the highest rank") {
    CallArguments call;
    call.in(OPDOCK_F32, {1, 2, 3, 4});
    CHECK(inferred("f(x: T[b, ..., n]) -> (y: T[n, ..., b], z: T[...])", call) == "y f32[4, 2, 3, 1]; z f32[2, 3]");
    call.input(0).shape = {1, 2, 3, 4, 5, 6, 7, 8};
    CHECK(infer_error("f(x: T[...]) -> (y: T[..., 2])", call) == "op 'f': output 'y' would have more than 8 dims");
}

TEST_CASE("an optional output that only an absent input would tell is left out") {
    const char *signature = "f(x: T[n], w: U[n, m]?) -> (y: T[n], dw: U[n]?, dm: f32[m]?, dx: T[n]?)";
    CallArguments without;
    without.in(OPDOCK_F32, {4});
    CHECK(inferred(signature, without) == "y f32[4]; dx f32[4]?");
    CallArguments with;
    with.in(OPDOCK_F32, {4}).in(OPDOCK_F16, {4, 3});
    CHECK(inferred(signature, with) == "y f32[4]; dw f16[4]?; dm f32[3]?; dx f32[4]?");
}

TEST_CASE("an optional output whose open axes only an absent input would tell is left out") {
    const char *signature = "f(x: T[n], w: T[..., m]?) -> (y: T[n], z: T[...]?, v: T[..., n]?)";
    CallArguments without;
    without.in(OPDOCK_F32, {4});
    CHECK(inferred(signature, without) == "y f32[4]");
    CallArguments with;
    with.in(OPDOCK_F32, {4}).in(OPDOCK_F32, {2, 3, 5});
    CHECK(inferred(signature, with) == "y f32[4]; z f32[2, 3]?; v f32[2, 3, 4]?");
}

TEST_CASE("a list of outputs has one spec for each element") {
    CallArguments call;
    call.in(OPDOCK_F32, {8}).in(OPDOCK_F16, {3, 2}).in(OPDOCK_F16, {5, 1}).lists({2});
    CHECK(inferred("f(w: T[k], xs: U[n, m]*) -> (ys: T[k, n]*, zs: U[2*m]*)", call) ==
          "ys f32[8, 3]; ys f32[8, 5]; zs f16[4]; zs f16[2]");
}

TEST_CASE("a list that is absent tells nothing, whichever tensors follow") {
    CallArguments call;
    call.in(OPDOCK_F32, {3}).in(OPDOCK_F32, {5}).in(OPDOCK_I32, {7}).lists({0, 2});
    CHECK(inferred("f(xs: T[m, n]*?, ys: U[k]*, z: i32[l]) -> (us: U[k, l]*)", call) == "us f32[3, 7]; us f32[5, 7]");
}

TEST_CASE("a dtype that only an empty list would tell cannot be inferred") {
    CallArguments call;
    call.lists({0});
    CHECK(infer_error("total(xs: T[n]*) -> (sum: T[1])", call) ==
          "op 'total': output 'sum' cannot be inferred: its dtype or shape comes from a list, and the lists are empty");
    CHECK(inferred(OPDOCK_OP_MULTI_TENSOR_L2NORM, call) == "norm f32[1]");
}

TEST_CASE("inference refuses the inputs and attributes that a call would refuse") {
    CallArguments dims;
    dims.in(OPDOCK_F32, {4, 8}).in(OPDOCK_F32, {5});
    CHECK(infer_error(OPDOCK_OP_RMSNORM_FWD, dims) ==
          "op 'rmsnorm_fwd': input 'weight' of shape [5]: dim 0 is 5, expected n = 8 as in input 'input'");
    CallArguments missing;
    missing.in(OPDOCK_F32, {4, 8});
    CHECK(infer_error(OPDOCK_OP_RMSNORM_FWD, missing) ==
          "op 'rmsnorm_fwd': input 'weight' is missing: the call has 1 inputs");
    CallArguments attribute;
    attribute.in(OPDOCK_F32, {4, 8}).in(OPDOCK_F32, {8}).attribute("eps", value("small"));
    CHECK(infer_error(OPDOCK_OP_RMSNORM_FWD, attribute) ==
          "op 'rmsnorm_fwd': attribute 'eps' is of type string, expected float");
    CallArguments clause;
    clause.in(OPDOCK_F32, {64, 2, 4, 16}).in(OPDOCK_F32, {32, 1, 1, 16});
    CHECK(infer_error(OPDOCK_OP_FUSED_ROPE_FWD, clause) ==
          "op 'fused_rope_fwd': 'where m >= s' does not hold: s = 64 (input 'input'), m = 32 (input 'freqs')");
}
