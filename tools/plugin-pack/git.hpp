// Runs the git program, for trees, patches and checkouts. Never changes a repository's worktree, index, stash, HEAD or
// refs.
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

// Selects the settings for line ends and for attributes outside the tree.
enum class Conversion { of_the_tree, of_the_user };

// The environment of a run of git.
struct GitPlace {
    std::string directory; // working directory; absolute
    // GIT_DIR, GIT_INDEX_FILE and the like; other variables of that kind that the user set are removed, except for
    // those of configuration (GIT_CONFIG_*, such as safe.directory).
    std::map<std::string, std::string> variables = {};
    std::vector<std::pair<std::string, std::string>> settings = {}; // override all others
    Conversion conversion = Conversion::of_the_tree;
    bool has_own_settings = false; // true: ignore those of user and machine
    size_t most_output = SIZE_MAX; // bytes; more output ends git with TooMuchOutput
};

struct TooMuchOutput : cli::Failure {
    using cli::Failure::Failure;
};

using GitRun = cli::ProgramRun;

// Runs git with settings against everything by which a repository or a user would make git run other programs, change
// line ends or write in colour. `input` goes to stdin. Throws cli::Failure if there is no git.
GitRun run_git(const GitPlace &place, const std::vector<std::string> &arguments, std::string_view input = {});

// Returns stdout. Throws cli::Failure with git's message on failure: the line with the reason first, the others below.
std::string git(const GitPlace &place, const std::vector<std::string> &arguments, std::string_view input = {});

// The message of a failed run: the line with the reason, the others below, or the exit code.
std::string words_of(const GitRun &run);

// Stdout without the final line feed.
std::string git_line(const GitPlace &place, const std::vector<std::string> &arguments);

// The full id of a commit, from any of its names in the repository; empty if the repository does not have it.
std::string commit_id(const std::string &repository, const std::string &commit);

// Paths and values of the attributes as `git check-attr --stdin` reports them; paths without a value are left out.
std::vector<std::pair<std::string, std::string>>
attributes_of(const GitPlace &place, const std::vector<std::string> &arguments, const std::vector<std::string> &paths);

// Splits the output of git -z.
std::vector<std::string> split_at_zeros(std::string_view text);

// The inverse of split_at_zeros.
std::string joined_with_zeros(const std::vector<std::string> &parts);

} // namespace opdock::plugin_pack
