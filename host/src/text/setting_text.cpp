#include "text/setting_text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "text/error.hpp"
#include "text/spelling.hpp"

namespace opdock::core {

std::string Place::text() const {
    return line == 0 ? name : name + ":" + std::to_string(line) + ":" + std::to_string(column);
}

std::string Place::at(std::size_t offset) const {
    return line == 0 ? name + ", column " + std::to_string(offset + 1)
                     : name + ":" + std::to_string(line) + ":" + std::to_string(column + offset);
}

void reject(const Place &place, std::size_t offset, const std::string &message) {
    throw Error(OPDOCK_INVALID_POLICY, place.at(offset) + ": " + message);
}

void Faults::add(std::string_view text) {
    constexpr std::size_t most_told = 20;
    while (!text.empty() && count_ <= most_told) {
        const std::string_view line = text.substr(0, text.find('\n'));
        text.remove_prefix(std::min(line.size() + 1, text.size()));
        text_ += (count_ == 0 ? "" : "\n") + std::string(count_ < most_told ? line : "and more");
        ++count_;
    }
}

void Faults::raise() const {
    if (count_ != 0) {
        throw Error(OPDOCK_INVALID_POLICY, text_);
    }
}

std::vector<Piece> split(std::string_view value, std::string_view separators) {
    std::vector<Piece> pieces;
    if (trimmed(value).empty()) {
        return pieces;
    }
    for (std::size_t begin = 0;;) {
        const std::size_t end = std::min(value.find_first_of(separators, begin), value.size());
        const std::string_view text = trimmed(value.substr(begin, end - begin));
        const bool is_after_comma = begin > 0 && (value[begin - 1] == ',' || value[begin - 1] == ';');
        if (text.empty() && end == value.size() && is_after_comma && !pieces.back().text.empty()) {
            return pieces;
        }
        pieces.push_back({text, text.empty() ? begin : static_cast<std::size_t>(text.data() - value.data())});
        if (end == value.size()) {
            return pieces;
        }
        begin = end + 1;
    }
}

bool parse_switch(std::string_view value, const Place &place) {
    static constexpr std::array<std::string_view, 4> on = {"1", "true", "yes", "on"};
    static constexpr std::array<std::string_view, 4> off = {"0", "false", "no", "off"};
    const std::string word = folded(trimmed(value));
    if (std::find(on.begin(), on.end(), word) != on.end()) {
        return true;
    }
    if (std::find(off.begin(), off.end(), word) != off.end()) {
        return false;
    }
    reject(place, 0, "expected 1/0, true/false, yes/no or on/off, found " + quote(value));
}

std::string parse_vendor(std::string_view name, const Place &place, std::size_t offset) {
    if (name.empty()) {
        reject(place, offset, "expected the name of a vendor, found nothing");
    }
    if (const std::size_t bad = find_no_name_character(name); bad != std::string_view::npos) {
        reject(place, offset + bad,
               "unexpected " + quote(name.substr(bad, 1)) + " in " + quote(name) +
                   "; expected plain names of vendors, in ASCII, separated by commas");
    }
    return folded(name);
}

namespace {

// A time above 0 and up to a day; nullopt for other text.
std::optional<double> seconds_in(std::string_view value) {
    const std::string_view text = trimmed(value);
    double number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    const std::string_view unit = trimmed({end, static_cast<std::size_t>(text.data() + text.size() - end)});
    const double seconds = number * (unit == "ms" ? 1e-3 : unit == "m" ? 60 : 1);
    const bool is_unit = unit.empty() || unit == "s" || unit == "ms" || unit == "m";
    return error == std::errc() && is_unit && seconds > 0 && seconds <= 86400 ? std::optional(seconds) : std::nullopt;
}

} // namespace

double parse_seconds(std::string_view value, const Place &place) {
    const std::optional<double> seconds = seconds_in(value);
    if (!seconds) {
        reject(place, 0, "expected seconds, such as 0.5, 500ms or 2m, found " + quote(value));
    }
    return *seconds;
}

double parse_pause(std::string_view value, const Place &place) {
    if (same_name(trimmed(value), "off") || trimmed(value) == "0") {
        return 0;
    }
    const std::optional<double> seconds = seconds_in(value);
    if (!seconds) {
        reject(place, 0, "expected seconds, such as 0.5, 500ms or 2m, or off, found " + quote(value));
    }
    return *seconds;
}

std::vector<std::string> parse_vendors(std::string_view value, const Place &place) {
    std::vector<std::string> vendors;
    for (const Piece &piece : split(value, ",")) {
        std::string name = parse_vendor(piece.text, place, piece.offset);
        if (std::find(vendors.begin(), vendors.end(), name) == vendors.end()) {
            vendors.push_back(std::move(name));
        }
    }
    return vendors;
}

} // namespace opdock::core
