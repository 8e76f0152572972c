// The dtype tuples served, and their mapping to types.
#pragma once

#include "opdock/plugin.hpp"

namespace cpu {

inline constexpr const char *any_float = "f32|f16|bf16";                              // T
inline constexpr const char *weighted = "f32,f32|f16,f16|f16,f32|bf16,bf16|bf16,f32"; // T, U
inline constexpr const char *to_fp8 = "f32,e4m3|f32,e5m2|f16,e4m3|f16,e5m2|bf16,e4m3|bf16,e5m2";
inline constexpr const char *to_8_bits =
    "f32,i8|f32,e4m3|f32,e5m2|f16,i8|f16,e4m3|f16,e5m2|bf16,i8|bf16,e4m3|bf16,e5m2";
// T, U, F.
inline constexpr const char *weighted_to_fp8 =
    "f32,f32,e4m3|f32,f32,e5m2|f16,f16,e4m3|f16,f16,e5m2|f16,f32,e4m3|f16,f32,e5m2|"
    "bf16,bf16,e4m3|bf16,bf16,e5m2|bf16,f32,e4m3|bf16,f32,e5m2";
inline constexpr const char *from_fp8 = "e4m3,f32|e5m2,f32|e4m3,f16|e5m2,f16|e4m3,bf16|e5m2,bf16";
// F, G, T.
inline constexpr const char *fp8_factors =
    "e4m3,e4m3,f32|e4m3,e4m3,f16|e4m3,e4m3,bf16|e4m3,e5m2,f32|e4m3,e5m2,f16|e4m3,e5m2,bf16|"
    "e5m2,e4m3,f32|e5m2,e4m3,f16|e5m2,e4m3,bf16|e5m2,e5m2,f32|e5m2,e5m2,f16|e5m2,e5m2,bf16";

// T, P; T, U, P.
inline constexpr const char *with_positions = "f32,i32|f32,i64|f16,i32|f16,i64|bf16,i32|bf16,i64";
inline constexpr const char *weighted_with_positions =
    "f32,f32,i32|f32,f32,i64|f16,f16,i32|f16,f16,i64|f16,f32,i32|f16,f32,i64|bf16,bf16,i32|bf16,bf16,i64|"
    "bf16,f32,i32|bf16,f32,i64";

// Calls visit(TypeTag<T>, TypeTag<U>), where U is T or float.
template<class Visitor>
void visit_weighted(DLDataType t, DLDataType u, Visitor &&visit) {
    opdock::visit_floating(t, [&](auto tag) {
        if (opdock_dtype_pack(u) == opdock_dtype_pack(t))
            visit(tag, tag);
        else
            visit(tag, opdock::TypeTag<float>{});
    });
}

} // namespace cpu
