#include "score.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>

#include "cli/exit.hpp"

namespace opdock::plugin_bisect {
namespace {

constexpr size_t longest_line = 4096; // std::regex recurses for every character

// "45" of 50 is 45; "0.9", which has a point, and "90 %" are fractions.
std::optional<double> as_count(double value, std::string_view text, std::string_view behind, uint64_t of) {
    const auto most = static_cast<double>(of);
    if (behind.starts_with('%') || behind.starts_with(" %")) {
        value = std::round(value / 100 * most);
    } else if (text.find('.') != std::string_view::npos && value <= 1) {
        value = std::round(value * most);
    }
    return value < 0 || value > most || value != std::round(value) ? std::nullopt : std::optional(value);
}

std::optional<double> number_in(const std::string &line, const std::smatch &match, uint64_t of) {
    const std::ssub_match group = match.size() > 1 && match[1].matched ? match[1] : match[0];
    std::string text = group.str();
    text.erase(0, text.starts_with('+') ? 1 : 0);
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
        return {};
    }
    const std::string_view behind(line.data() + (group.second - line.begin()),
                                  static_cast<size_t>(line.end() - group.second));
    return of == 0 ? std::optional(value) : as_count(value, text, behind, of);
}

} // namespace

std::regex score_pattern(const std::string &text) {
    try {
        return std::regex(text, std::regex::ECMAScript | std::regex::optimize);
    } catch (const std::regex_error &error) {
        throw cli::UsageError("--score '" + text +
                              "': expected a regular expression whose first group is the number, " +
                              "such as 'accuracy: ([0-9.]+)'; " + error.what());
    }
}

std::optional<double> find_score(const std::string &text, const std::regex &pattern, uint64_t of) {
    for (size_t end = text.size(); end > 0;) {
        const size_t feed = text.rfind('\n', end - 1);
        const size_t begin = feed == std::string::npos ? 0 : feed + 1;
        const std::string line = text.substr(begin, std::min(end - begin, longest_line));
        if (std::smatch match; std::regex_search(line, match, pattern)) {
            return number_in(line, match, of);
        }
        end = begin == 0 ? 0 : begin - 1;
    }
    return {};
}

} // namespace opdock::plugin_bisect
