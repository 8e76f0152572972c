#include "cli/printable.hpp"

#include <cstdio>

namespace opdock::cli {

std::string printable(std::string_view text) {
    constexpr const char *digits = "0123456789abcdef";
    std::string result;
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if ((byte < 0x20 && c != '\n') || byte == 0x7f) {
            result += "\\x";
            result += digits[byte >> 4];
            result += digits[byte & 0xf];
        } else {
            result += c;
        }
    }
    return result;
}

std::string indent_further_lines(std::string_view text, size_t columns) {
    std::string result;
    for (const char c : text) {
        result += c;
        if (c == '\n') {
            result.append(columns, ' ');
        }
    }
    return result;
}

size_t columns(std::string_view text) {
    size_t count = 0;
    for (const char c : text) {
        count += (static_cast<unsigned char>(c) & 0xc0) != 0x80 ? 1 : 0;
    }
    return count;
}

std::string short_number(double value) {
    char text[32];
    std::snprintf(text, sizeof text, value >= 1000 ? "%.0f" : "%.3g", value);
    return text;
}

} // namespace opdock::cli
