// SPDX-License-Identifier: Apache-2.0
// Mapping from element types known at run time to C++ types, and back.
//
//     return opdock::visit_floating(call.input(0)->dtype, [&](auto tag) {
//         using T = typename decltype(tag)::type;
//         return scale<T>(call);
//     });
#ifndef OPDOCK_CPP_DTYPE_HPP
#define OPDOCK_CPP_DTYPE_HPP

#include <cstdint>
#include <string>
#include <type_traits>

#include "opdock/abi/dtype.h"
#include "opdock/cpp/floats.hpp"
#include "opdock/cpp/status.hpp"

namespace opdock {

// A type as a value.
template<class T>
struct TypeTag {
    using type = T;
};

// An element type that signatures can name.
struct NamedDtype {
    const char *name;     // "bf16"
    std::uint32_t packed; // as OPDOCK_DTYPE packs it
};

// All named dtypes, in the order in which messages list them.
inline constexpr NamedDtype named_dtypes[] = {
    {"f64", OPDOCK_F64},   {"f32", OPDOCK_F32},   {"f16", OPDOCK_F16},   {"bf16", OPDOCK_BF16},
    {"e4m3", OPDOCK_E4M3}, {"e5m2", OPDOCK_E5M2}, {"e8m0", OPDOCK_E8M0}, {"e2m1x2", OPDOCK_E2M1X2},
    {"i64", OPDOCK_I64},   {"i32", OPDOCK_I32},   {"i16", OPDOCK_I16},   {"i8", OPDOCK_I8},
    {"i4x2", OPDOCK_I4X2}, {"u64", OPDOCK_U64},   {"u32", OPDOCK_U32},   {"u16", OPDOCK_U16},
    {"u8", OPDOCK_U8},     {"u4x2", OPDOCK_U4X2}, {"bool", OPDOCK_BOOL},
};

// Returns the name in signatures, or a description of the type's parts.
inline std::string dtype_name(DLDataType dtype) {
    for (const NamedDtype &known : named_dtypes) {
        if (known.packed == opdock_dtype_pack(dtype))
            return known.name;
    }
    return "dtype(code " + std::to_string(dtype.code) + ", " + std::to_string(dtype.bits) + " bits, " +
           std::to_string(dtype.lanes) + " lanes)";
}

namespace detail {

template<class T>
inline constexpr std::uint32_t packed_dtype = 0; // a type of the kernel's own: only its size is compared
template<>
inline constexpr std::uint32_t packed_dtype<float> = OPDOCK_F32;
template<>
inline constexpr std::uint32_t packed_dtype<half_t> = OPDOCK_F16;
template<>
inline constexpr std::uint32_t packed_dtype<bfloat16_t> = OPDOCK_BF16;
template<>
inline constexpr std::uint32_t packed_dtype<double> = OPDOCK_F64;
template<>
inline constexpr std::uint32_t packed_dtype<std::int64_t> = OPDOCK_I64;
template<>
inline constexpr std::uint32_t packed_dtype<std::int32_t> = OPDOCK_I32;
template<>
inline constexpr std::uint32_t packed_dtype<std::int16_t> = OPDOCK_I16;
template<>
inline constexpr std::uint32_t packed_dtype<std::int8_t> = OPDOCK_I8;

} // namespace detail

// True if elements of `dtype` may be read as T. Unsigned integers, and types that are not opdock's, match every dtype
// of their size.
template<class T>
bool holds(DLDataType dtype) noexcept {
    constexpr std::uint32_t packed = detail::packed_dtype<std::remove_const_t<T>>;
    if constexpr (packed != 0)
        return opdock_dtype_pack(dtype) == packed;
    else
        return static_cast<std::size_t>(dtype.bits) * dtype.lanes == sizeof(T) * 8;
}

// Returns visit(TypeTag<T>{}) for the T among float, half_t and bfloat16_t that `dtype` names; declines other dtypes.
template<class Visitor>
auto visit_floating(DLDataType dtype, Visitor &&visit) {
    switch (opdock_dtype_pack(dtype)) {
    case OPDOCK_F32:
        return visit(TypeTag<float>{});
    case OPDOCK_F16:
        return visit(TypeTag<half_t>{});
    case OPDOCK_BF16:
        return visit(TypeTag<bfloat16_t>{});
    default:
        throw Failure(OPDOCK_UNSUPPORTED, "expected f32, f16 or bf16, found " + dtype_name(dtype));
    }
}

} // namespace opdock

#endif
