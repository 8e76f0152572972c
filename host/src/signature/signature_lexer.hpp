// Splits a signature's text into tokens, and reports the position of errors.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace opdock::core {

struct Token {
    enum class Kind { word, integer, real, string, symbol, end };
    Kind kind = Kind::end;
    std::string_view text; // as written; for a string without its quotes, escapes not resolved
    size_t offset = 0;

    bool is(std::string_view symbol) const { return kind == Kind::symbol && text == symbol; }
    bool is_word(std::string_view word) const { return kind == Kind::word && text == word; }
};

class SignatureLexer {
  public:
    explicit SignatureLexer(std::string_view text) : text_(text) {}

    // Op names may contain dots and start with characters that words may not: `acme.gelu2`.
    Token op_name();
    Token next();

    // Throws Error(OPDOCK_INVALID_ARGUMENT): the message, the column and the text around it.
    [[noreturn]] void fail(size_t offset, const std::string &message) const;
    // "'T'", "the end", "byte 0x01"
    static std::string describe(const Token &token);
    // The text as shown in a message: shortened if long, and without terminal control characters.
    static std::string shown(std::string_view text);

  private:
    void skip_space();
    Token take(Token::Kind kind, size_t length);
    size_t number_length(Token::Kind *kind) const;
    Token string();

    std::string_view text_;
    size_t offset_ = 0;
};

} // namespace opdock::core
