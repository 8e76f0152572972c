#include "signature/standard_ops.hpp"

#include <algorithm>
#include <array>

#include "opdock/standard_ops.h"

namespace opdock::core {
namespace {

constexpr std::string_view name_of(std::string_view text) {
    return text.substr(0, text.find('('));
}

template<std::size_t count>
constexpr std::array<std::string_view, count> by_name(std::array<std::string_view, count> signatures) {
    std::ranges::sort(signatures, {}, name_of);
    return signatures;
}

#define OPDOCK_SIGNATURE(name, NAME) OPDOCK_OP_##NAME,
constexpr std::array texts = by_name(std::to_array<std::string_view>({OPDOCK_STANDARD_OPS(OPDOCK_SIGNATURE)}));
#undef OPDOCK_SIGNATURE

} // namespace

std::string_view standard_signature(std::string_view name) {
    const auto *const found = std::ranges::lower_bound(texts, name, {}, name_of);
    return found != texts.end() && name_of(*found) == name ? *found : std::string_view();
}

} // namespace opdock::core
