#include "signature/call_shape.hpp"

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "call_arguments.hpp"

using namespace opdock::core;
using opdock::test::CallArguments;
using opdock::test::value;

namespace {

// The shape of a call with this tensor as its first input.
struct Shape {
    Shape(uint32_t dtype, std::vector<int64_t> shape, std::vector<int64_t> strides = {}) {
        call.in(dtype, std::move(shape), std::move(strides));
    }
    const TensorShape &tensor() {
        taken = std::make_unique<CallShape>(signature, bind(signature, call.args()));
        return taken->tensors[0];
    }

    Signature signature = parse_signature("f(x: T[...]) -> () where T in f32|f16|i64|u8");
    CallArguments call;
    std::unique_ptr<CallShape> taken;
};

uint64_t extent(std::vector<int64_t> shape, std::vector<int64_t> strides = {}, uint32_t dtype = OPDOCK_F32) {
    return Shape(dtype, std::move(shape), std::move(strides)).tensor().extent;
}

bool is_contiguous(std::vector<int64_t> shape, std::vector<int64_t> strides = {}) {
    return Shape(OPDOCK_F32, std::move(shape), std::move(strides)).tensor().contiguous;
}

bool is_backwards(std::vector<int64_t> shape, std::vector<int64_t> strides) {
    return Shape(OPDOCK_F32, std::move(shape), std::move(strides)).tensor().backwards;
}

} // namespace

TEST_CASE("a tensor reaches from its first element to the end of its last, whichever way its strides go") {
    CHECK(extent({}) == 4);
    CHECK(extent({3, 5}) == 60);
    CHECK(extent({3, 5}, {}, OPDOCK_I64) == 120);
    CHECK(extent({3, 5}, {}, OPDOCK_U8) == 15);
    CHECK(extent({3, 5}, {8, 1}) == 84);
    CHECK(extent({3, 5}, {1, 3}) == 60);
    CHECK(extent({3, 5}, {-8, 1}) == 84);
    CHECK(extent({3, 5}, {8, -1}) == 84);
    CHECK(extent({3, 5}, {-8, -1}) == 84);
    CHECK(extent({3, 1}, {2, -700}) == 20); // with one element, its stride does not matter
    CHECK(extent({3, 0}) == 0);
    CHECK(extent({3, 0}, {-7, 900}) == 0);
}

TEST_CASE("a tensor is contiguous when its elements follow each other without gaps, row by row") {
    CHECK(is_contiguous({}));
    CHECK(is_contiguous({3, 5}));
    CHECK(is_contiguous({3, 5}, {5, 1}));
    CHECK(is_contiguous({1, 5}, {700, 1}));
    CHECK(is_contiguous({3, 0}, {-7, 900}));
    CHECK_FALSE(is_contiguous({3, 5}, {8, 1}));
    CHECK_FALSE(is_contiguous({3, 5}, {1, 3}));
    CHECK_FALSE(is_contiguous({3, 5}, {-5, 1}));
    CHECK_FALSE(is_contiguous({5}, {2}));
}

TEST_CASE("a tensor goes backwards where it has elements before its first one") {
    CHECK(is_backwards({3, 5}, {-8, 1}));
    CHECK(is_backwards({3, 5}, {8, -1}));
    CHECK_FALSE(is_backwards({3, 5}, {8, 1}));
    CHECK_FALSE(is_backwards({1, 5}, {-8, 1}));
}

TEST_CASE("the shape of a call has strides as numbers, and tells whether they were given") {
    Shape without(OPDOCK_F16, {3, 5});
    const TensorShape &one = without.tensor();
    CHECK_FALSE(one.given_strides);
    CHECK(one.tensor.data == nullptr);
    CHECK(one.tensor.strides[0] == 5);
    CHECK(one.tensor.strides[1] == 1);
    CHECK(one.alignment_mask == 1);
    Shape with(OPDOCK_I64, {3, 5}, {-8, 1});
    const TensorShape &other = with.tensor();
    CHECK(other.given_strides);
    CHECK(other.tensor.strides[0] == -8);
    CHECK(other.alignment_mask == 7);
}

TEST_CASE("the shape of a call owns its strings and lists") {
    const Signature signature = parse_signature("f(x: f32[n], y: f32[n]?, *, s: string = \"\", l: int[] = [], "
                                                "f: float[], t: string[]) -> ()");
    std::string text = "text";
    std::vector<int64_t> numbers = {7, 8};
    std::vector<double> floats = {0.5};
    std::vector<opdock_text> texts = {{text.c_str(), 2}};
    CallArguments call;
    call.in(OPDOCK_F32, {3}).in_absent().attribute(value(text.c_str())).attribute(value(numbers));
    call.attribute(value(floats)).attribute(value(texts));
    const CallShape shape(signature, bind(signature, call.args()));
    text = "else";
    numbers = {1, 2};
    floats = {1};
    texts = {{"", 0}};
    CHECK(shape.attributes[2].as.floats[0] == 0.5);
    CHECK(std::string(shape.attributes[3].as.strings[0].text) == "te");
    CHECK(shape.attributes[3].as.strings[0].size == 2);
    CHECK(std::string(shape.attributes[0].as.s) == "text");
    CHECK(shape.attributes[1].as.ints[0] == 7);
    CHECK(shape.attributes[1].as.ints[1] == 8);
    CHECK(shape.n_tensors == 2);
    CHECK(shape.n_input_tensors == 2);
    CHECK_FALSE(shape.tensors[0].absent);
    CHECK(shape.tensors[1].absent);
    CHECK(shape.pointers[0] == &shape.tensors[0].tensor);
    CHECK(shape.pointers[1] == nullptr);
}
