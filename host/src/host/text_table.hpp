// Rows of text in columns as wide as their widest cell, with two blanks before each row and between columns.
#pragma once

#include <string>
#include <vector>

namespace opdock::core {

// The first row holds the headings. Plugins' texts in cells are made printable. Every line ends with a line feed.
std::string text_table(std::vector<std::vector<std::string>> rows);

} // namespace opdock::core
