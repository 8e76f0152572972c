// Makes trees in a repository of its own that sees the objects of another one, so that the configuration, filters,
// hooks and attributes of the latter outside the tree have no effect.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "changes.hpp"
#include "git.hpp"
#include "temporary_folder.hpp"

namespace opdock::plugin_pack {

// The object folders of the repository, and its object format ("sha1", "sha256").
struct ObjectStore {
    std::vector<std::string> folders;
    std::string format;
    std::string repository = {}; // for messages
};

// Throws cli::Failure if it is not a repository.
ObjectStore objects_of(const std::string &repository);

// A list of folders in the format of GIT_ALTERNATE_OBJECT_DIRECTORIES.
std::string alternates_text(const std::vector<std::string> &folders);

struct Merged {
    std::string tree;
    std::vector<std::string> conflicts; // paths; `tree` has both sides, with conflict markers
};

// Conversion of a file's bytes by git before it computes the id.
enum class Hashing {
    as_it_is,
    by_attributes,  // according to the attributes of the tree
    with_line_ends, // and core.autocrlf for files without attributes
};

class Workshop {
  public:
    // In the folder for temporary files, or in `parent`.
    explicit Workshop(const ObjectStore &objects, const std::string &parent = {});

    // Throws cli::Failure if the repository has the commit without its files.
    bool has_commit(const std::string &commit) const;
    // Its full id. `repository` is for the message. Throws cli::Failure if there is no such commit.
    std::string commit_of(const std::string &repository, const std::string &commit) const;
    std::string tree_of(const std::string &commit) const;
    // Throws cli::Failure if the repository has the commit without all of its files, like a partial clone.
    void require_files(const std::string &commit) const;
    // The tree made by applying the patches of the changes to a commit. If a hunk does not fit, throws cli::Failure
    // with exit_conflict, and its file and line.
    std::string apply(const std::string &commit, const std::vector<Change> &changes) const;
    // Like apply, for patch files, in order. Messages of `read` or git get the file's name as a prefix.
    std::string apply_files(const std::string &commit, const std::vector<std::string> &files,
                            const std::function<std::string(const std::string &file)> &read) const;
    // Rebases a tree that was made from `base` to `onto`, by a three-way merge.
    Merged merge(const std::string &base, const std::string &tree, const std::string &onto) const;
    // Without patches and renames. Throws cli::Failure, also if the repository lacks changed files, or they exceed the
    // limits.
    std::vector<Change> changed_files(const std::string &commit, const std::string &tree,
                                      const Limits &limits = {}) const;
    // Changes with patches that make the tree. Throws cli::Failure as well.
    std::vector<Change> changes(const std::string &commit, const std::string &tree, const Limits &limits = {}) const;
    // Writes the files of a tree into a folder, which must exist.
    void check_out(const std::string &tree, const std::string &folder) const;
    // Only these paths.
    void check_out(const std::string &tree, const std::vector<std::string> &paths, const std::string &folder) const;
    // The ids of its files by path, without links and submodules.
    std::map<std::string, std::string> files(const std::string &tree) const;
    // The commits of its submodules, by path. `tree` may be a commit.
    std::map<std::string, std::string> submodules(const std::string &tree) const;
    // Maps the old paths of renamed files to the new ones.
    std::map<std::string, std::string> new_paths(const std::string &from, const std::string &to) const;
    // The paths whose files a checkout may convert.
    std::vector<std::string> with_conversions(const std::string &tree, const std::vector<std::string> &paths) const;
    // git's ids for these files of a folder.
    std::vector<std::string> ids(const std::string &folder, const std::vector<std::string> &paths,
                                 Hashing hashing) const;

  private:
    GitPlace place(const std::string &worktree = {}) const;
    void read_tree(const std::string &tree) const;
    void apply_to_index(const std::string &patch) const;
    // Ids by path of the tree's entries whose modes have this prefix.
    std::map<std::string, std::string> entries(const std::string &tree, std::string_view mode) const;
    std::string commit_tree(const std::string &tree, const std::string &parent) const;
    void check_sizes(const std::vector<Change> &changes, const Limits &limits) const;
    [[noreturn]] void fail_partial(const std::string &missing) const;

    TemporaryFolder folder_;
    std::string repository_;       // for messages
    mutable std::string in_index_; // the tree or commit in the index
};

} // namespace opdock::plugin_pack
