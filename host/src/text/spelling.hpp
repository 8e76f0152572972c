// Comparison of names, their display in messages, and suggestions for misspelt names.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace opdock::core {

// Lower case, ASCII only: names must be locale-independent.
std::string folded(std::string_view text);

// Equal, ignoring the case of ASCII letters.
bool same_name(std::string_view left, std::string_view right);

// `text` without leading and trailing white space.
std::string_view trimmed(std::string_view text);

// An integer, true (1) or false (0); nullopt for any other text.
std::optional<int64_t> whole_number(std::string_view text);

// Number of bytes of the first character of a non-empty text; 0 if it is not UTF-8.
std::size_t character_bytes(std::string_view text);

// Valid UTF-8 without control characters, including those that change the writing direction.
bool is_printable(std::string_view text);

// Names in policies (vendors, impl_ids, device types, knobs) are printable ASCII without spaces and these
// characters. ASCII only, so that names that look alike are equal: no letters of other alphabets, no characters
// without width.
inline constexpr const char *name_separators = ",;:|='\"";

// Position of the first character that is not allowed in such names; npos if there is none.
std::size_t find_no_name_character(std::string_view text);

// For logs: shows control characters, direction changes and broken UTF-8 as \x1b or \u202e. Keeps line
// feeds.
std::string visible(std::string_view text);

// Like visible(), and also escapes line feeds: for foreign texts within a message.
std::string visible_line(std::string_view text);

// 'text', for messages: as visible_line, cut after 80 characters.
std::string quote(std::string_view text);

// `text`, with a full stop added unless it already ends like a sentence.
std::string sentence(std::string text);

// Number of edits between two folded words: insertion, deletion, replacement, and swap of neighbours, which is the most
// common typing mistake.
std::size_t edit_distance(std::string_view from, std::string_view to);

// Maximum number of edits that count as a typing mistake: a third of the letters, at least one.
std::size_t tolerated_edits(std::string_view word);

// The known word that `word` was most likely meant to be, or "" if none is near. Case-insensitive; of equally near
// words the first wins. Of very many known words only the first are compared.
std::string_view nearest(std::string_view word, std::span<const std::string_view> known);

// "; did you mean 'nearest'?", or "".
std::string did_you_mean(std::string_view word, std::span<const std::string_view> known);

// "1 config", "2 configs"; `several`: the plural, if it is not `one` with an s.
std::string counted(std::uint64_t count, std::string_view one, std::string_view several = {});

// "'a', 'b' or 'c'"; for one word "'a'".
std::string one_of(std::span<const std::string_view> words);

} // namespace opdock::core
