// What git says is different between two trees.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "changes.hpp"
#include "git.hpp"

namespace opdock::plugin_pack {

enum class Renames { found, as_two }; // one that was renamed is one change, or one deleted and one added

// With a patch for each; in the order of git. `from` and `to` are trees. Throws cli::Failure.
std::vector<Change> differences(const GitPlace &place, const std::string &from, const std::string &to, Renames renames);

// The new paths of files that have one, by the old ones.
std::map<std::string, std::string> new_paths(const GitPlace &place, const std::string &from, const std::string &to);

} // namespace opdock::plugin_pack
