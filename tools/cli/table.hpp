// Rows of text in columns that are as wide as their widest cell. Where a row is wider than the page, its last cell goes
// on below itself.
#pragma once

#include <string>
#include <vector>

#include "cli/page.hpp"

namespace opdock::cli {

struct Cell {
    std::string text; // may come from a plugin; made printable when shown
    Tint tint = Tint::plain;
};

class Table {
  public:
    // Cells past the widest row so far may be left out. An empty last cell leaves no blanks at the end of the line.
    void row(std::vector<Cell> cells) { rows_.push_back({std::move(cells), ""}); }

    // A row of what the columns are. A table without other rows is no text.
    void head(const std::vector<std::string> &names);

    // A paragraph below the last row, across the columns, indented twice, its lines as wide as the page. Empty text
    // adds nothing.
    void note(const std::string &text);

    // Two blanks before each row and between columns.
    std::string text(const Page &page) const;

  private:
    struct Row {
        std::vector<Cell> cells;
        std::string note;
        bool is_head = false;
    };

    std::vector<Row> rows_;
};

} // namespace opdock::cli
