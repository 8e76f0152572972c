#include "signature/signature_lexer.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "signature/signature.hpp"
#include "text/error.hpp"
#include "text/spelling.hpp"

namespace opdock::core {

namespace {

// Not <cctype>, whose functions depend on the locale.
bool is_lower(char c) {
    return c >= 'a' && c <= 'z';
}
bool is_digit(char c) {
    return c >= '0' && c <= '9';
}
bool starts_word(char c) {
    return is_lower(c) || (c >= 'A' && c <= 'Z') || c == '_';
}
bool continues_word(char c) {
    return starts_word(c) || is_digit(c);
}
bool continues_op_name(char c) {
    return is_lower(c) || is_digit(c) || c == '_' || c == '.';
}
bool is_control(char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
}

template<class Predicate>
size_t length_while(std::string_view text, Predicate predicate) {
    return static_cast<size_t>(std::find_if_not(text.begin(), text.end(), predicate) - text.begin());
}

} // namespace

void SignatureLexer::skip_space() {
    offset_ += length_while(text_.substr(offset_), [](char c) { return c == ' ' || c == '\t' || c == '\n'; });
}

Token SignatureLexer::take(Token::Kind kind, size_t length) {
    const Token token{kind, text_.substr(offset_, length), offset_};
    if (kind == Token::Kind::word && length > max_name_bytes) {
        fail(offset_, fmt::format("this name has {} bytes; names have at most {}", length, max_name_bytes));
    }
    offset_ += length;
    return token;
}

Token SignatureLexer::op_name() {
    skip_space();
    const size_t start = offset_;
    const size_t length = length_while(text_.substr(start), continues_op_name);
    const std::string_view name = text_.substr(start, length);
    if (length == 0 || !is_lower(name.front()) || name.back() == '.' || name.find("..") != std::string_view::npos) {
        const std::string found = length == 0 ? describe(next()) : fmt::format("'{}'", name.substr(0, max_name_bytes));
        fail(start, fmt::format("expected the op's name (a-z, 0-9, _ and single dots inside, a letter first), found {}",
                                found));
    }
    return take(Token::Kind::word, length);
}

size_t SignatureLexer::number_length(Token::Kind *kind) const {
    const std::string_view rest = text_.substr(offset_);
    size_t length = length_while(rest, is_digit);
    *kind = Token::Kind::integer;
    if (length + 1 < rest.size() && rest[length] == '.' && is_digit(rest[length + 1])) {
        *kind = Token::Kind::real;
        length += 1 + length_while(rest.substr(length + 1), is_digit);
    }
    if (length < rest.size() && (rest[length] == 'e' || rest[length] == 'E')) {
        size_t digits = length + 1;
        if (digits < rest.size() && (rest[digits] == '-' || rest[digits] == '+')) {
            ++digits;
        }
        const size_t count = length_while(rest.substr(std::min(digits, rest.size())), is_digit);
        if (count != 0) {
            *kind = Token::Kind::real;
            length = digits + count;
        }
    }
    return length;
}

Token SignatureLexer::string() {
    const size_t start = offset_;
    for (size_t end = start + 1; end < text_.size() && !is_control(text_[end]); ++end) {
        if (text_[end] == '"') {
            if (!is_printable(text_.substr(start, end - start))) {
                fail(start, "this string is not printable UTF-8");
            }
            offset_ = end + 1;
            return {Token::Kind::string, text_.substr(start + 1, end - start - 1), start};
        }
        if (text_[end] == '\\') {
            ++end;
            if (end == text_.size() || (text_[end] != '"' && text_[end] != '\\')) {
                fail(end - 1, "a backslash in a string may only precede '\"' or another backslash");
            }
        }
    }
    fail(start, "this string has no closing '\"' before the end or a control character");
}

Token SignatureLexer::next() {
    static constexpr std::array<std::string_view, 24> symbols{"...", "->", "<=", ">=", "==", "!=", "(", ")",
                                                              "[",   "]",  ",",  ":",  "?",  "*",  "=", "~",
                                                              "|",   "+",  "-",  "/",  "%",  "<",  ">", "."};
    skip_space();
    const std::string_view rest = text_.substr(offset_);
    if (rest.empty()) {
        return {Token::Kind::end, {}, offset_};
    }
    if (starts_word(rest.front())) {
        return take(Token::Kind::word, length_while(rest, continues_word));
    }
    if (is_digit(rest.front())) {
        Token::Kind kind{};
        const size_t length = number_length(&kind);
        if (length < rest.size() && starts_word(rest[length])) {
            fail(offset_, fmt::format("expected a number or a name, found '{}'",
                                      shown(rest.substr(0, length_while(rest, continues_word)))));
        }
        return take(kind, length);
    }
    if (rest.front() == '"') {
        return string();
    }
    for (const std::string_view symbol : symbols) {
        if (rest.starts_with(symbol)) {
            return take(Token::Kind::symbol, symbol.size());
        }
    }
    return take(Token::Kind::symbol, 1); // no rule of the grammar expects it
}

std::string SignatureLexer::describe(const Token &token) {
    if (token.kind == Token::Kind::end) {
        return "the end";
    }
    if (token.text.size() == 1 && (is_control(token.text[0]) || static_cast<unsigned char>(token.text[0]) >= 0x80)) {
        return fmt::format("byte {:#04x}", static_cast<unsigned char>(token.text[0]));
    }
    const char mark = token.kind == Token::Kind::string ? '"' : '\'';
    return mark + shown(token.text) + mark;
}

std::string SignatureLexer::shown(std::string_view text) {
    const std::string quoted = quote(text);
    return quoted.substr(1, quoted.size() - 2);
}

void SignatureLexer::fail(size_t offset, const std::string &message) const {
    constexpr size_t before = 40;
    constexpr size_t after = 32;
    const size_t start = offset > before ? offset - before : 0;
    std::string excerpt(text_.substr(start, offset - start + after));
    if (offset + after < text_.size()) {
        excerpt += "...";
    }
    size_t caret = offset - start;
    if (start > 0) {
        excerpt.insert(0, "...");
        caret += 3;
    }
    for (char &c : excerpt) {
        // One column per byte, without control characters for the terminal.
        if (c == '\t' || c == '\n') {
            c = ' ';
        } else if (is_control(c) || static_cast<unsigned char>(c) >= 0x80) {
            c = '?';
        }
    }
    throw Error(OPDOCK_INVALID_ARGUMENT, fmt::format("signature, column {}: {}\n    {}\n    {:>{}}", offset + 1,
                                                     message, excerpt, '^', caret + 1));
}

} // namespace opdock::core
