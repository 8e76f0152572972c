#include "cli/status_line.hpp"

#include <iostream>

#include "cli/printable.hpp"
#include "cli/progress.hpp"

namespace opdock::cli {

StatusLine::StatusLine()
    : StatusLine(width_of_stderr(), [](const std::string &text) { std::cerr << text << std::flush; }) {}

void StatusLine::show(const std::string &text) {
    if (width_ == 0) {
        return;
    }
    std::string line = printable(text);
    while (columns(line) >= width_) { // removes whole characters of UTF-8
        const size_t before = columns(line);
        while (columns(line) == before) {
            line.pop_back();
        }
    }
    write_("\r" + line + "\x1b[K");
    is_shown_ = true;
}

void StatusLine::clear() {
    if (is_shown_) {
        write_("\r\x1b[K");
    }
    is_shown_ = false;
}

} // namespace opdock::cli
