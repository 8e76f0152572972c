// The git program, asked for what it alone knows: trees, patches, checkouts. Never for a repository's worktree, index,
// stash, HEAD or refs to be changed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/exit.hpp"
#include "cli/program.hpp"

namespace opdock::plugin_pack {

// Whose settings count for line ends and attributes outside the tree.
enum class Conversion { of_the_tree, of_the_user };

// What one run of git needs beside its arguments.
struct GitPlace {
    std::string directory; // where it runs; absolute
    // GIT_DIR, GIT_INDEX_FILE and the like; all others of that kind are taken away from what the user set, but for
    // those of configuration (GIT_CONFIG_*, such as safe.directory).
    std::map<std::string, std::string> variables = {};
    std::vector<std::pair<std::string, std::string>> settings = {}; // above those of everybody else
    Conversion conversion = Conversion::of_the_tree;
    bool has_own_settings = false; // true: those of user and machine do not count
    size_t most_output = SIZE_MAX; // bytes; what prints more is ended, which is TooMuchOutput
};

struct TooMuchOutput : cli::Failure {
    using cli::Failure::Failure;
};

using GitRun = cli::ProgramRun;

// With a setting for everything by which a repository or a user would make git run other programs, change line ends or
// write in colour. `input` goes to its stdin. Throws cli::Failure when there is no git.
GitRun run_git(const GitPlace &place, const std::vector<std::string> &arguments, std::string_view input = {});

// What it printed. Throws cli::Failure with its words when it fails: the line that says why, the others below it.
std::string git(const GitPlace &place, const std::vector<std::string> &arguments, std::string_view input = {});

// What a run that failed says: the line that says why, the others below it, or its exit code.
std::string words_of(const GitRun &run);

// Without the line feed at the end.
std::string git_line(const GitPlace &place, const std::vector<std::string> &arguments);

// The full id of a commit by any name that the repository has for it; empty where it has none.
std::string commit_id(const std::string &repository, const std::string &commit);

// Paths and values of the attributes that `git check-attr --stdin` has of these paths; not of those without.
std::vector<std::pair<std::string, std::string>>
attributes_of(const GitPlace &place, const std::vector<std::string> &arguments, const std::vector<std::string> &paths);

// The parts of what git prints with -z.
std::vector<std::string> split_at_zeros(std::string_view text);

// The other way round.
std::string joined_with_zeros(const std::vector<std::string> &parts);

} // namespace opdock::plugin_pack
