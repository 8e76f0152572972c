#include "load/architecture.hpp"

#include <charconv>
#include <cstdint>
#include <optional>

#include "text/spelling.hpp"

namespace opdock::core {
namespace {

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

struct Numbered {
    std::string_view family; // "sm_"
    std::uint32_t number;
};

// Splits "sm_90a" into family and number, ignoring what follows the number; nullopt if there is no number.
std::optional<Numbered> numbered(std::string_view name) {
    std::size_t end = name.size();
    while (end > 0 && !is_digit(name[end - 1])) {
        --end;
    }
    std::size_t begin = end;
    while (begin > 0 && is_digit(name[begin - 1])) {
        --begin;
    }
    std::uint32_t number = 0;
    const auto [stop, error] = std::from_chars(name.data() + begin, name.data() + end, number);
    if (begin == end || error != std::errc()) {
        return std::nullopt;
    }
    return Numbered{name.substr(0, begin), number};
}

} // namespace

bool is_architecture_pattern(std::string_view pattern) {
    if (pattern.empty() || pattern.find_first_of(" \t\r\n|,") != std::string_view::npos) {
        return false;
    }
    const std::size_t plus = pattern.find('+');
    return plus == std::string_view::npos || (plus + 1 == pattern.size() && plus > 0 && is_digit(pattern[plus - 1]));
}

bool architecture_matches(std::string_view pattern, std::string_view architecture, bool ordered) {
    if (architecture.empty() || !pattern.ends_with('+')) {
        return !architecture.empty() && same_name(pattern, architecture);
    }
    const auto oldest = numbered(pattern);
    const auto device = numbered(architecture);
    return ordered && oldest && device && same_name(oldest->family, device->family) && device->number >= oldest->number;
}

} // namespace opdock::core
