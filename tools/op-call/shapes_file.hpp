// The file of --from: a list of shapes to tune.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "request.hpp"

namespace opdock::plugin_tune {

// Throws cli::Failure whose message begins with NAME:LINE:COLUMN, for the first thing that is wrong. Texts of any size
// and depth are safe to give.
std::vector<Subject> parse_shapes(std::string_view text, const std::string &name);

std::vector<Subject> read_shapes(const std::string &path);

// The whole file, of at most 16 MiB. Throws cli::Failure.
std::string read_text(const std::string &path);

} // namespace opdock::plugin_tune
