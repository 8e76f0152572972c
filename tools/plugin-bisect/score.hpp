// The number that a command prints.
#pragma once

#include <cstdint>
#include <optional>
#include <regex>
#include <string>

namespace opdock::plugin_bisect {

// A pattern as --score has it, in ECMAScript's grammar. Throws UsageError for one that is none.
std::regex score_pattern(const std::string &text);

// The number in the last line of `text` that the pattern finds: what its first group matches, or all of it. Nothing
// where it finds none, or what it finds is no finite number. Of longer lines the beginning is searched.
std::optional<double> find_score(const std::string &text, const std::regex &pattern, uint64_t of);

} // namespace opdock::plugin_bisect
