#include "cli/fill.hpp"

#include <algorithm>

#include "cli/printable.hpp"

namespace opdock::cli {

std::string fill(const std::vector<std::string> &pieces, size_t begin, size_t hanging, size_t width) {
    std::string text;
    std::string blanks; // of the piece before, in case the line goes on
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

std::vector<std::string> parameters_of(std::string_view signature) {
    std::vector<std::string> pieces;
    size_t begin = 0;
    int depth = 0; // in the brackets of a shape
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
