// Files whose bytes are not those that a checkout of their tree writes. Attributes and settings convert line ends,
// keywords and encodings, and git takes what they make of a file for the same as the file.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "changes.hpp"
#include "workshop.hpp"

namespace opdock::plugin_pack {

struct Conversions {
    std::vector<std::pair<std::string, std::string>> converted; // as in Changes
    std::vector<std::string> crlf;
    std::vector<std::string> unexplained; // of both: what git makes of their bytes is not what the tree has
};

// Of the files of a worktree that are in the tree, which was made of them. Throws cli::Failure.
Conversions find_conversions(const std::string &worktree, const Workshop &workshop, const std::string &tree,
                             const Limits &limits = {});

// Makes what a checkout of the tree wrote into a folder what the vendor had. Throws cli::Failure with exit_not_trusted
// when that is more than git would convert to what the tree has.
void restore_conversions(const Workshop &workshop, const Changes &changes, const std::string &folder);

// For what a merge made of the files of `before`: their bytes where it left them alone, else their line ends; most of
// them where they are mixed.
void keep_conversions(const Workshop &workshop, const Changes &before, Changes &merged);

} // namespace opdock::plugin_pack
