// Atomic replacement of a file: a reader sees the old or the new content, never a part, even if the writing process is
// killed.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace opdock::core {

// Writes a new file beside it and renames that. Only for regular files: renaming would destroy /dev/null and turn a
// link into a file. Returns the reason of a failure, for people, or empty; the file is then unchanged.
std::string replace_file(const std::string &path, std::string_view contents);
// Like replace_file, but with mode 0600, and from pieces that are written one after another.
std::string replace_private_file(const std::string &path, std::span<const std::string_view> pieces);

} // namespace opdock::core
