// Common parts of all fuzz targets: the input as text, and a check for properties that hold for every input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string_view>

namespace opdock::fuzz {

// Ends the process if the property does not hold. libFuzzer reports this as a finding and keeps the input.
inline void require(bool holds, const char *what) {
    if (!holds) {
        std::fprintf(stderr, "does not hold: %s\n", what);
        std::abort();
    }
}

inline std::string_view text_of(const std::uint8_t *data, std::size_t size) {
    return {reinterpret_cast<const char *>(data), size};
}

inline std::span<const std::byte> bytes_of(const std::uint8_t *data, std::size_t size) {
    return std::as_bytes(std::span(data, size));
}

} // namespace opdock::fuzz
