#include "op-call/tensor.hpp"

#include <cmath>
#include <cstring>

#include <doctest/doctest.h>

#include "op-call/element.hpp"

using namespace opdock::op_call;

static HostTensor made(const char *text, uint64_t seed = 0) {
    return make_up(std::get<MadeUp>(parse_source(text)), seed);
}

static bool same(const HostTensor &a, const HostTensor &b) {
    return a.bytes == b.bytes && std::memcmp(a.memory.get(), b.memory.get(), a.bytes) == 0;
}

TEST_CASE("the seed alone decides what is random") {
    CHECK(same(made("random:bf16[100]", 7), made("random:bf16[100]", 7)));
    CHECK_FALSE(same(made("random:bf16[100]", 7), made("random:bf16[100]", 8)));
}

TEST_CASE("random integers stay in their range and reach both ends") {
    const HostTensor tensor = made("random:i64[1000]:-2..3");
    bool low = false;
    bool high = false;
    for (size_t i = 0; i < tensor.values; ++i) {
        const double value = load_element(tensor.dtype, tensor.memory.get(), i);
        CHECK(value >= -2);
        CHECK(value <= 2);
        low = low || value == -2;
        high = high || value == 2;
    }
    CHECK(low);
    CHECK(high);
}

TEST_CASE("random numbers without a range are standard normal") {
    const HostTensor tensor = made("random:f32[20000]");
    double sum = 0;
    double squares = 0;
    for (size_t i = 0; i < tensor.values; ++i) {
        const double value = load_element(tensor.dtype, tensor.memory.get(), i);
        sum += value;
        squares += value * value;
    }
    CHECK(sum / 20000 == doctest::Approx(0).scale(1).epsilon(0.03));
    CHECK(squares / 20000 == doctest::Approx(1).epsilon(0.03));
}

TEST_CASE("spaced numbers are at even distances, and integers are rounded down") {
    const HostTensor starts = made("spaced:i32[5]:0..10");
    const HostTensor values = made("spaced:f32[3]:-1..1");
    for (size_t i = 0; i < 5; ++i) {
        CHECK(load_element(starts.dtype, starts.memory.get(), i) == std::floor(2.5 * static_cast<double>(i)));
    }
    for (size_t i = 0; i < 3; ++i) {
        CHECK(load_element(values.dtype, values.memory.get(), i) == static_cast<double>(i) - 1);
    }
    CHECK(load_element(OPDOCK_I64, made("spaced:i64[1]:3..4").memory.get(), 0) == 3);
}

TEST_CASE("zeros are zero and ones are one") {
    const HostTensor zeros = made("zeros:f16[3]");
    const HostTensor ones = made("ones:f16[3]");
    for (size_t i = 0; i < 3; ++i) {
        CHECK(load_element(OPDOCK_F16, zeros.memory.get(), i) == 0);
        CHECK(load_element(OPDOCK_F16, ones.memory.get(), i) == 1);
    }
}

TEST_CASE("tensors are aligned, also without elements") {
    for (const char *text : {"zeros:u8[1]", "zeros:u8[0]", "zeros:f32[]"}) {
        INFO(text);
        CHECK(reinterpret_cast<uintptr_t>(made(text).memory.get()) % 256 == 0);
    }
    CHECK(made("zeros:f32[]").values == 1);
    CHECK(made("zeros:f32[4,0]").values == 0);
}

TEST_CASE("a tensor larger than the memory there is says how large") {
    CHECK_THROWS_WITH_AS(made("zeros:f32[10000000,10000000]"),
                         "not enough memory for f32[10000000,10000000], which takes 400000000000000 bytes", NoMemory);
}

TEST_CASE("a size that does not fit is an error, not an allocation") {
    CHECK_THROWS_AS(made("zeros:f32[4611686018427387904,16]"), NoMemory);
}
