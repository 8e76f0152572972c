// The git program, asked for what it alone knows: trees, patches, checkouts. Never for a repository's worktree, index,
// stash, HEAD or refs to be changed.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace opdock::plugin_pack {

// What one run of git needs beside its arguments.
struct GitPlace {
    std::string directory; // where it runs; absolute
    // GIT_DIR, GIT_INDEX_FILE and the like; all others of that kind are taken away from what the user set.
    std::map<std::string, std::string> variables = {};
};

struct GitRun {
    int code = 0;
    std::string out;
    std::string err;
};

// With a setting for everything by which a repository or a user would make git run other programs, change line ends or
// write in colour. `input` goes to its stdin. Throws cli::Failure when there is no git.
GitRun run_git(const GitPlace &place, const std::vector<std::string> &arguments, std::string_view input = {});

// What it printed. Throws cli::Failure with its words when it fails.
std::string git(const GitPlace &place, const std::vector<std::string> &arguments, std::string_view input = {});

// Without the line feed at the end.
std::string git_line(const GitPlace &place, const std::vector<std::string> &arguments);

// The parts of what git prints with -z.
std::vector<std::string> split_at_zeros(std::string_view text);

} // namespace opdock::plugin_pack
