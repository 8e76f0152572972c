// Checks of error messages: the form "FILE:LINE:COLUMN: what is wrong", used by all readers of files that people write,
// and messages of several lines.
#pragma once

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>

#include "input.hpp"

namespace opdock::fuzz {

// Removes the number at the start of `text` and returns it; 0 if there is none.
inline std::size_t take_number(std::string_view &text) {
    std::size_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return error == std::errc() ? number : 0;
}

// Checks that a message states where in `text`, the content of `file`, the error is, and is short enough to show.
inline void check_place(std::string_view message, const std::string &file, std::string_view text) {
    require(message.size() < 2048, "a message can be shown");
    require(message.starts_with(file + ":"), "a message names the file");
    message.remove_prefix(file.size() + 1);
    const auto lines = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) + 1;
    const std::size_t line = take_number(message);
    require(line >= 1 && line <= lines, "a message names a line that there is");
    require(message.starts_with(":"), "a column follows the line");
    message.remove_prefix(1);
    require(take_number(message) >= 1, "a message names a column");
    require(message.starts_with(": ") && message.size() > 2, "a message says what is wrong");
}

// Calls `check` with each line of a message that reports several errors at once.
template<class Check>
void check_lines(std::string_view message, Check check) {
    std::size_t count = 0;
    while (!message.empty()) {
        const std::string_view line = message.substr(0, message.find('\n'));
        message.remove_prefix(std::min(line.size() + 1, message.size()));
        ++count;
        require(count <= 21, "a message has 20 lines, and one that says that there is more");
        if (count != 21 || line != "and more") {
            check(line);
        }
    }
    require(count != 0, "a message says what is wrong");
}

} // namespace opdock::fuzz
