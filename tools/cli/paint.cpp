#include "cli/paint.hpp"

#include <cstdlib>

#include <unistd.h>

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

} // namespace

std::string Paint::operator()(Tint tint, std::string_view text) const {
    if (!on_ || tint == Tint::plain || text.empty()) {
        return std::string(text);
    }
    return std::string("\x1b[") + code_of(tint) + "m" + std::string(text) + "\x1b[0m";
}

bool colour_is_welcome() {
    return isatty(STDOUT_FILENO) == 1 && variable("NO_COLOR").empty() && variable("TERM") != "dumb";
}

} // namespace opdock::cli
