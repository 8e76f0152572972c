// Text broken into lines of a given width.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace opdock::cli {

// The pieces one after the other, a new line wherever the next one would be wider than `width`. The text starts in
// column `begin`, further lines are indented by `hanging`. Blanks belong to the piece they follow; they do not count,
// and are left out, at the end of a line. A piece that is too wide by itself is not broken.
std::string fill(const std::vector<std::string> &pieces, size_t begin, size_t hanging, size_t width);

// "f32 bf16" in pieces "f32 " and "bf16".
std::vector<std::string> words_of(std::string_view text);

// The words, each that is wider than `room` in parts that are not: behind ',', where that does not do behind ':' and
// '/', and else anywhere.
std::vector<std::string> broken_words(const std::vector<std::string> &words, size_t room);

// A signature in pieces that each hold a whole parameter.
std::vector<std::string> parameters_of(std::string_view signature);

} // namespace opdock::cli
