// SPDX-License-Identifier: Apache-2.0
// The declaration of an op, as a constant.
#ifndef OPDOCK_CPP_OP_HPP
#define OPDOCK_CPP_OP_HPP

#include <cstddef>
#include <string_view>

namespace opdock {

// Refers to string literals. `doc` is one paragraph for people, or empty.
struct OpDeclaration {
    std::string_view name;
    std::string_view signature; // NUL-terminated
    std::string_view doc;       // NUL-terminated

    // "acme.scale(x: T[...]) -> (y: T[...])"; the name is the text before the parenthesis.
    template<std::size_t Size>
    constexpr explicit OpDeclaration(const char (&text)[Size]) noexcept
        : name(std::string_view(text, Size - 1).substr(0, std::string_view(text, Size - 1).find('('))),
          signature(text, Size - 1) {}
    template<std::size_t Size, std::size_t DocSize>
    constexpr OpDeclaration(const char (&text)[Size], const char (&paragraph)[DocSize]) noexcept : OpDeclaration(text) {
        doc = std::string_view(paragraph, DocSize - 1);
    }
};

} // namespace opdock

// opdock::ops::name, for the lists of the standard ops.
#define OPDOCK_DECLARE_OP(name, NAME) inline constexpr OpDeclaration name(OPDOCK_OP_##NAME);

#endif
