#include "files/keyed_lines.hpp"

#include <algorithm>

#include "files/digest.hpp"
#include "text/error.hpp"
#include "text/spelling.hpp"

namespace opdock::core {
namespace {

constexpr std::size_t longest_line = 512;

}

void KeyedLines::fail(const std::string &message) const {
    throw Error(OPDOCK_LOAD_FAILED, path_ + ":" + std::to_string(std::max<std::size_t>(line_, 1)) + ": " + message);
}

bool KeyedLines::at_end() {
    while (at_ < text_.size() && (text_[at_] == '\n' || text_[at_] == '#')) {
        next_line();
    }
    return at_ == text_.size();
}

std::string_view KeyedLines::next_line() {
    ++line_;
    const std::size_t end = text_.find('\n', at_);
    if (end == std::string_view::npos) {
        fail(at_ == text_.size() ? "the file ends too early" : "the file ends in the middle of this line");
    }
    if (end - at_ > longest_line) {
        fail("a line has " + std::to_string(end - at_) + " characters; at most " + std::to_string(longest_line) +
             " are allowed");
    }
    const std::string_view line = text_.substr(at_, end - at_);
    at_ = end + 1;
    return line;
}

void KeyedLines::expect_line(std::string_view expected) {
    if (const std::string_view line = next_line(); line != expected) {
        fail("expected " + quote(expected) + ", found " + quote(line));
    }
}

std::string_view KeyedLines::value_of(std::string_view word, std::string_view expected) {
    const std::string_view line = next_line();
    if (!line.starts_with(word) || line.size() <= word.size() || line[word.size()] != ' ') {
        fail("expected '" + std::string(word) + " " + std::string(expected) + "', found " + quote(line));
    }
    return line.substr(word.size() + 1);
}

void KeyedLines::parse_hex_of(std::string_view word, unsigned char *bytes, std::size_t size) {
    const std::string digits = std::to_string(2 * size) + " digits of 0-9a-f";
    const std::string_view value = value_of(word, "(" + digits + ")");
    if (!parse_hex(value, {bytes, size})) {
        fail("expected " + digits + " after '" + std::string(word) + "', found " + quote(value));
    }
}

} // namespace opdock::core
