// Writing a file anew as a whole: whoever reads it meets what it was or what it is, never a part of it, whenever the
// process that writes is killed.
#pragma once

#include <string>
#include <string_view>

namespace opdock::core {

// Writes another file beside it and renames that. Replaces regular files alone: /dev/null would be gone, and a link
// would become a file. Why it could not, for people, or empty; the file is then what it was.
std::string replace_file(const std::string &path, std::string_view contents);

} // namespace opdock::core
