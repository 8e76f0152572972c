// Files whose bytes differ from those that a checkout of their tree writes. Attributes and settings convert line ends,
// keywords and encodings, and git takes a file and its converted form for the same.
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
    std::vector<std::string> unexplained; // of both kinds: files that differ from the tree after git's conversion too
};

// For the files of a worktree that are in `tree`, which was made from them. Throws cli::Failure.
Conversions find_conversions(const std::string &worktree, const Workshop &workshop, const std::string &tree,
                             const Limits &limits = {});

// Turns the files of a checkout of the tree into the vendor's. Throws cli::Failure with exit_not_trusted if git would
// not convert the result to the files of the tree.
void restore_conversions(const Workshop &workshop, const Changes &changes, const std::string &folder);

// For files that a merge made from those of `before`: keeps the bytes of unchanged ones, and the line ends of others;
// if line ends were mixed, the most frequent ones.
void keep_conversions(const Workshop &workshop, const Changes &before, Changes &merged);

} // namespace opdock::plugin_pack
