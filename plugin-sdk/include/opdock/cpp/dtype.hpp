// From element types known at run time to C++ types and back.
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

// As signatures spell it: "bf16".
inline std::string dtype_name(DLDataType dtype) {
    switch (opdock_dtype_pack(dtype)) {
    case OPDOCK_F32:
        return "f32";
    case OPDOCK_F16:
        return "f16";
    case OPDOCK_BF16:
        return "bf16";
    case OPDOCK_E4M3:
        return "e4m3";
    case OPDOCK_E5M2:
        return "e5m2";
    case OPDOCK_I64:
        return "i64";
    case OPDOCK_I32:
        return "i32";
    case OPDOCK_U8:
        return "u8";
    case OPDOCK_BOOL:
        return "bool";
    default:
        return "dtype(code " + std::to_string(dtype.code) + ", " + std::to_string(dtype.bits) + " bits, " +
               std::to_string(dtype.lanes) + " lanes)";
    }
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
inline constexpr std::uint32_t packed_dtype<std::int64_t> = OPDOCK_I64;
template<>
inline constexpr std::uint32_t packed_dtype<std::int32_t> = OPDOCK_I32;

} // namespace detail

// Whether elements of `dtype` may be read as T. std::uint8_t and types that are not opdock's fit every dtype of their
// size.
template<class T>
bool holds(DLDataType dtype) noexcept {
    constexpr std::uint32_t packed = detail::packed_dtype<std::remove_const_t<T>>;
    if constexpr (packed != 0)
        return opdock_dtype_pack(dtype) == packed;
    else
        return static_cast<std::size_t>(dtype.bits) * dtype.lanes == sizeof(T) * 8;
}

// Returns visit(TypeTag<T>{}) for the T of float, half_t and bfloat16_t that `dtype` names; declines other dtypes.
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
