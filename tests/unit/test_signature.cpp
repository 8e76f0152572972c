#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "call_arguments.hpp"
#include "signature/signature.hpp"
#include "standard_signatures.hpp"

using namespace opdock;
using namespace opdock::core;
using opdock::OpDeclaration;
using opdock::core::parse_signature;
using opdock::test::error_of;

namespace {

std::string parse_error(std::string_view text) {
    return error_of([text] { parse_signature(text); });
}

// The first line of a message, without the excerpt below it.
std::string first_line(std::string_view text) {
    const std::string error = parse_error(text);
    return error.substr(0, error.find('\n'));
}

std::string canonical(std::string_view text) {
    return parse_signature(text).text;
}

std::string repeat(size_t times, std::string_view text) {
    std::string all;
    for (size_t i = 0; i < times; ++i) {
        all += text;
    }
    return all;
}

// Parameters x0: f32[1], x1: f32[1], ...
std::string parameters(size_t count, const std::string &type = "f32[1]") {
    std::string all;
    for (size_t i = 0; i < count; ++i) {
        all += (i == 0 ? "x" : ", x") + std::to_string(i) + ": " + type;
    }
    return all;
}

} // namespace

TEST_CASE("every standard signature parses, and its canonical text is the one it was written in") {
    for (const OpDeclaration &op : test::standard_ops) {
        CAPTURE(std::string(op.signature));
        const Signature parsed = parse_signature(op.signature);
        CHECK(parsed.name == op.name);
        CHECK(parsed.text == op.signature);
    }
}

TEST_CASE("parsing the printed form gives the same signature") {
    for (const OpDeclaration &op : test::standard_ops) {
        CAPTURE(std::string(op.signature));
        const Signature once = parse_signature(op.signature);
        CHECK(parse_signature(print_signature(once)) == once);
    }
}

TEST_CASE("spaces and line breaks make no difference") {
    CHECK(parse_signature("f ( x:T[...,n],\n\t* , eps:float=1e-5 )->( y : T [ ... , n ] )") ==
          parse_signature("f(x: T[..., n], *, eps: float = 1e-5) -> (y: T[..., n])"));
}

TEST_CASE("an op may take nothing and give nothing") {
    CHECK(canonical("sync() -> ()") == "sync() -> ()");
    CHECK(canonical("seed(*, value: int) -> ()") == "seed(*, value: int) -> ()");
}

TEST_CASE("dtype variables are numbered by first appearance, attributes between inputs and outputs") {
    CHECK(parse_signature("f(a: U[n], b: T[n], *, to: F) -> (y: F[n])").dtype_variables ==
          std::vector<std::string>{"U", "T", "F"});
    CHECK(parse_signature(OPDOCK_OP_DEQUANTIZE).dtype_variables == std::vector<std::string>{"F", "T"});
}

TEST_CASE("a dtype variable stands for f32, f16 and bf16 unless a clause says otherwise") {
    CHECK(parse_signature("f(x: T[n]) -> ()").allowed_dtypes.at(0) ==
          std::vector<uint32_t>{OPDOCK_F32, OPDOCK_F16, OPDOCK_BF16});
    CHECK(parse_signature("f(x: T[n]) -> () where T in e5m2|e4m3").allowed_dtypes.at(0) ==
          std::vector<uint32_t>{OPDOCK_E4M3, OPDOCK_E5M2});
    CHECK(canonical("f(x: T[n]) -> () where T in bf16|f16|f32") == "f(x: T[n]) -> ()");
}

TEST_CASE("every fixed dtype can be named") {
    for (const char *dtype : {"f32", "f16", "bf16", "e4m3", "e5m2", "i64", "i32", "u8", "bool"}) {
        const std::string text = std::string("f(x: ") + dtype + "[n]) -> ()";
        CHECK(canonical(text) == text);
    }
}

TEST_CASE("markers say which inputs are written, on the host, lists and optional") {
    const Signature signature =
        parse_signature("f(host mut a: f32[1], b: T[n]*, c: T[n]*?, d: U[1]?) -> (host y: i32[1])");
    CHECK(signature.inputs[0].mut);
    CHECK(signature.inputs[0].host);
    CHECK(signature.inputs[1].list);
    CHECK_FALSE(signature.inputs[1].optional);
    CHECK(signature.inputs[2].list);
    CHECK(signature.inputs[2].optional);
    CHECK(signature.inputs[3].optional);
    CHECK(signature.outputs[0].host);
    CHECK(signature.writes_inputs());
    CHECK(signature.has_lists());
    CHECK(signature.n_params() == 5);
    CHECK(signature.text == "f(mut host a: f32[1], b: T[n]*, c: T[n]*?, d: U[1]?) -> (host y: i32[1])");
}

TEST_CASE("the ellipsis may stand anywhere in a shape, and a shape may be empty") {
    for (const char *text :
         {"f(x: T[...]) -> ()", "f(x: T[b, ..., n]) -> ()", "f(x: T[b, ...]) -> ()", "f(x: T[]) -> ()"}) {
        CHECK(canonical(text) == text);
    }
}

TEST_CASE("n*2 is 2*n, and parentheses that change nothing go away") {
    CHECK(canonical("f(x: T[n*2, (m)]) -> ()") == "f(x: T[2*n, m]) -> ()");
    CHECK(canonical("f(x: T[a, b]) -> (y: T[(a)+(b*2), ((a+b)+1)])") == "f(x: T[a, b]) -> (y: T[a+b*2, a+b+1])");
}

TEST_CASE("parentheses that matter stay") {
    for (const char *dim : {"(n+7)/8", "a-(b-n)", "a*(b/2)", "(a+b)*(n-1)", "a/2*2", "8*((n+7)/8)"}) {
        const std::string text = std::string("f(x: T[a, b, n]) -> (y: T[") + dim + "])";
        CHECK(canonical(text) == text);
    }
}

TEST_CASE("an input may have a computed dim when its names are bound before it") {
    CHECK(canonical("f(x: T[n], scale: f32[(n+127)/128]) -> ()") == "f(x: T[n], scale: f32[(n+127)/128]) -> ()");
    CHECK(canonical("f(x: T[n, (n+7)/8]) -> ()") == "f(x: T[n, (n+7)/8]) -> ()");
    CHECK(first_line("f(scale: f32[(n+127)/128], x: T[n]) -> ()") ==
          "signature, column 14: 'n' is not bound here: a required input before it must have a dim 'n' or '2*n'");
    CHECK(first_line("f(x: T[n]?, scale: f32[n+1]) -> ()") ==
          "signature, column 24: 'n' is not bound here: a required input before it must have a dim 'n' or '2*n'");
}

TEST_CASE("attributes of every type print back with their defaults") {
    for (const char *attribute : {"a: int",
                                  "a: int = -100",
                                  "a: int = -9223372036854775808",
                                  "a: float",
                                  "a: float = 1e-5",
                                  "a: float = 7.0",
                                  "a: float = -inf",
                                  "a: float = 1.5e300",
                                  "a: float = 0.1",
                                  "a: bool = true",
                                  "a: string = \"tanh\"",
                                  "a: string = \"say \\\"no\\\" \\\\ \"",
                                  "a: dtype = bf16",
                                  "a: T = f16",
                                  "a: int[]",
                                  "a: int[] = [1, -2]",
                                  "a: int[] = []",
                                  "a: float[]",
                                  "a: float[] = [1.0, -inf, 1e-5]",
                                  "a: float[] = []",
                                  "a: string[]",
                                  "a: string[] = []",
                                  "a: int?",
                                  "a: float?",
                                  "a: bool?",
                                  "a: string?",
                                  "a: dtype?",
                                  "a: int[]?",
                                  "a: float[]?",
                                  "a: string[]?"}) {
        const std::string text = std::string("f(*, ") + attribute + ") -> ()";
        CHECK(canonical(text) == text);
    }
    for (const char *number : {"1e20", "1.5e22", "-1e100", "2.5e-7", "1e-10", "-1.25e-100", "100.0", "0.001", "-0.5"}) {
        const std::string text = std::string("f(*, a: float = ") + number + ") -> ()";
        CHECK(canonical(text) == text);
    }
    CHECK(canonical("f(*, a: float = 1E+20) -> ()") == "f(*, a: float = 1e20) -> ()");
    CHECK(canonical("f(*, a: float = inf) -> ()") == "f(*, a: float = inf) -> ()");
    CHECK(canonical("f(*, a: float = 1) -> ()") == "f(*, a: float = 1.0) -> ()");
    CHECK(canonical("f(*, a: float = 0.00001) -> ()") == "f(*, a: float = 1e-5) -> ()");
}

TEST_CASE("an optional attribute has no default, and is neither a dim nor a dtype variable") {
    CHECK(parse_signature("f(*, a: int?) -> ()").attributes[0].default_value().type == OPDOCK_VALUE_NONE);
    CHECK(first_line("f(*, a: int? = 3) -> ()") ==
          "signature, column 14: expected ')' or ',' in the list of inputs and attributes, found '='");
    CHECK(first_line("f(*, a: T?) -> ()") ==
          "signature, column 6: 'a' binds a dtype variable, so it cannot be optional; give it a default");
    CHECK(first_line("f(x: T[n], *, k: int?) -> (y: T[k])") ==
          "signature, column 33: 'k' is optional, but a dim must always be present");
    CHECK(first_line("f(*, a: string[] = [\"x\"]) -> ()") ==
          "signature, column 21: expected ']' to end the empty list, "
          "the only default of a list of strings, found \"x\"");
}

TEST_CASE("where clauses compare dims, dims with choices, and expressions") {
    for (const char *clause : {"m >= s", "m <= s", "m > s", "m < s", "m == s", "m != s", "m in 1|s", "2*m in s|s+1|4",
                               "m == 16*(m/16)", "m >= s, m in 1|s"}) {
        const std::string text = std::string("f(x: T[m, s]) -> () where ") + clause;
        CHECK(canonical(text) == text);
    }
}

TEST_CASE("an error shows the column, what was expected, what stands there, and the place") {
    CHECK(parse_error("rmsnorm_fwd(input T[..., n]) -> ()") ==
          "signature, column 19: expected ':' after 'input', found 'T'\n"
          "    rmsnorm_fwd(input T[..., n]) -> ()\n"
          "                      ^");
    CHECK(parse_error("f(" + parameters(10) + "; x: f32[1]) -> ()") ==
          "signature, column 121: expected ')' or ',' in the list of inputs and attributes, found ';'\n"
          "    ...2[1], x7: f32[1], x8: f32[1], x9: f32[1]; x: f32[1]) -> ()\n"
          "                                               ^");
    CHECK(parse_error("f(x; " + parameters(10) + ") -> ()") ==
          "signature, column 4: expected ':' after 'x', found ';'\n"
          "    f(x; x0: f32[1], x1: f32[1], x2: f3...\n"
          "       ^");
}

TEST_CASE("an error shows forty bytes of what stands before the place, and says when there is more") {
    const auto shown = [](size_t name) {
        const std::string error = parse_error("f(" + std::string(name, 'a') + "; b: f32[1]) -> ()");
        const size_t begin = error.find('\n') + 1;
        return error.substr(begin, error.find(';', begin) - begin);
    };
    CHECK(shown(38) == "    f(" + std::string(38, 'a'));
    CHECK(shown(39) == "    ...(" + std::string(39, 'a'));
    CHECK(shown(40) == "    ..." + std::string(40, 'a'));
}

TEST_CASE("an error shows thirty-two bytes of what stands behind, and says when there is more") {
    const std::string start = "f(" + std::string(60, 'a') + "; ";
    const auto shown = [&](size_t name) {
        const std::string error = parse_error(start + std::string(name, 'b'));
        const size_t begin = error.find(';', error.find('\n'));
        return error.substr(begin, error.find('\n', begin) - begin);
    };
    CHECK(shown(30) == "; " + std::string(30, 'b'));
    CHECK(shown(31) == "; " + std::string(30, 'b') + "...");
}

TEST_CASE("bytes that a terminal would act on do not reach the message") {
    CHECK(parse_error("f(x: T[n]\x1b[31m) -> ()") ==
          "signature, column 10: expected ')' or ',' in the list of inputs and attributes, found byte 0x1b\n"
          "    f(x: T[n]?[31m) -> ()\n"
          "             ^");
    CHECK(parse_error("f(x:\t\nT[n]\x01\x08\x0b\x1f\x7f\x80) -> ()") ==
          "signature, column 11: expected ')' or ',' in the list of inputs and attributes, found byte 0x01\n"
          "    f(x:  T[n]?????" // two literals, because it would contain a trigraph
          "?) -> ()\n"
          "              ^");
    CHECK(first_line("f(x: T[\xc3\xa9]) -> ()") == "signature, column 8: expected a dim: a name in lower case, a "
                                                   "number, an expression, or '...', found byte 0xc3");
}

TEST_CASE("an error stays short, and fit for a terminal, whatever stands where it should not") {
    const std::string long_string = parse_error("f(x: \"" + repeat(3000, "a") + "\")");
    CHECK(long_string.size() < 400);
    CHECK(long_string.find("found \"" + repeat(80, "a") + "...\"") != std::string::npos);
    CHECK(first_line("f(x: \"\xff\xfe\")") == "signature, column 6: this string is not printable UTF-8");
    CHECK(parse_error("f(x: T[" + repeat(3000, "1") + "x])").size() < 400);
    CHECK(parse_error("f(*, a: int = " + repeat(3000, "1") + ")").size() < 400);
    CHECK(parse_error("f(*, a: float = " + repeat(3000, "1") + "e400)").size() < 400);
    CHECK(parse_error(repeat(3000, "A") + "()").size() < 400);
}

TEST_CASE("a backslash that escapes nothing is told with its column, and so is one at the end") {
    const std::string expected = ": a backslash in a string may only precede '\"' or another backslash";
    CHECK(first_line("f(*, a: string = \"x\\n\") -> ()") == "signature, column 20" + expected);
    CHECK(first_line("f(*, a: string = \"x\\") == "signature, column 20" + expected);
    CHECK(first_line("f(*, a: string = \"x") ==
          "signature, column 18: this string has no closing '\"' before the end or a control character");
    CHECK(first_line("f(*, a: string = \"x\x1f\") -> ()") ==
          "signature, column 18: this string has no closing '\"' before the end or a control character");
    CHECK(canonical("f(*, a: string = \"\\\\\\\"\") -> ()") == "f(*, a: string = \"\\\\\\\"\") -> ()");
}

TEST_CASE("op names are lower case, digits, underscores and single dots") {
    CHECK(parse_signature("acme.gelu_2() -> ()").name == "acme.gelu_2");
    CHECK(parse_signature("\n\t gelu() -> ()").name == "gelu");
    for (const std::string name : {"Gelu", "_gelu", "2gelu", ".gelu", "acme.", "acme..gelu"}) {
        CAPTURE(name);
        CHECK(first_line(name + "() -> ()") ==
              "signature, column 1: expected the op's name (a-z, 0-9, _ and single dots "
              "inside, a letter first), found '" +
                  name + "'");
    }
    CHECK(first_line("") == "signature, column 1: expected the op's name (a-z, 0-9, _ and single dots inside, a letter "
                            "first), found the end");
    CHECK(first_line("a-b() -> ()") == "signature, column 2: expected '(' after the op's name, found '-'");
    CHECK(first_line("gel\xc3\xbc() -> ()") ==
          "signature, column 4: expected '(' after the op's name, found byte 0xc3");
}

TEST_CASE("names have at most 128 bytes") {
    CHECK(parse_error(repeat(128, "a") + "() -> ()") == "no error");
    CHECK(first_line(repeat(129, "a") + "() -> ()") ==
          "signature, column 1: this name has 129 bytes; names have at most 128");
    CHECK(first_line("f(" + repeat(129, "x") + ": T[n]) -> ()") ==
          "signature, column 3: this name has 129 bytes; names have at most 128");
}

TEST_CASE("limits on size are errors, not truncation") {
    CHECK(parse_error("f() -> ()" + repeat(4096 - 9, " ")) == "no error");
    CHECK(first_line("f() -> ()" + repeat(4096 - 8, " ")) ==
          "this signature has 4097 bytes; signatures have at most 4096");
    CHECK(parse_error("f(" + parameters(64) + ") -> ()") == "no error");
    CHECK(first_line("f(" + parameters(65) + ") -> ()").ends_with("an op has at most 64 inputs and outputs"));
    CHECK(parse_error("f(*, " + parameters(64, "int") + ") -> ()") == "no error");
    CHECK(first_line("f(*, " + parameters(65, "int") + ") -> ()").ends_with("an op has at most 64 attributes"));
    CHECK(first_line("f(x: T[1, 2, 3, 4, 5, 6, 7, 8, 9]) -> ()").ends_with("a tensor has at most 8 dims"));
    CHECK(first_line("f(a: A[1], b: B[1], c: C[1], d: D[1], e: E[1], f: F[1], g: G[1], h: H[1], i: I[1]) -> ()")
              .ends_with("a signature has at most 8 dtype variables"));
    CHECK(first_line("f(x: T[n]) -> (y: T[" + repeat(16, "n+") + "n])")
              .ends_with("an expression has at most 31 numbers, names and operators"));
    CHECK(first_line("f(x: T[n]) -> (y: T[" + repeat(20, "(") + "n" + repeat(20, ")") + "])")
              .ends_with("more than 16 nested parentheses"));
    std::string dims;
    for (size_t i = 0; i < 33; ++i) {
        dims += (i == 0 ? "x" : ", x") + std::to_string(i) + ": f32[d" + std::to_string(i) + "]";
    }
    CHECK(first_line("f(" + dims + ") -> ()").ends_with("a signature has at most 32 different dims"));
}

TEST_CASE("a signature that would be too long with the usual spaces is refused, so that what is printed can be read") {
    const auto dense = [](size_t length) {
        const std::string_view before = "f(*,a:string=\"";
        const std::string_view after = "\")->()";
        return std::string(before) + std::string(length - before.size() - after.size(), 'x') + std::string(after);
    };
    const size_t spaces = canonical(dense(100)).size() - 100;
    CHECK(canonical(dense(4096 - spaces)).size() == 4096);
    CHECK(parse_error(canonical(dense(4096 - spaces))) == "no error");
    CHECK(first_line(dense(4096 - spaces + 1)) == "this signature has 4097 bytes when it is written with the usual "
                                                  "spaces; signatures have at most 4096");
}

TEST_CASE("a name is used once among inputs, attributes and outputs") {
    const std::string expected =
        "the name 'x' is already used; inputs, attributes and outputs must have different names";
    CHECK(first_line("f(x: T[n], x: T[n]) -> ()") == "signature, column 12: " + expected);
    CHECK(first_line("f(x: T[n], *, x: int) -> ()") == "signature, column 15: " + expected);
    CHECK(first_line("f(x: T[n]) -> (x: T[n])") == "signature, column 16: " + expected);
}

TEST_CASE("an attribute cannot have the name of a dim") {
    CHECK(first_line("topk(x: T[k], *, k: int) -> ()") ==
          "signature, column 18: attribute 'k' has the name of a dim; rename one of them");
}

TEST_CASE("an int attribute's name stands for its value in outputs and clauses") {
    const char *topk = "topk(x: T[..., n], *, k: int) -> (values: T[..., k], indices: i64[..., k]) where k <= n";
    const Signature signature = parse_signature(topk);
    CHECK(signature.dim_names == std::vector<std::string>{"n", "k"});
    CHECK(signature.attributes[0].dim == 1);
    CHECK(signature.text == topk);
    CHECK(parse_signature("f(x: T[n], *, k: int = 3) -> ()").attributes[0].dim == -1);
    CHECK(parse_error("f(x: T[n], *, k: int) -> (y: T[2*k+n]?, z: T[k]) where k > 0") == "no error");
    CHECK(first_line("f(x: T[n], *, k: float) -> (y: T[k])") ==
          "signature, column 34: no input has a dim 'k', no int attribute is named 'k', and no output 'k: i64[]' "
          "counts it");
    CHECK(first_line("f(x: T[k], *, k: int) -> ()") ==
          "signature, column 15: attribute 'k' has the name of a dim; rename one of them");
}

TEST_CASE("an output may count a dim of outputs that is at most what a clause says") {
    const char *nonzero = "nonzero(x: T[n, k]) -> (indices: i64[m, 2], m: i64[]) where m <= n*k";
    const Signature signature = parse_signature(nonzero);
    CHECK(signature.dim_names == std::vector<std::string>{"n", "k", "m"});
    CHECK(signature.counted_dims == 1u << 2u);
    CHECK(signature.outputs[0].counts == -1);
    CHECK(signature.outputs[1].counts == 2);
    CHECK(signature.text == nonzero);
    for (const char *count : {"m: i32[]", "m: i64[1]", "m: i64[]?", "count: i64[]", "m: T[]"}) {
        CAPTURE(count);
        CHECK(first_line("f(x: T[n]) -> (y: T[m], " + std::string(count) + ") where m <= n") ==
              "signature, column 21: no input has a dim 'm', no int attribute is named 'm', and no output 'm: i64[]' "
              "counts it");
    }
    for (const char *count : {"m: i64[]*", "m: i64[...]", "m: i64[..., n]"}) {
        CAPTURE(count);
        CHECK(first_line("f(x: T[..., n], l: T[n]*) -> (y: T[m], " + std::string(count) + ") where m <= n") ==
              "signature, column 36: no input has a dim 'm', no int attribute is named 'm', and no output 'm: i64[]' "
              "counts it");
    }
    for (const char *clause : {"", " where m >= n", " where m+0 <= n", " where m <= m", " where m <= b"}) {
        CAPTURE(clause);
        CHECK(first_line("f(x: T[n], b: T[b]?) -> (y: T[m], m: i64[])" + std::string(clause)) ==
              "signature, column 31: the output 'm' counts the dim 'm', which needs a clause 'm <= ...' that limits it "
              "by dims of required inputs and attributes");
    }
    CHECK(first_line("f(x: T[n]*) -> (y: T[m]*, m: i64[]) where m <= 4") ==
          "signature, column 17: 'm' is counted by an output, so it cannot be a dim of a list");
    // A dim that an input has is determined by the input.
    CHECK(parse_signature("f(x: T[n]) -> (y: T[n], n: i64[])").outputs[1].counts == -1);
}

TEST_CASE("an output needs dims and dtypes that inputs tell") {
    CHECK(first_line("f(x: T[n]) -> (y: T[m])") ==
          "signature, column 21: no input has a dim 'm', no int attribute is named 'm', and no output 'm: i64[]' "
          "counts it");
    CHECK(first_line("f(x: T[n]) -> (y: U[n])") ==
          "signature, column 16: 'U' of output 'y' is bound by no required input or dtype attribute");
    CHECK(first_line("f(x: T[n]) -> (y: T[..., n])") ==
          "signature, column 16: '...' of output 'y' is bound by no required input");
    CHECK(first_line("f(x: T[n], b: T[m]?) -> (y: T[m])") ==
          "signature, column 26: 'm' of output 'y' is bound by no required input");
    CHECK(parse_error("f(x: T[n], b: U[m]?) -> (y: U[m]?)") == "no error");
    CHECK(parse_error("f(x: T[n], *, to: U) -> (y: U[n])") == "no error");
}

TEST_CASE("a dim that first appears in a list belongs to its elements") {
    const Signature signature = parse_signature("f(w: T[k], xs: T[n, k]*) -> (ys: T[n]*)");
    CHECK(signature.element_dims == 1u << 1u);
    CHECK(first_line("f(xs: T[n]*) -> (y: T[n])") ==
          "signature, column 18: 'n' differs between the elements of a list; 'y' is not a list");
    CHECK(first_line("f(xs: T[...]*, y: T[...]) -> ()") ==
          "signature, column 16: '...' differs between the elements of a list; 'y' is not a list");
    // Open axes are shared from their first appearance outside of lists.
    CHECK(parse_error("f(xs: T[n]*, y: T[...]) -> (z: T[...])") == "no error");
    CHECK(parse_error("f(x: T[...], ys: T[...]*) -> (z: T[...])") == "no error");
    CHECK(first_line("f(x: T[n]) -> (ys: T[n]*)") ==
          "signature, column 16: a list of outputs takes its length from a list of inputs; the op has none");
}

TEST_CASE("'output ~ input' names an input of the same dtype and dims") {
    CHECK(parse_signature("f(a: T[n], b: T[n]) -> (y ~ b: T[n])").outputs[0].alias == 1);
    CHECK(first_line("f(a: T[n]) -> (y ~ z: T[n])") ==
          "signature, column 20: expected the name of an input after '~', found 'z'");
    const std::string expected = "'y ~ a' share memory, so they need the same dtype, dims and markers";
    CHECK(first_line("f(a: T[n, m]) -> (y ~ a: T[m, n])") == "signature, column 19: " + expected);
    CHECK(first_line("f(a: T[n]) -> (y ~ a: f32[n])") == "signature, column 16: " + expected);
    CHECK(first_line("f(host a: T[n]) -> (y ~ a: T[n])") == "signature, column 21: " + expected);
}

TEST_CASE("markers that make no sense are errors") {
    CHECK(first_line("f(x: T[n]) -> (mut y: T[n])") ==
          "signature, column 16: 'mut' marks inputs that the op writes; outputs are always written");
    CHECK(first_line("f(mut mut x: T[n]) -> ()") == "signature, column 7: 'mut' twice");
    CHECK(first_line("f(x: T[..., ...]) -> ()") == "signature, column 13: '...' may appear at most once in a shape");
}

TEST_CASE("an unknown dtype lists those that exist") {
    for (const char *no_variable : {"TT", "t", "@", "["}) {
        CHECK(first_line(std::string("f(x: ") + no_variable + "[n]) -> ()").starts_with("signature, column 6: "));
    }
    CHECK(first_line("f(x: TT[n]) -> ()").ends_with("as a variable), found 'TT'"));
    CHECK_NOTHROW(parse_signature("f(x: Z[n], y: A[n]) -> ()"));
    CHECK(first_line("f(x: f65[n]) -> ()") == "signature, column 6: expected a dtype (f64 f32 f16 bf16 e4m3 e5m2 e8m0 "
                                              "e2m1x2 i64 i32 i16 i8 i4x2 u64 u32 u16 u8 u4x2 bool or "
                                              "one upper-case letter as a variable), found 'f65'");
}

TEST_CASE("a default must be one of its type") {
    CHECK(first_line("f(*, a: int = 1.5) -> ()") == "signature, column 15: expected a whole number, found '1.5'");
    CHECK(first_line("f(*, a: int = 9223372036854775808) -> ()") ==
          "signature, column 15: 9223372036854775808 does not fit into 64 bits");
    CHECK(first_line("f(*, a: float = 1e999) -> ()") == "signature, column 17: 1e999 does not fit into a double");
    CHECK(first_line("f(*, a: float = nan) -> ()") == "signature, column 17: expected a number, found 'nan'");
    CHECK(first_line("f(*, a: float = \"1\") -> ()") == "signature, column 17: expected a number, found \"1\"");
    CHECK(first_line("f(*, a: bool = 1) -> ()") == "signature, column 16: expected true or false, found '1'");
    CHECK(first_line("f(*, a: string = tanh) -> ()") ==
          "signature, column 18: expected a string in double quotes, found 'tanh'");
    CHECK(first_line("f(*, a: string = \"tanh) -> ()") ==
          "signature, column 18: this string has no closing '\"' before the end or a control character");
    for (const char *text :
         {"\xff", "\xc3", "\xed\xa0\x80", "\xc2\x80"}) { // invalid UTF-8, and a two-byte control character
        CHECK(first_line("f(*, s: string = \"a" + std::string(text) + "\") -> ()") ==
              "signature, column 18: this string is not printable UTF-8");
    }
    CHECK(parse_error("f(*, s: string = \"\xc3\xa4\") -> ()") == "no error");
    CHECK(first_line("f(*, a: int[] = 1) -> ()") ==
          "signature, column 17: expected '[' to begin a list of whole numbers, found '1'");
    CHECK(first_line("f(*, a: real) -> ()") == "signature, column 9: expected int, float, bool, string, dtype, int[], "
                                               "float[], string[] or a dtype variable, found 'real'");
    CHECK(first_line("f(*, a: F = f32) -> () where F in e4m3|e5m2")
              .ends_with("the default f32 of attribute 'a' is not among the dtypes of F: e4m3|e5m2"));
}

TEST_CASE("a where clause speaks of what the signature has, once for each variable") {
    CHECK(first_line("f(x: T[n]) -> () where m >= n") ==
          "signature, column 24: no input or output has a dim 'm', and no int attribute is named 'm'");
    CHECK(first_line("f(x: T[n]) -> () where F in e4m3") ==
          "signature, column 24: no parameter has the dtype variable 'F'");
    CHECK(first_line("f(x: T[n]) -> () where T in f32, T in f16") == "signature, column 34: 'T' has two clauses");
    CHECK(first_line("f(x: T[n]) -> () where T in f32|f32") == "signature, column 33: 'f32' twice");
    CHECK(first_line("f(x: T[n]) -> () where n ~ 2") ==
          "signature, column 26: expected <, <=, >, >=, ==, != or 'in', found '~'");
}

TEST_CASE("dims are divided by positive numbers only") {
    for (const char *dim : {"n/0", "n/m", "n/(2)"}) {
        CAPTURE(dim);
        CHECK(first_line(std::string("f(x: T[n, m]) -> (y: T[") + dim + "])") ==
              "signature, column 26: dims can only be divided by a number of at least 1");
    }
}

TEST_CASE("a remainder is for clauses, and printed as it is written") {
    CHECK(first_line("f(x: T[n, m], y: T[n%m]) -> ()") == "signature, column 21: '%' is for clauses, not for dims");
    for (const char *clause : {"n%m == 0", "n%(m%2) == n*m%3", "n%m%2 == 0", "n%(m*2) < m"}) {
        const std::string text = std::string("f(x: T[n, m]) -> () where ") + clause;
        CHECK(parse_signature(text).text == text);
    }
}

TEST_CASE("what comes after the end is an error") {
    CHECK(first_line("f() -> () -> ()") == "signature, column 11: expected 'where' or the end, found '->'");
    CHECK(first_line("f() -> () 1.5") == "signature, column 11: expected 'where' or the end, found '1.5'");
    CHECK(first_line("f() -> () 1.") == "signature, column 11: expected 'where' or the end, found '1'");
    CHECK(first_line("f() -> () 12e-3") == "signature, column 11: expected 'where' or the end, found '12e-3'");
    CHECK(first_line("f() -> () 2e") == "signature, column 11: expected a number or a name, found '2e'");
    CHECK(first_line("f(x: T[n],) -> ()") == "signature, column 11: expected the name of an input, found ')'");
    CHECK(first_line("f(x: T[n], *) -> ()") ==
          "signature, column 13: expected ',' after '*', which separates attributes from inputs, found ')'");
    CHECK(first_line("f(x: T[2n]) -> ()") == "signature, column 8: expected a number or a name, found '2n'");
}

TEST_CASE("no prefix of a standard signature is taken for a signature") {
    for (const OpDeclaration &op : test::standard_ops) {
        const size_t complete = op.signature.find(')', op.signature.find("->"));
        for (size_t length = 0; length <= complete; ++length) {
            CAPTURE(std::string(op.signature.substr(0, length)));
            REQUIRE(parse_error(op.signature.substr(0, length)).starts_with("signature, column "));
        }
    }
}

TEST_CASE("whatever is done to a signature, it parses to something that prints back, or it is an error") {
    constexpr uint32_t seed = 20240611;
    CAPTURE(seed);
    std::mt19937 random(seed);
    const std::string alphabet = " ()[],:?*=~|+-/<>!.\"\\09anTU_\x01\xff";
    const auto below = [&random](size_t limit) { return static_cast<size_t>(random() % limit); };
    for (int round = 0; round < 20000; ++round) {
        std::string text(test::standard_ops[below(test::standard_ops.size())].signature);
        for (size_t changes = 1 + below(3); changes > 0; --changes) {
            const size_t at = below(text.size());
            const char c = alphabet[below(alphabet.size())];
            switch (below(3)) {
            case 0:
                text[at] = c;
                break;
            case 1:
                text.insert(at, 1, c);
                break;
            default:
                text.erase(at, 1 + below(4));
                break;
            }
        }
        CAPTURE(text);
        const std::string error = parse_error(text);
        if (error == "no error") {
            const Signature parsed = parse_signature(text);
            REQUIRE(parse_signature(parsed.text) == parsed);
        } else {
            REQUIRE(error.starts_with("signature, column "));
        }
    }
}

TEST_CASE("defaults have the values that kernels find when a call leaves them out") {
    const Signature signature = parse_signature("f(x: T[n], *, yes: bool = true, no: bool = false, i: int = -7, r: "
                                                "float = -0.25, s: string = \"a\", l: int[] = "
                                                "[3, -4], d: dtype = bf16) -> ()");
    const auto &attributes = signature.attributes;
    REQUIRE(attributes.size() == 7);
    CHECK(attributes[0].integer == 1);
    CHECK(attributes[1].integer == 0);
    CHECK(attributes[2].integer == -7);
    CHECK(attributes[3].number == -0.25);
    CHECK(attributes[4].text == "a");
    CHECK(attributes[5].integers == std::vector<int64_t>{3, -4});
    CHECK(attributes[6].integer == OPDOCK_BF16);
}

TEST_CASE("an op's combinations of dtypes are listed, the last variable first, and of very many the first 4096") {
    const auto tuples = [](std::string_view text) { return all_tuples(parse_signature(text)); };
    CHECK(tuples("f(x: f32[n]) -> ()") == std::vector<std::vector<uint32_t>>{{}});
    CHECK(
        tuples("f(x: T[n], y: U[n]) -> () where T in f32|f16, U in f32|bf16") ==
        std::vector<std::vector<uint32_t>>{
            {OPDOCK_F32, OPDOCK_F32}, {OPDOCK_F32, OPDOCK_BF16}, {OPDOCK_F16, OPDOCK_F32}, {OPDOCK_F16, OPDOCK_BF16}});
    const std::string many = "f(a: A[1], b: B[1], c: C[1], d: D[1], e: E[1], f: F[1], g: G[1]";
    CHECK(tuples(many + ") -> ()").size() == 2187);
    for (const char *text : {"f(x: f32[n]) -> ()", "f(x: T[n], y: U[n]) -> () where U in f32|bf16"}) {
        CHECK(number_of_tuples(parse_signature(text)) == tuples(text).size());
    }
    CHECK(number_of_tuples(parse_signature(many + ", h: H[1]) -> ()")) == 4096);
    CHECK(tuples(many + ", h: H[1]) -> ()").size() == 4096);
    CHECK(tuples(many + ", h: H[1]) -> ()").back().size() == 8);
}

TEST_CASE("an output shares memory with an input of the same dtype, dims, open axes and markers alone") {
    for (const char *text :
         {"f(a: T[n]) -> (y ~ a: T[n])", "f(a: T[..., n]) -> (y ~ a: T[..., n])", "f(a: T[n]*) -> (y ~ a: T[n]*)",
          "f(host a: T[n]) -> (host y ~ a: T[n])", "f(a: f32[2*n]) -> (y ~ a: f32[2*n])"}) {
        CAPTURE(text);
        CHECK(canonical(text) == text);
    }
    for (const char *text :
         {"f(a: T[n]) -> (y ~ a: T[n, n])", "f(a: T[..., n]) -> (y ~ a: T[n, ...])", "f(a: T[..., n]) -> (y ~ a: T[n])",
          "f(w: T[n], a: T[n]*) -> (y ~ a: T[n])", "f(a: T[n], b: T[n]*) -> (y ~ a: T[n]*)",
          "f(a: T[n]) -> (host y ~ a: T[n])", "f(a: T[n], u: U[n]) -> (y ~ a: U[n])", "f(a: f32[n]) -> (y ~ a: f16[n])",
          "f(a: T[2*n]) -> (y ~ a: T[n])"}) {
        CAPTURE(text);
        CHECK(first_line(text).ends_with("'y ~ a' share memory, so they need the same dtype, dims and markers"));
    }
}

TEST_CASE("as many parentheses, terms and dims as may be are taken, and one more is not") {
    CHECK(parse_error("f(x: T[n]) -> (y: T[" + repeat(16, "(") + "n" + repeat(16, ")") + "])") == "no error");
    CHECK(first_line("f(x: T[n]) -> (y: T[" + repeat(17, "(") + "n" + repeat(17, ")") + "])")
              .ends_with("more than 16 nested parentheses"));
    CHECK(parse_error("f(x: T[n]) -> (y: T[" + repeat(15, "n+") + "n])") == "no error"); // 31
    CHECK(first_line("f(x: T[n]) -> (y: T[" + repeat(15, "n+") + "n*2])")
              .ends_with("an expression has at most 31 numbers, names and operators"));
    CHECK(parse_error("f(x: T[1, 2, 3, 4, 5, 6, 7, 8]) -> ()") == "no error");
    CHECK(parse_error("f(x: T[1, 2, 3, 4, ..., 5, 6, 7, 8]) -> ()") == "no error");
    std::string dims;
    for (size_t i = 0; i < 32; ++i) {
        dims += (i == 0 ? "x" : ", x") + std::to_string(i) + ": f32[d" + std::to_string(i) + "]";
    }
    CHECK(parse_error("f(" + dims + ") -> ()") == "no error");
    CHECK(parse_error("f(a: A[1], b: B[1], c: C[1], d: D[1], e: E[1], f: F[1], g: G[1], h: H[1]) -> ()") == "no error");
}

TEST_CASE("names begin with a letter or an underscore, and go on with digits as well") {
    CHECK(parse_error("f(_: T[n]) -> ()") == "no error");
    CHECK(parse_error("f(aZ09_z: T[n]) -> ()") == "no error");
    CHECK(parse_error("f(x: T[az09_]) -> ()") == "no error");
    CHECK(first_line("f(x: T[N]) -> ()").starts_with("signature, column 8: expected a dim: a name in lower case"));
    CHECK(first_line("f(x: T[_n]) -> ()").starts_with("signature, column 8: expected a dim: a name in lower case"));
    for (const char *c : {"@", "`", "{", "^", "$", "#"}) {
        CAPTURE(c);
        CHECK(first_line("f(x" + std::string(c) + ": T[n]) -> ()") ==
              "signature, column 4: expected ':' after 'x', found '" + std::string(c) + "'");
    }
}
