// The element types that signatures can name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "opdock/abi/dtype.h"
#include "opdock/cpp/dtype.hpp"

namespace opdock::core {

using opdock::named_dtypes;
using opdock::NamedDtype;

// "bf16"; a description for a type without a name in signatures ("f128", "u8x4", "dtype code 9 of 3 bits").
std::string dtype_name(uint32_t packed);
inline std::string dtype_name(DLDataType type) {
    return dtype_name(opdock_dtype_pack(type));
}

// Bytes of one element with all its lanes.
inline uint64_t bytes_of(DLDataType type) {
    return (uint64_t{type.bits} * type.lanes + 7) / 8;
}

// nullopt if signatures have no such type.
std::optional<uint32_t> parse_dtype(std::string_view name);

} // namespace opdock::core
