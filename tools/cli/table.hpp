// Rows of text in columns as wide as their widest cells. The last cell of a row that is wider than the page continues
// on the lines below.
#pragma once

#include <string>
#include <vector>

#include "cli/page.hpp"

namespace opdock::cli {

struct Cell {
    std::string text; // may come from a plugin; made printable for output
    Tint tint = Tint::plain;
};

class Table {
  public:
    // Cells after the widest row so far may be omitted. An empty last cell adds no blanks to the end of the line.
    void row(std::vector<Cell> cells) { rows_.push_back({std::move(cells), ""}); }

    // A row of column titles. A table without other rows has no text.
    void head(const std::vector<std::string> &names);

    // A paragraph below the last row, across the columns, indented twice, wrapped to the width of the page. Empty text
    // adds no paragraph.
    void note(const std::string &text);

    // Each row begins with two blanks; two blanks separate columns.
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
