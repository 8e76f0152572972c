#include "cli/printable.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

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
    // Outside strings JSON is ASCII. Inside strings this is the only ASCII control character that may occur without an
    // escape sequence.
    for (size_t i = 0; i < document.size();) {
        const std::string_view character =
            document.substr(i, std::max<size_t>(core::character_bytes(document.substr(i)), 1));
        i += character.size();
        if (character == "\x7f") {
            result += "\\u007f";
        } else if (character.size() == 4 && !core::is_printable(character)) {
            // JSON has no \U: such a character becomes a surrogate pair.
            const std::string quoted = nlohmann::json(std::string(character)).dump(-1, ' ', true);
            result.append(quoted, 1, quoted.size() - 2);
        } else {
            result += character;
        }
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
