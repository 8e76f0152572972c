#include "cli/printable.hpp"

#include "text/spelling.hpp"

namespace opdock::cli {

std::string printable(std::string_view text) {
    return core::visible(text);
}

std::string printable_line(std::string_view text) {
    return core::visible_line(text);
}

std::string printable_json(std::string_view document) {
    std::string result;
    // Outside strings there is nothing but ASCII, and in them no control character of ASCII but this one stands as it
    // is.
    for (const char c : document) {
        result += c == '\x7f' ? std::string("\\u007f") : std::string(1, c);
    }
    return core::visible(result);
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

} // namespace opdock::cli
