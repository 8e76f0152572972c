// Changes the files of a checkout to those that a package makes, and back. Its index, HEAD and refs stay unchanged.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "adapted.hpp"

namespace opdock::plugin_pack {

// Runs unpatch --in-place, or the way back.
int change_in_place(const Request &request, const Package &package, bool back);

// The file or link at a path.
struct FileState {
    enum class Kind { file, executable, link };

    Kind kind = Kind::file;
    std::string content; // of a link: its target

    bool operator==(const FileState &) const = default;
};

// The states of each changed path, before and after.
struct Move {
    std::string folder; // the top of the checkout
    std::map<std::string, std::optional<FileState>> before;
    std::map<std::string, std::optional<FileState>> after;
};

// From the commit's files to the adapted ones.
Move move_to_adapted(const Adapted &adapted, const std::string &folder);

// The inverse move.
Move reversed(Move move);

// Paths where the checkout has neither the state before nor the one after, or where data would be lost.
std::vector<std::string> paths_in_the_way(const Move &move);

// Replaces each file by a rename, after one more check. Files in their final state are left alone, so that an
// interrupted move can be repeated or taken back. Throws cli::Failure.
void carry_out(const Move &move);

} // namespace opdock::plugin_pack
