// Text broken into lines of a given width.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace opdock::cli {

// Joins the pieces, with a line break before each piece that would exceed `width`. The text starts in column `begin`,
// further lines are indented by `hanging`. Blanks belong to the piece before them; at the end of a line they do not
// count, and are left out. A piece wider than a line is not broken.
std::string fill(const std::vector<std::string> &pieces, size_t begin, size_t hanging, size_t width);

// "f32 bf16" as the pieces "f32 " and "bf16".
std::vector<std::string> words_of(std::string_view text);

// The words, with each word wider than `room` broken into parts that fit: after ',', else after ':' and '/', and else
// anywhere.
std::vector<std::string> broken_words(const std::vector<std::string> &words, size_t room);

// Splits a signature into pieces of one whole parameter each.
std::vector<std::string> parameters_of(std::string_view signature);

} // namespace opdock::cli
