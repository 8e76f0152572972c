#include "opdock/tensor.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

#include <doctest/doctest.h>

#include "opdock/cpp/floats.hpp"

namespace {

DLTensor tensor(int64_t *shape, int64_t *strides, int ndim) {
    DLTensor made = {};
    made.shape = shape;
    made.strides = strides;
    made.ndim = ndim;
    return made;
}

} // namespace

TEST_CASE("elements of a tensor are counted and found in row-major order, whatever its strides") {
    std::array<int64_t, 3> shape = {2, 3, 4};
    std::array<int64_t, 3> strides = {1, 100, -7};
    const DLTensor any = tensor(shape.data(), strides.data(), 3);
    CHECK(opdock_n_elements(&any) == 24);
    int64_t i = 0;
    for (int64_t a = 0; a < 2; ++a)
        for (int64_t b = 0; b < 3; ++b)
            for (int64_t c = 0; c < 4; ++c, ++i)
                CHECK(opdock_offset(&any, i) == a + 100 * b - 7 * c);
    const DLTensor scalar = tensor(shape.data(), strides.data(), 0);
    CHECK(opdock_n_elements(&scalar) == 1);
    CHECK(opdock_offset(&scalar, 0) == 0);
    shape[1] = 0;
    CHECK(opdock_n_elements(&any) == 0);
}

TEST_CASE("bf16 in C is what it is in C++") {
    for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) {
        const auto bf16 = static_cast<std::uint16_t>(bits);
        opdock::bfloat16_t same;
        same.bits = bf16;
        const float value = opdock_bf16_to_float(bf16);
        CHECK((std::isnan(value) ? std::isnan(float(same)) : value == float(same)));
        for (const float other : {value, value * 1.001F, value * 0.999F, std::nextafter(value, 0.0F)})
            CHECK(opdock_float_to_bf16(other) == opdock::bfloat16_t(other).bits);
    }
    CHECK(opdock_float_to_bf16(std::numeric_limits<float>::max()) == 0x7f80);
}
