#include "text/spelling.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <vector>

namespace opdock::core {
namespace {

constexpr std::size_t longest_shown = 80;

char lower(char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

// Edits between two folded words: insertion, deletion, replacement, and the swap of neighbours, which is the most
// common slip of a keyboard.
std::size_t distance(std::string_view from, std::string_view to) {
    std::vector<std::size_t> before(to.size() + 1), above(to.size() + 1), row(to.size() + 1);
    for (std::size_t j = 0; j <= to.size(); ++j) {
        above[j] = j;
    }
    for (std::size_t i = 1; i <= from.size(); ++i) {
        row[0] = i;
        for (std::size_t j = 1; j <= to.size(); ++j) {
            const std::size_t replaced = above[j - 1] + (from[i - 1] == to[j - 1] ? 0 : 1);
            row[j] = std::min({above[j] + 1, row[j - 1] + 1, replaced});
            if (i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1]) {
                row[j] = std::min(row[j], before[j - 2] + 1);
            }
        }
        before.swap(above);
        above.swap(row);
    }
    return above[to.size()];
}

// Bytes of the well-formed UTF-8 sequence at the start of `text`; 0 when it is broken.
std::size_t sequence_length(std::string_view text) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned char first = byte(0);
    const std::size_t length = first < 0x80                     ? 1
                               : first >= 0xc2 && first <= 0xdf ? 2
                               : first >= 0xe0 && first <= 0xef ? 3
                               : first >= 0xf0 && first <= 0xf4 ? 4
                                                                : 0;
    if (length == 0 || length > text.size()) {
        return 0;
    }
    for (std::size_t i = 1; i < length; ++i) {
        if ((byte(i) & 0xc0) != 0x80) {
            return 0;
        }
    }
    return length;
}

} // namespace

std::string folded(std::string_view text) {
    std::string result(text);
    std::transform(result.begin(), result.end(), result.begin(), lower);
    return result;
}

bool same_name(std::string_view left, std::string_view right) {
    return std::equal(left.begin(), left.end(), right.begin(), right.end(),
                      [](char a, char b) { return lower(a) == lower(b); });
}

std::string_view trimmed(std::string_view text) {
    constexpr std::string_view white = " \t\r\n\f\v";
    const std::size_t begin = text.find_first_not_of(white);
    if (begin == std::string_view::npos) {
        return text.substr(0, 0);
    }
    return text.substr(begin, text.find_last_not_of(white) - begin + 1);
}

std::optional<int64_t> whole_number(std::string_view text) {
    if (same_name(text, "true") || same_name(text, "false")) {
        return same_name(text, "true") ? 1 : 0;
    }
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size() && !text.empty() ? std::optional(value)
                                                                                     : std::nullopt;
}

bool is_printable(std::string_view text) {
    for (size_t i = 0; i < text.size();) {
        const auto lead = static_cast<unsigned char>(text[i]);
        size_t length = 1;
        uint32_t code = lead;
        if (lead >= 0x80) {
            length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
            if (lead < 0xc2 || lead > 0xf4 || i + length > text.size()) {
                return false;
            }
            code = lead & (0x7fu >> length);
            for (size_t k = 1; k < length; ++k) {
                const auto next = static_cast<unsigned char>(text[i + k]);
                if ((next & 0xc0u) != 0x80) {
                    return false;
                }
                code = code << 6u | (next & 0x3fu);
            }
            constexpr uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
            if (code < smallest[length] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) {
                return false;
            }
        }
        if (code < 0x20 || (code >= 0x7f && code < 0xa0)) {
            return false;
        }
        i += length;
    }
    return true;
}

std::string quote(std::string_view text) {
    constexpr char digits[] = "0123456789abcdef";
    std::string result = "'";
    std::size_t shown = 0;
    for (std::size_t i = 0; i < text.size(); ++shown) {
        if (shown == longest_shown) {
            return result + "...'";
        }
        const auto byte = static_cast<unsigned char>(text[i]);
        const std::size_t length = byte < 0x20 || byte == 0x7f ? 0 : sequence_length(text.substr(i));
        if (length == 0) {
            result += {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
            ++i;
        } else {
            result += text.substr(i, length);
            i += length;
        }
    }
    return result + "'";
}

std::string_view nearest(std::string_view word, std::span<const std::string_view> known) {
    constexpr std::size_t longest_compared = 128; // the longest name there is; more is not a slip of the keyboard
    if (word.size() > longest_compared) {
        return {};
    }
    const std::string wanted = folded(word);
    std::string_view best;
    std::size_t best_distance = std::max<std::size_t>(1, word.size() / 3) + 1; // a third of the letters may be wrong
    for (const std::string_view candidate : known) {
        const std::size_t difference =
            candidate.size() > word.size() ? candidate.size() - word.size() : word.size() - candidate.size();
        if (difference >= best_distance) {
            continue;
        }
        if (const std::size_t edits = distance(wanted, folded(candidate)); edits < best_distance) {
            best = candidate;
            best_distance = edits;
        }
    }
    return best;
}

std::string did_you_mean(std::string_view word, std::span<const std::string_view> known) {
    const std::string_view guess = nearest(word, known);
    return guess.empty() ? std::string() : "; did you mean " + quote(guess) + "?";
}

std::string one_of(std::span<const std::string_view> words) {
    std::string result;
    for (std::size_t i = 0; i < words.size(); ++i) {
        result += i == 0 ? "" : i + 1 == words.size() ? " or " : ", ";
        result += quote(words[i]);
    }
    return result;
}

} // namespace opdock::core
