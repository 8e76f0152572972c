// Checks which attentions go to cuDNN, and the message if cuDNN is missing; neither needs a GPU.
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "attention_cudnn.hpp"
#include "opened_library.hpp"

namespace {

using Shape = std::vector<int64_t>;

opdock_value attribute(uint32_t type, int64_t i, double f = 0) {
    opdock_value value = {};
    value.type = type;
    if (type == OPDOCK_VALUE_FLOAT) {
        value.as.f = f;
    } else {
        value.as.i = i;
    }
    return value;
}

// A call of attention_fwd, or of attention_bwd, that cuDNN supports; each test modifies it.
struct Attention {
    bool is_backward = false;
    int64_t b = 2, s = 128, h = 8, k = 128, g = 2, d = 64, e = 64;
    bool causal = false, has_bias = false, has_starts = false, has_grad_bias = false;
    int64_t left = -1, right = -1;
    double soft_cap = 0;
    int64_t gap_of_query = 0, gap_of_lse = 0; // elements between rows

    // Empty if the call goes to cuDNN.
    std::string why_not() const {
        const Shape query = {b, s, h, d}, key = {b, k, g, d}, value = {b, k, g, e}, output = {b, s, h, e},
                    lse = {b, h, s}, absent = {};
        const Shape bias = has_bias ? Shape{b, h, s, k} : absent, starts = has_starts ? Shape{3} : absent;
        std::vector<Shape> shapes = is_backward
                                        ? std::vector<Shape>{output,
                                                             query,
                                                             key,
                                                             value,
                                                             output,
                                                             lse,
                                                             bias,
                                                             starts,
                                                             starts,
                                                             query,
                                                             key,
                                                             value,
                                                             has_grad_bias ? Shape{b, h, s, k} : absent}
                                        : std::vector<Shape>{query, key, value, bias, starts, starts, output, lse};
        std::vector<Shape> strides(shapes.size());
        std::vector<DLTensor> tensors(shapes.size());
        std::vector<const DLTensor *> pointers;
        std::vector<uint32_t> offsets = {0};
        for (size_t i = 0; i < shapes.size(); ++i) {
            const bool is_query = i == (is_backward ? 1 : 0), is_lse = shapes[i] == lse;
            int64_t step = 1;
            strides[i].resize(shapes[i].size());
            for (size_t n = shapes[i].size(); n-- > 0;) {
                strides[i][n] = step;
                step = step * shapes[i][n] + (n + 1 == shapes[i].size() ? is_query * gap_of_query : 0) +
                       (is_lse ? gap_of_lse : 0);
            }
            tensors[i].ndim = static_cast<int>(shapes[i].size());
            tensors[i].shape = shapes[i].data();
            tensors[i].strides = strides[i].data();
            tensors[i].dtype = opdock_dtype_unpack(is_lse ? OPDOCK_F32 : OPDOCK_BF16);
            pointers.push_back(shapes[i].empty() ? nullptr : &tensors[i]);
            offsets.push_back(static_cast<uint32_t>(i + 1));
        }
        const std::vector<opdock_value> attributes = {
            attribute(OPDOCK_VALUE_NONE, 0), attribute(OPDOCK_VALUE_BOOL, causal ? 1 : 0),
            attribute(OPDOCK_VALUE_INT, left), attribute(OPDOCK_VALUE_INT, right),
            attribute(OPDOCK_VALUE_FLOAT, 0, soft_cap)};
        opdock_problem problem = {};
        problem.n_inputs = is_backward ? 9 : 6;
        problem.n_outputs = is_backward ? 4 : 2;
        problem.tensors = pointers.data();
        problem.tensor_offsets = offsets.data();
        problem.n_attributes = 5;
        problem.attributes = attributes.data();
        const opdock::Status status = is_backward ? gpu::cudnn_supports_backward(opdock::Problem(problem))
                                                  : gpu::cudnn_supports_forward(opdock::Problem(problem));
        CHECK(status.code() == (status.ok() ? OPDOCK_OK : OPDOCK_UNSUPPORTED));
        return status.ok() ? "" : status.message();
    }
};

// The reason for both ops, which must agree.
template<class Change>
std::string why_not(const Change &change) {
    Attention forward, backward;
    backward.is_backward = true;
    change(forward);
    change(backward);
    CHECK(forward.why_not() == backward.why_not());
    return forward.why_not();
}

bool contains(const std::string &text, const std::string &part) {
    return text.find(part) != std::string::npos;
}

} // namespace

TEST_CASE("attention of whole sequences goes to cuDNN, masked or not") {
    CHECK(why_not([](Attention &) {}).empty());
    CHECK(why_not([](Attention &a) { a.causal = true; }).empty());
    CHECK(why_not([](Attention &a) { a.causal = true, a.k = 256; }).empty());
    CHECK(why_not([](Attention &a) { a.left = 16, a.right = 3; }).empty());
    CHECK(why_not([](Attention &a) { a.s = 256; }).empty());
    CHECK(why_not([](Attention &a) { a.s = 256, a.left = 128, a.right = 256; }).empty()); // all keys are seen
    CHECK(why_not([](Attention &a) { a.gap_of_query = 8; }).empty());
}

TEST_CASE("what cuDNN does not compute as the op says, or not at all, is declined with the reason") {
    CHECK(contains(why_not([](Attention &a) { a.has_starts = true; }), "different lengths"));
    CHECK(contains(why_not([](Attention &a) { a.has_bias = true; }), "bias"));
    CHECK(contains(why_not([](Attention &a) { a.soft_cap = 30; }), "soft cap"));
    CHECK(contains(why_not([](Attention &a) { a.d = 12; }), "multiple of 8 elements, at most 256; these have 12"));
    CHECK(contains(why_not([](Attention &a) { a.d = a.e = 264; }), "these have 264"));
    CHECK(contains(why_not([](Attention &a) { a.gap_of_query = 4; }), "16 bytes apart"));
    CHECK(contains(why_not([](Attention &a) { a.gap_of_lse = 1; }), "lse without gaps"));
    CHECK(contains(why_not([](Attention &a) { a.k = 0; }), "empty"));
    CHECK(contains(why_not([](Attention &a) { a.b = 1 << 12, a.s = 1 << 12; }), "2^31"));
}

TEST_CASE("queries before the first key see none under a mask, and cuDNN is not asked") {
    CHECK(contains(why_not([](Attention &a) { a.s = 256, a.causal = true; }), "see no key"));
    CHECK(contains(why_not([](Attention &a) { a.s = 256, a.left = 16; }), "see no key"));
    CHECK(contains(why_not([](Attention &a) { a.s = 256, a.right = 254; }), "see no key"));
}

TEST_CASE("gradients of one query and one key do not go to cuDNN") {
    Attention one;
    one.s = one.k = 1;
    CHECK(one.why_not().empty());
    one.is_backward = true;
    CHECK(contains(one.why_not(), "one query and one key"));
}

TEST_CASE("the gradient of a bias does not come from cuDNN") {
    Attention wanted;
    wanted.is_backward = wanted.has_grad_bias = true;
    CHECK(contains(wanted.why_not(), "gradient of a bias"));
}

TEST_CASE("a library that is not there is named with the loader's words, and has no functions") {
    gpu::OpenedLibrary absent("cuDNN", {"libopdock-no-such.so.8", "libopdock-no-such.so.9"});
    const std::string why_not = absent.why_not();
    CHECK(contains(why_not, "cuDNN cannot be opened: "));
    CHECK(contains(why_not, "libopdock-no-such.so.8"));
    CHECK(contains(why_not, "libopdock-no-such.so.9"));
    auto *function = reinterpret_cast<double (*)(double)>(1);
    absent.find("cos", function);
    CHECK(static_cast<bool>(function == nullptr));
    CHECK(absent.why_not() == why_not);
}

TEST_CASE("a library is taken as it is when it is there, and refused for the first thing that it lacks") {
    gpu::OpenedLibrary library("the C library", {"libopdock-no-such.so.9", "libm.so.6"});
    double (*cosine)(double) = nullptr;
    library.find("cos", cosine);
    REQUIRE(static_cast<bool>(cosine != nullptr));
    CHECK(cosine(0.0) == 1.0);
    CHECK(library.why_not().empty());
    library.find("no_such_function", cosine);
    library.refuse("is too old");
    CHECK(static_cast<bool>(cosine == nullptr));
    CHECK(library.why_not() == "the C library has no function no_such_function");
}
