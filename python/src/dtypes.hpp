// Names of each dtype in opdock and in the libraries whose tensors it accepts.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "opdock/opdock.hpp"

namespace opdock::python {

struct Dtype {
    std::string_view name;      // in signatures
    std::string_view elsewhere; // name in torch, numpy and ml_dtypes
    DLDataType dtype;
    int32_t torch; // c10::ScalarType; these numbers are frozen, and so are XLA's
    int32_t xla;   // xla::PrimitiveType; -1 if XLA has no such dtype
};

inline constexpr std::array dtypes = {
    Dtype{"f64", "float64", {kDLFloat, 64, 1}, 7, 12},
    Dtype{"f32", "float32", {kDLFloat, 32, 1}, 6, 11},
    Dtype{"f16", "float16", {kDLFloat, 16, 1}, 5, 10},
    Dtype{"bf16", "bfloat16", {kDLBfloat, 16, 1}, 15, 16},
    Dtype{"e4m3", "float8_e4m3fn", {OPDOCK_DL_FLOAT8_E4M3FN, 8, 1}, 24, 20},
    Dtype{"e5m2", "float8_e5m2", {OPDOCK_DL_FLOAT8_E5M2, 8, 1}, 23, 19},
    Dtype{"e8m0", "float8_e8m0fnu", {OPDOCK_DL_FLOAT8_E8M0FNU, 8, 1}, 44, 33},
    Dtype{"e2m1x2", "float4_e2m1fn_x2", {OPDOCK_DL_FLOAT4_E2M1FN, 4, 2}, 45, -1},
    Dtype{"i64", "int64", {kDLInt, 64, 1}, 4, 5},
    Dtype{"i32", "int32", {kDLInt, 32, 1}, 3, 4},
    Dtype{"i16", "int16", {kDLInt, 16, 1}, 2, 3},
    Dtype{"i8", "int8", {kDLInt, 8, 1}, 1, 2},
    Dtype{"u64", "uint64", {kDLUInt, 64, 1}, 29, 9},
    Dtype{"u32", "uint32", {kDLUInt, 32, 1}, 28, 8},
    Dtype{"u16", "uint16", {kDLUInt, 16, 1}, 27, 7},
    Dtype{"u8", "uint8", {kDLUInt, 8, 1}, 0, 6},
    Dtype{"bool", "bool", {OPDOCK_DL_BOOL, 8, 1}, 11, 1},
};

// Returns the first dtype for which `is_it` is true; null if there is none.
template<class Predicate>
const Dtype *find_dtype(Predicate is_it) {
    for (const Dtype &one : dtypes) {
        if (is_it(one)) {
            return &one;
        }
    }
    return nullptr;
}

} // namespace opdock::python
