// Rows of text in columns that are as wide as their widest cell, two blanks before each row and between columns.
#pragma once

#include <string>
#include <vector>

namespace opdock::core {

// The first row is what the columns are. What plugins say in cells is made printable. Every line ends with a line feed.
std::string text_table(std::vector<std::vector<std::string>> rows);

} // namespace opdock::core
