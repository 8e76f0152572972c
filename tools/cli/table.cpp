#include "cli/table.hpp"

#include <algorithm>
#include <sstream>

#include "cli/fill.hpp"
#include "cli/printable.hpp"

namespace opdock::cli {
namespace {

std::string shown(const Cell &cell) {
    std::string text = printable(cell.text);
    std::replace(text.begin(), text.end(), '\n', ' ');
    return text;
}

// The last cell of a row, which begins in `column`. Without room for a word or two it goes on near the margin instead.
std::string broken(const std::string &cell, size_t column, size_t width) {
    constexpr size_t least_room = 16;
    const size_t hanging = column + least_room > width ? 6 : column;
    const std::vector<std::string> words = words_of(cell);
    const std::string_view first = words.empty() ? "" : std::string_view(words.front());
    if (hanging < column && column + columns(first.substr(0, first.find_last_not_of(' ') + 1)) > width) {
        return "\n" + std::string(hanging, ' ') + fill(words, hanging, hanging, width);
    }
    return fill(words, column, hanging, width);
}

// Each line of a note, its own indentation kept.
std::string paragraph(const std::string &note, size_t width) {
    constexpr size_t indent = 6;
    std::string text;
    std::istringstream lines(printable(note));
    for (std::string line; std::getline(lines, line);) {
        const size_t blanks = std::min(line.find_first_not_of(' '), line.size());
        const size_t begin = indent + blanks;
        const size_t hanging = begin + (blanks == 0 ? 0 : 2); // what is indented is of one line, such as a signature
        text += std::string(begin, ' ') + fill(words_of(line.substr(blanks)), begin, hanging, width) + "\n";
    }
    return text;
}

} // namespace

void Table::head(const std::vector<std::string> &names) {
    std::vector<Cell> cells;
    for (const std::string &name : names) {
        cells.push_back({name, Tint::quiet});
    }
    rows_.push_back({std::move(cells), "", true});
}

void Table::note(const std::string &text) {
    if (!text.empty()) {
        rows_.push_back({{}, text});
    }
}

std::string Table::text(const Page &page) const {
    if (std::all_of(rows_.begin(), rows_.end(), [](const Row &row) { return row.is_head; })) {
        return "";
    }
    std::vector<size_t> widths;
    for (const Row &row : rows_) {
        widths.resize(std::max(widths.size(), row.cells.size()));
        for (size_t i = 0; i < row.cells.size(); ++i) {
            widths[i] = std::max(widths[i], columns(shown(row.cells[i])));
        }
    }
    std::string result;
    for (const Row &row : rows_) {
        if (!row.note.empty()) {
            result += paragraph(row.note, page.width());
            continue;
        }
        std::string line;
        size_t blanks = 2;
        size_t column = 2;
        for (size_t i = 0; i < row.cells.size(); ++i) {
            const std::string text = shown(row.cells[i]);
            if (!text.empty()) {
                const bool last = i + 1 == row.cells.size();
                const std::string lines = last ? broken(text, column, page.width()) : text;
                line.append(lines.front() == '\n' ? 0 : blanks, ' ');
                line += page.paint(row.cells[i].tint, lines);
                blanks = 0;
            }
            blanks += widths[i] - columns(text) + 2;
            column += widths[i] + 2;
        }
        result += line + "\n";
    }
    return result;
}

} // namespace opdock::cli
