#include <doctest/doctest.h>

#include <string>

#include "signature/dtype.hpp"

using namespace opdock::core;

TEST_CASE("the names of signatures' dtypes read back") {
    for (const NamedDtype &known : named_dtypes) {
        CAPTURE(std::string(known.name));
        CHECK(dtype_name(known.packed) == known.name);
        CHECK(parse_dtype(known.name) == known.packed);
    }
    CHECK(parse_dtype("f128") == std::nullopt);
    CHECK(parse_dtype("") == std::nullopt);
}

TEST_CASE("a dtype that signatures lack is described") {
    CHECK(dtype_name(OPDOCK_DTYPE(kDLFloat, 128)) == "f128");
    CHECK(dtype_name(OPDOCK_DTYPE(kDLInt, 4)) == "i4");
    CHECK(dtype_name(OPDOCK_DTYPE(kDLUInt, 1)) == "u1");
    CHECK(dtype_name(OPDOCK_DTYPE(kDLComplex, 64)) == "complex64");
    CHECK(dtype_name(OPDOCK_DTYPE(99, 3)) == "dtype code 99 of 3 bits");
    CHECK(dtype_name(DLDataType{kDLFloat, 32, 4}) == "f32x4");
    CHECK(dtype_name(DLDataType{OPDOCK_DL_FLOAT4_E2M1FN, 4, 2}) == "e2m1x2");
}

TEST_CASE("an element has whole bytes, as many as its bits need") {
    CHECK(bytes_of(DLDataType{kDLFloat, 32, 1}) == 4);
    CHECK(bytes_of(DLDataType{kDLUInt, 4, 2}) == 1);
    CHECK(bytes_of(DLDataType{kDLUInt, 4, 1}) == 1);
    CHECK(bytes_of(DLDataType{kDLUInt, 1, 1}) == 1);
    CHECK(bytes_of(DLDataType{kDLUInt, 3, 3}) == 2);
}
