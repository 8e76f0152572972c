#include "cli/fill.hpp"

#include <algorithm>
#include <array>
#include <span>

#include "cli/printable.hpp"

namespace opdock::cli {
namespace {

// Breaks `word` into parts no wider than `room`: after the first of `separators` if `word` is too wide, parts that are
// still too wide after the next separator, and anywhere once no separators are left.
void add_broken(std::vector<std::string> &parts, std::string_view word, size_t room,
                std::span<const std::string_view> separators) {
    if (columns(word.substr(0, word.find_last_not_of(' ') + 1)) <= room) {
        parts.emplace_back(word);
        return;
    }
    while (!word.empty()) {
        size_t end = std::min(room, word.size()); // never more than this many columns
        if (!separators.empty()) {
            end = std::min(word.find(separators.front()), word.size() - 1) + 1;
        }
        while (end < word.size() && columns(word.substr(end, 1)) == 0) { // inside a character
            ++end;
        }
        end = std::min(word.find_first_not_of(' ', end), word.size()); // blanks belong to the text before them
        if (separators.empty()) {
            parts.emplace_back(word.substr(0, end));
        } else {
            add_broken(parts, word.substr(0, end), room, separators.subspan(1));
        }
        word.remove_prefix(end);
    }
}

} // namespace

std::string fill(const std::vector<std::string> &pieces, size_t begin, size_t hanging, size_t width) {
    std::string text;
    std::string blanks; // after the previous piece; written only if the line continues
    size_t column = begin;
    for (const std::string &piece : pieces) {
        const size_t end = piece.find_last_not_of(' ') + 1; // npos + 1 is 0
        const size_t wide = columns(std::string_view(piece).substr(0, end));
        if (!text.empty() && column + blanks.size() + wide > width) {
            text += "\n" + std::string(hanging, ' ');
            column = hanging;
        } else {
            text += blanks;
            column += blanks.size();
        }
        text.append(piece, 0, end);
        column += wide;
        blanks = piece.substr(end);
    }
    return text;
}

std::vector<std::string> words_of(std::string_view text) {
    std::vector<std::string> words;
    for (size_t begin = 0; begin < text.size();) {
        const size_t blank = text.find(' ', begin);
        const size_t next = std::min(text.find_first_not_of(' ', blank), text.size());
        words.emplace_back(text.substr(begin, next - begin));
        begin = next;
    }
    return words;
}

std::vector<std::string> broken_words(const std::vector<std::string> &words, size_t room) {
    static constexpr std::array<std::string_view, 3> separators = {",", ":", "/"};
    std::vector<std::string> parts;
    for (const std::string &word : words) {
        add_broken(parts, word, room, separators);
    }
    return parts;
}

std::vector<std::string> parameters_of(std::string_view signature) {
    std::vector<std::string> pieces;
    size_t begin = 0;
    int depth = 0; // nesting of brackets in a shape
    for (size_t i = 1; i < signature.size(); ++i) {
        depth += signature[i] == '[' ? 1 : signature[i] == ']' ? -1 : 0;
        const std::string_view rest = signature.substr(i + 1);
        if (signature[i] == ' ' && depth == 0 &&
            (signature[i - 1] == ',' || rest.starts_with("->") || rest.starts_with("where "))) {
            pieces.emplace_back(signature.substr(begin, i + 1 - begin));
            begin = i + 1;
        }
    }
    pieces.emplace_back(signature.substr(begin));
    return pieces;
}

} // namespace opdock::cli
