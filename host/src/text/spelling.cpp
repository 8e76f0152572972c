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

// The first character of a non-empty text.
struct Character {
    std::uint32_t code = 0;
    std::size_t length = 0; // in bytes; 0 if it is not UTF-8
};

Character first_character(std::string_view text) {
    const auto lead = static_cast<unsigned char>(text[0]);
    if (lead < 0x80) {
        return {lead, 1};
    }
    const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    if (lead < 0xc2 || lead > 0xf4 || length > text.size()) {
        return {};
    }
    std::uint32_t code = lead & (0x7fu >> length);
    for (std::size_t i = 1; i < length; ++i) {
        const auto next = static_cast<unsigned char>(text[i]);
        if ((next & 0xc0u) != 0x80) {
            return {};
        }
        code = code << 6u | (next & 0x3fu);
    }
    constexpr std::uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    const bool is_character = code >= smallest[length] && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
    return is_character ? Character{code, length} : Character{};
}

// Characters that move a terminal's cursor, set its title, end a line or change the writing direction; characters
// without width or visible shape, which make texts look alike; tag characters (U+E0020 to U+E007F), which hide text;
// and characters that XML forbids.
bool is_control(std::uint32_t code) {
    const auto within = [code](std::uint32_t first, std::uint32_t last) { return code >= first && code <= last; };
    return code < 0x20 || within(0x7f, 0x9f) || code == 0x00ad || code == 0x061c || within(0x115f, 0x1160) ||
           code == 0x180e || within(0x200b, 0x200f) || within(0x2028, 0x202e) || within(0x2060, 0x206f) ||
           code == 0x3164 || code == 0xfeff || code == 0xffa0 || within(0xfff9, 0xfffb) || within(0xfffe, 0xffff) ||
           within(0xe0000, 0xe007f);
}

// Appends the first character of `text`, or its escaped form; returns its number of bytes in `text`.
std::size_t add_visible(std::string &to, std::string_view text) {
    constexpr char digits[] = "0123456789abcdef";
    const Character character = first_character(text);
    if (character.length > 0 && !is_control(character.code)) {
        to += text.substr(0, character.length);
        return character.length;
    }
    if (character.length > 1) {
        const bool is_long = character.code > 0xffff; // as in C and YAML
        to += is_long ? "\\U" : "\\u";
        for (int shift = is_long ? 28 : 12; shift >= 0; shift -= 4) {
            to += digits[character.code >> static_cast<unsigned>(shift) & 15u];
        }
        return character.length;
    }
    const auto byte = static_cast<unsigned char>(text[0]);
    to += {'\\', 'x', digits[byte >> 4u], digits[byte & 15u]};
    return 1;
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

std::size_t character_bytes(std::string_view text) {
    return first_character(text).length;
}

bool is_printable(std::string_view text) {
    for (std::size_t i = 0; i < text.size();) {
        const Character character = first_character(text.substr(i));
        if (character.length == 0 || is_control(character.code)) {
            return false;
        }
        i += character.length;
    }
    return true;
}

std::size_t find_no_name_character(std::string_view text) {
    const auto bad = std::find_if(text.begin(), text.end(), [](char c) {
        return c <= ' ' || c > '~' || std::string_view(name_separators).find(c) != std::string_view::npos;
    });
    return bad == text.end() ? std::string_view::npos : static_cast<std::size_t>(bad - text.begin());
}

namespace {

std::string visible_but(std::string_view text, char kept) {
    const auto stays = [kept](char c) { return c == kept || (c >= ' ' && c <= '~'); };
    std::string result;
    result.reserve(text.size());
    while (!text.empty()) {
        const auto *const end = std::find_if_not(text.begin(), text.end(), stays);
        result.append(text.begin(), end);
        text.remove_prefix(static_cast<std::size_t>(end - text.begin()));
        if (!text.empty()) {
            text.remove_prefix(add_visible(result, text));
        }
    }
    return result;
}

} // namespace

std::string visible(std::string_view text) {
    return visible_but(text, '\n');
}

std::string visible_line(std::string_view text) {
    return visible_but(text, ' ');
}

std::string quote(std::string_view text) {
    std::string result = "'";
    for (std::size_t shown = 0; !text.empty(); ++shown) {
        if (shown == longest_shown) {
            return result + "...'";
        }
        text.remove_prefix(add_visible(result, text));
    }
    return result + "'";
}

std::string sentence(std::string text) {
    if (!text.ends_with('.') && !text.ends_with('?')) {
        text += '.';
    }
    return text;
}

std::size_t edit_distance(std::string_view from, std::string_view to) {
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

std::size_t tolerated_edits(std::string_view word) {
    return std::max<std::size_t>(1, word.size() / 3);
}

std::string_view nearest(std::string_view word, std::span<const std::string_view> known) {
    constexpr std::size_t longest_compared = 128; // the longest valid name; more is not a typing mistake
    std::size_t left =
        300'000; // limit on compared pairs of letters; takes about a millisecond, enough for 1,000 names of 17 letters
    if (word.size() > longest_compared) {
        return {};
    }
    const std::string wanted = folded(word);
    std::string_view best;
    std::size_t best_distance = tolerated_edits(word) + 1;
    for (const std::string_view candidate : known) {
        const std::size_t difference =
            candidate.size() > word.size() ? candidate.size() - word.size() : word.size() - candidate.size();
        if (difference >= best_distance) {
            continue;
        }
        const std::size_t cost = (candidate.size() + 1) * (word.size() + 1);
        if (cost > left) {
            break;
        }
        left -= cost;
        if (const std::size_t edits = edit_distance(wanted, folded(candidate)); edits < best_distance) {
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

std::string counted(std::uint64_t count, std::string_view one, std::string_view several) {
    std::string text = std::to_string(count) + ' ';
    return count != 1 && several.empty() ? text.append(one) + 's' : text.append(count == 1 ? one : several);
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
