// Makes text from plugins and files safe for a terminal.
#pragma once

#include <string>
#include <string_view>

namespace opdock::cli {

// Escapes control characters, characters that are invisible or change the direction of writing, and invalid UTF-8, as
// \x1b or \u202e, so that a plugin's strings cannot control the terminal. Newlines stay.
std::string printable(std::string_view text);

// The same on one line: for names from others, no part of which must look like a line printed by a tool.
std::string printable_line(std::string_view text);

// The same document, with such characters in strings escaped as \u202e. `document` is valid JSON.
std::string printable_json(std::string_view document);

// `text` with every line after the first indented by `columns`.
std::string indent_further_lines(std::string_view text, size_t columns);

// Width of UTF-8 text in columns: the number of code points, which is right for names in practice.
size_t columns(std::string_view text);

} // namespace opdock::cli
