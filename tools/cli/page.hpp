// What text is laid out for: a terminal or a file.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace opdock::cli {

enum class Tint { plain, heading, good, bad, doubtful, quiet };

class Page {
  public:
    // Files have this width too, so that what is printed there does not depend on who looks.
    static constexpr size_t usual_width = 80;

    explicit Page(bool colour, size_t width = usual_width, bool breaks_words = false)
        : colour_(colour), width_(width), breaks_words_(breaks_words) {}

    std::string paint(Tint tint, std::string_view text) const;
    // In columns. What has blanks is broken before it is wider.
    size_t width() const { return width_; }
    // Whether a word that is wider is broken too, as on a terminal. In a file paths stay whole.
    bool breaks_words() const { return breaks_words_; }

  private:
    bool colour_;
    size_t width_;
    bool breaks_words_;
};

// As wide as the terminal that stdout is, and with colour unless its user asked for none (NO_COLOR, TERM=dumb). Where
// stdout is no terminal, of the usual width and without colour.
Page page_of_stdout();

} // namespace opdock::cli
