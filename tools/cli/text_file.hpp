// Text files that a tool is given.
#pragma once

#include <string>

namespace opdock::cli {

// The whole file, of at most 16 MiB. Throws Failure.
std::string read_text(const std::string &path);

} // namespace opdock::cli
