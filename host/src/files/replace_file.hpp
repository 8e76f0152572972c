// Writing a file anew as a whole: whoever reads it meets what it was or what it is, never a part of it, whenever the
// process that writes is killed.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace opdock::core {

// Writes another file beside it and renames that. Replaces regular files alone: /dev/null would be gone, and a link
// would become a file. Why it could not, for people, or empty; the file is then what it was.
std::string replace_file(const std::string &path, std::string_view contents);
// The same for its owner alone (0600), of pieces that lie behind each other.
std::string replace_private_file(const std::string &path, std::span<const std::string_view> pieces);

} // namespace opdock::core
