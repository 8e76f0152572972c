// What git says is different between two trees.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "changes.hpp"
#include "git.hpp"

namespace opdock::plugin_pack {

enum class Renames { found, as_two }; // one that was renamed is one change, or one deleted and one added

// In the order of git; without patches. `from` and `to` are trees or commits. Throws cli::Failure.
std::vector<Change> differences(const GitPlace &place, const std::string &from, const std::string &to, Renames renames);

// In bytes; nothing for what is not there.
std::vector<std::optional<uint64_t>> sizes_of(const GitPlace &place, const std::vector<std::string> &blobs);

// A patch for each. Throws cli::Failure, also when they come to more than the limit.
void add_patches(const GitPlace &place, const std::string &from, const std::string &to, Renames renames,
                 const Limits &limits, std::vector<Change> &changes);

// The new paths of files that have one, by the old ones.
std::map<std::string, std::string> new_paths(const GitPlace &place, const std::string &from, const std::string &to);

} // namespace opdock::plugin_pack
