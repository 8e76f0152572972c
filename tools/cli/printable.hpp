// Text from plugins and files on its way to a terminal.
#pragma once

#include <string>
#include <string_view>

namespace opdock::cli {

// Control characters, those that turn the direction of writing or are not seen, and bytes that are no UTF-8 as \x1b or
// \u202e, so that a plugin's strings cannot steer the terminal; newlines stay.
std::string printable(std::string_view text);

// The same on one line: for names that others chose, of which no part is to be taken for a line of a tool.
std::string printable_line(std::string_view text);

// The same document, where strings have \u202e for such characters. `document` is valid JSON.
std::string printable_json(std::string_view document);

// `text` with every line after the first indented by `columns`.
std::string indent_further_lines(std::string_view text, size_t columns);

// How many columns UTF-8 text takes: its code points, which is right for what plugins are named.
size_t columns(std::string_view text);

} // namespace opdock::cli
