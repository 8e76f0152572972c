// Text from plugins and files on its way to a terminal.
#pragma once

#include <string>
#include <string_view>

namespace opdock::cli {

// Control characters as \xNN, so that a plugin's strings cannot steer the terminal; newlines stay.
std::string printable(std::string_view text);

// `text` with every line after the first indented by `columns`.
std::string indent_further_lines(std::string_view text, size_t columns);

// Three significant digits, as many as repeat when something is measured again.
std::string short_number(double value);

// How many columns UTF-8 text takes: its code points, which is right for what plugins are named.
size_t columns(std::string_view text);

} // namespace opdock::cli
