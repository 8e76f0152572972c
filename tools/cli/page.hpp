// The layout of text: for a terminal or a file.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace opdock::cli {

enum class Tint { plain, heading, good, bad, doubtful, quiet };

class Page {
  public:
    // Also used for files, so that their content does not depend on the terminal.
    static constexpr size_t usual_width = 80;

    explicit Page(bool colour, size_t width = usual_width, bool breaks_words = false)
        : colour_(colour), width_(width), breaks_words_(breaks_words) {}

    std::string paint(Tint tint, std::string_view text) const;
    // Width in columns. Text with blanks is broken to fit.
    size_t width() const { return width_; }
    // True if words wider than that are broken too, as on a terminal. In a file paths stay whole.
    bool breaks_words() const { return breaks_words_; }

  private:
    bool colour_;
    size_t width_;
    bool breaks_words_;
};

// For a terminal as stdout: its width, and colour unless the user disabled it (NO_COLOR, TERM=dumb). Otherwise the
// usual width, without colour.
Page page_of_stdout();

} // namespace opdock::cli
