// Text files with one "word value" per line, in a fixed order: signatures and keys. Empty lines and lines that start
// with '#' are allowed only before the first line and after each record.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace opdock::core {

class KeyedLines {
  public:
    // Both arguments must outlive this. `path` names the file in messages.
    KeyedLines(std::string_view text, const std::string &path) : text_(text), path_(path) {}

    // Skips comments; true if nothing follows.
    bool at_end();
    // Reads the next line, which must equal `line`. Throws Error(OPDOCK_LOAD_FAILED) "FILE:LINE: expected ...".
    void expect_line(std::string_view line);
    // The value of the next line, which must start with this word and a space.
    std::string_view value_of(std::string_view word, std::string_view expected);
    // Like value_of, for a value of exactly this many bytes in hexadecimal.
    template<class Bytes>
    void hex_of(std::string_view word, Bytes &bytes);

    // Number of the last line read, counted from 1.
    std::size_t line() const { return line_; }
    [[noreturn]] void fail(const std::string &message) const;

  private:
    std::string_view next_line();
    void parse_hex_of(std::string_view word, unsigned char *bytes, std::size_t size);

    std::string_view text_;
    const std::string &path_;
    std::size_t at_ = 0;
    std::size_t line_ = 0;
};

template<class Bytes>
void KeyedLines::hex_of(std::string_view word, Bytes &bytes) {
    parse_hex_of(word, bytes.data(), bytes.size());
}

} // namespace opdock::core
