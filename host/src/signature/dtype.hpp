// The element types that signatures can name.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "opdock/abi/dtype.h"

namespace opdock::core {

struct NamedDtype {
    std::string_view name;
    uint32_t packed; // as OPDOCK_DTYPE packs it
};

inline constexpr std::array<NamedDtype, 9> named_dtypes{{
    {"f32", OPDOCK_F32},
    {"f16", OPDOCK_F16},
    {"bf16", OPDOCK_BF16},
    {"e4m3", OPDOCK_E4M3},
    {"e5m2", OPDOCK_E5M2},
    {"i64", OPDOCK_I64},
    {"i32", OPDOCK_I32},
    {"u8", OPDOCK_U8},
    {"bool", OPDOCK_BOOL},
}};

// "bf16"; a type that signatures cannot name is described ("f64", "u8x4", "dtype code 9 of 3 bits").
std::string dtype_name(uint32_t packed);
inline std::string dtype_name(DLDataType type) {
    return dtype_name(opdock_dtype_pack(type));
}

// Nothing when signatures have no such type.
std::optional<uint32_t> parse_dtype(std::string_view name);

} // namespace opdock::core
