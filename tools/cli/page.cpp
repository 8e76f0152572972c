#include "cli/page.hpp"

#include <algorithm>
#include <cstdlib>

#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/printable.hpp"

namespace opdock::cli {
namespace {

const char *code_of(Tint tint) {
    switch (tint) {
    case Tint::heading:
        return "1";
    case Tint::good:
        return "32";
    case Tint::bad:
        return "31";
    case Tint::doubtful:
        return "33";
    case Tint::quiet:
        return "2";
    case Tint::plain:
        break;
    }
    return "";
}

std::string_view variable(const char *name) {
    const char *value = secure_getenv(name);
    return value == nullptr ? "" : value;
}

// A terminal of unknown size reports 0.
size_t width_of_terminal() {
    constexpr size_t narrowest = 40; // any narrower, and a column would hold a single word
    winsize size{};
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) {
        return Page::usual_width;
    }
    return std::max<size_t>(size.ws_col, narrowest);
}

} // namespace

std::string Page::paint(Tint tint, std::string_view text) const {
    if (!colour_ || tint == Tint::plain || text.empty()) {
        return printable(text);
    }
    return std::string("\x1b[") + code_of(tint) + "m" + printable(text) + "\x1b[0m";
}

Page page_of_stdout() {
    if (isatty(STDOUT_FILENO) != 1) {
        return Page(false);
    }
    return Page(variable("NO_COLOR").empty() && variable("TERM") != "dumb", width_of_terminal(), true);
}

} // namespace opdock::cli
