// The score that a command prints.
#pragma once

#include <cstdint>
#include <optional>
#include <regex>
#include <string>

namespace opdock::plugin_bisect {

// Compiles a pattern of --score, in ECMAScript's grammar. Throws UsageError if it is invalid.
std::regex score_pattern(const std::string &text);

// The number in the last line of `text` that the pattern matches: the first group or, if that is unmatched, the whole
// match. Nothing if no line matches or the number is not finite. Of longer lines only the beginning is searched.
std::optional<double> find_score(const std::string &text, const std::regex &pattern, uint64_t of);

} // namespace opdock::plugin_bisect
