// What git says is different between two trees.
#pragma once

#include <string>
#include <vector>

#include "changes.hpp"
#include "git.hpp"

namespace opdock::plugin_pack {

// With renames found, and a patch for each; in the order of git. `from` and `to` are trees. Throws cli::Failure.
std::vector<Change> differences(const GitPlace &place, const std::string &from, const std::string &to);

} // namespace opdock::plugin_pack
