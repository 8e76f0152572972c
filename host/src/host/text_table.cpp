#include "host/text_table.hpp"

#include <algorithm>

#include "text/spelling.hpp"

namespace opdock::core {

std::string text_table(std::vector<std::vector<std::string>> rows) {
    std::vector<std::size_t> widths;
    for (std::vector<std::string> &row : rows) {
        widths.resize(std::max(widths.size(), row.size()));
        for (std::size_t i = 0; i < row.size(); ++i) {
            row[i] = visible_line(row[i]);
            widths[i] = std::max(widths[i], row[i].size());
        }
    }
    std::string text;
    for (const std::vector<std::string> &row : rows) {
        std::string line;
        std::size_t blanks = 2;
        for (std::size_t i = 0; i < row.size(); ++i) {
            line += std::string(blanks, ' ') + row[i];
            blanks = widths[i] - row[i].size() + 2;
        }
        text += line.erase(line.find_last_not_of(' ') + 1) + '\n';
    }
    return text;
}

} // namespace opdock::core
