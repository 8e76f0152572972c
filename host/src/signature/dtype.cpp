#include "signature/dtype.hpp"

#include <fmt/format.h>

namespace opdock::core {

std::string dtype_name(uint32_t packed) {
    for (const NamedDtype &known : named_dtypes) {
        if (known.packed == packed) {
            return known.name;
        }
    }
    const DLDataType type = opdock_dtype_unpack(packed);
    std::string name;
    switch (type.code) {
    case kDLInt:
        name = fmt::format("i{}", type.bits);
        break;
    case kDLUInt:
        name = fmt::format("u{}", type.bits);
        break;
    case kDLFloat:
        name = fmt::format("f{}", type.bits);
        break;
    case kDLBfloat:
        name = fmt::format("bf{}", type.bits);
        break;
    case kDLComplex:
        name = fmt::format("complex{}", type.bits);
        break;
    default:
        name = fmt::format("dtype code {} of {} bits", type.code, type.bits);
    }
    return type.lanes == 1 ? name : fmt::format("{}x{}", name, type.lanes);
}

std::optional<uint32_t> parse_dtype(std::string_view name) {
    for (const NamedDtype &known : named_dtypes) {
        if (known.name == name) {
            return known.packed;
        }
    }
    return std::nullopt;
}

} // namespace opdock::core
