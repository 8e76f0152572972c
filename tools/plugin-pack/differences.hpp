// Differences between two trees, by git.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "changes.hpp"
#include "git.hpp"

namespace opdock::plugin_pack {

enum class Renames { found, as_two }; // a renamed file is one change, or one deleted and one added file

// Changes in git's order, without patches. `from` and `to` are trees or commits. Throws cli::Failure.
std::vector<Change> differences(const GitPlace &place, const std::string &from, const std::string &to, Renames renames);

// The sizes in bytes; nothing for a blob that does not exist.
std::vector<std::optional<uint64_t>> sizes_of(const GitPlace &place, const std::vector<std::string> &blobs);

// Adds a patch to each change. Throws cli::Failure, also if their total size exceeds the limit.
void add_patches(const GitPlace &place, const std::string &from, const std::string &to, Renames renames,
                 const Limits &limits, std::vector<Change> &changes);

// Maps the old paths of renamed files to the new ones.
std::map<std::string, std::string> new_paths(const GitPlace &place, const std::string &from, const std::string &to);

} // namespace opdock::plugin_pack
