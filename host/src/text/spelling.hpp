// How names are compared, shown in messages and guessed when misspelt.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace opdock::core {

// Lower case, ASCII only: names must mean the same under every locale.
std::string folded(std::string_view text);

// Equal but for the case of ASCII letters.
bool same_name(std::string_view left, std::string_view right);

// `text` without white space at both ends.
std::string_view trimmed(std::string_view text);

// An integer, true (1) or false (0); nothing for any other word.
std::optional<int64_t> whole_number(std::string_view text);

// The bytes of the first character of a text that is not empty; 0 when they are not UTF-8.
std::size_t character_bytes(std::string_view text);

// Valid UTF-8 without control characters, also those that turn the direction of writing.
bool is_printable(std::string_view text);

// A name that policies spell (a vendor, an impl_id, a device type, a knob) is printable ASCII without a space and
// these. ASCII, so that two names that look alike are one name: no letter of another alphabet, no character without
// width.
inline constexpr const char *name_separators = ",;:|='\"";

// Where the first character is that no such name has; npos when there is none.
std::size_t find_no_name_character(std::string_view text);

// For logs: control characters, those that turn the direction of writing and broken UTF-8 as \x1b or \u202e. Lines
// stay lines.
std::string visible(std::string_view text);

// The same, line feeds too: for what others say within a message.
std::string visible_line(std::string_view text);

// 'text', for messages: the same, on one line, cut after 80 characters.
std::string quote(std::string_view text);

// `text`, with a full stop unless it ends like a sentence already.
std::string sentence(std::string text);

// Edits between two folded words: insertion, deletion, replacement, and the swap of neighbours, which is the most
// common slip of a keyboard.
std::size_t edit_distance(std::string_view from, std::string_view to);

// The most edits that count as a slip: a third of the letters, at least one.
std::size_t tolerated_edits(std::string_view word);

// The known word that `word` most likely was meant to be, or "" when none is near. Compares without case; of two
// equally near words the first wins. Of very many words only the first are looked at.
std::string_view nearest(std::string_view word, std::span<const std::string_view> known);

// "; did you mean 'nearest'?", or "".
std::string did_you_mean(std::string_view word, std::span<const std::string_view> known);

// "1 config", "2 configs"; `several` where that is not `one` and an s.
std::string counted(std::uint64_t count, std::string_view one, std::string_view several = {});

// "'a', 'b' or 'c'"; for one word "'a'".
std::string one_of(std::span<const std::string_view> words);

} // namespace opdock::core
