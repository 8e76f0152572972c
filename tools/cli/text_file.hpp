// Text files that a tool is given.
#pragma once

#include <string>

namespace opdock::cli {

// The whole file, of at most so many bytes. Throws Failure.
std::string read_text(const std::string &path, size_t most = size_t{16} << 20);

} // namespace opdock::cli
