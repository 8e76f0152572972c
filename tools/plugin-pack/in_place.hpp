// A checkout's own files changed to what a package makes of them, and back. Its index, HEAD and refs stay as they are.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "adapted.hpp"

namespace opdock::plugin_pack {

// What unpatch --in-place does, and the way back.
int change_in_place(const Request &request, const Package &package, bool back);

// What stands at a path: nothing, a file or a link.
struct FileState {
    enum class Kind { file, executable, link };

    Kind kind = Kind::file;
    std::string content; // of a link: where it leads

    bool operator==(const FileState &) const = default;
};

// What becomes of each path that the changes are about.
struct Move {
    std::string folder; // of the checkout
    std::map<std::string, std::optional<FileState>> before;
    std::map<std::string, std::optional<FileState>> after;
};

// From the commit's files to the adapted ones.
Move move_to_adapted(const Adapted &adapted, const std::string &folder);

// The other way.
Move reversed(Move move);

// Paths at which the checkout has something else than before and after, or what would be lost: somebody changed them.
std::vector<std::string> paths_in_the_way(const Move &move);

// Each file by a rename, and looked at once more before; what is already as it shall be is left alone, so that one that
// was interrupted can be done again, or be taken back. Throws cli::Failure.
void carry_out(const Move &move);

} // namespace opdock::plugin_pack
