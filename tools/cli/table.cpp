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

constexpr size_t margin = 6;

// Width without trailing blanks.
size_t width_of(std::string_view word) {
    return columns(word.substr(0, word.find_last_not_of(' ') + 1));
}

// Lays out the last cell of a row, which begins in `column`. If there is room for only a word or two, it continues near
// the margin; likewise if the page breaks words and one of them is too wide for the column.
std::string broken(const std::string &cell, size_t column, const Page &page) {
    constexpr size_t least_room = 16;
    std::vector<std::string> words = words_of(cell);
    const auto is_too_wide = [&](const std::string &word) { return column + width_of(word) > page.width(); };
    const bool has_room = column + least_room <= page.width() &&
                          !(page.breaks_words() && std::any_of(words.begin(), words.end(), is_too_wide));
    const size_t hanging = has_room ? column : std::min(column, margin);
    const bool moves = hanging < column && !words.empty() && is_too_wide(words.front());
    if (page.breaks_words()) {
        words = broken_words(words, page.width() - hanging);
    }
    return (moves ? "\n" + std::string(hanging, ' ') : "") +
           fill(words, moves ? hanging : column, hanging, page.width());
}

// Lays out each line of a note; keeps its indentation.
std::string paragraph(const std::string &note, const Page &page) {
    std::string text;
    std::istringstream lines(printable(note));
    for (std::string line; std::getline(lines, line);) {
        const size_t blanks = std::min(line.find_first_not_of(' '), line.size());
        const size_t begin = margin + blanks;
        const size_t hanging = begin + (blanks == 0 ? 0 : 2); // an indented line is a unit, such as a signature
        std::vector<std::string> words = words_of(line.substr(blanks));
        if (page.breaks_words() && hanging < page.width()) {
            words = broken_words(words, page.width() - hanging);
        }
        text += std::string(begin, ' ') + fill(words, begin, hanging, page.width()) + "\n";
    }
    return text;
}

} // namespace

void Table::head(const std::vector<std::string> &names) {
    std::vector<Cell> cells;
    cells.reserve(names.size());
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
            result += paragraph(row.note, page);
            continue;
        }
        std::string line;
        size_t blanks = 2;
        size_t column = 2;
        for (size_t i = 0; i < row.cells.size(); ++i) {
            const std::string text = shown(row.cells[i]);
            if (!text.empty()) {
                const bool last = i + 1 == row.cells.size();
                const std::string lines = last ? broken(text, column, page) : text;
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
