// Where trees are put together: a repository of its own that sees the objects of another one, so that neither that
// one's configuration nor its filters, hooks or attributes outside the tree count.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "changes.hpp"
#include "git.hpp"
#include "temporary_folder.hpp"

namespace opdock::plugin_pack {

// Where the repository keeps its objects, and what it calls them by ("sha1", "sha256").
struct ObjectStore {
    std::vector<std::string> folders;
    std::string format;
    std::string repository = {}; // for messages
};

// Throws cli::Failure when it is no repository.
ObjectStore objects_of(const std::string &repository);

// A list of folders as GIT_ALTERNATE_OBJECT_DIRECTORIES has it.
std::string alternates_text(const std::vector<std::string> &folders);

struct Merged {
    std::string tree;
    std::vector<std::string> conflicts; // paths; `tree` has both sides of them, between marks
};

// What git makes of a file's bytes before it takes their id.
enum class Hashing {
    as_it_is,
    by_attributes,  // what the attributes of the tree say
    with_line_ends, // and what core.autocrlf does to files that have none
};

class Workshop {
  public:
    // In the folder for temporary files, or in this one.
    explicit Workshop(const ObjectStore &objects, const std::string &parent = {});

    // Throws cli::Failure when it has the commit without its files.
    bool has_commit(const std::string &commit) const;
    // Its full id. `repository` is for the message. Throws cli::Failure when there is none.
    std::string commit_of(const std::string &repository, const std::string &commit) const;
    std::string tree_of(const std::string &commit) const;
    // Throws cli::Failure when the repository has the commit without all of its files, as partial clones do.
    void require_files(const std::string &commit) const;
    // The tree that comes of a commit and the patches of these changes. Throws cli::Failure with exit_conflict, the
    // file and the line of the hunk that does not fit.
    std::string apply(const std::string &commit, const std::vector<Change> &changes) const;
    // The same of files with patches, one after the other. The file's name stands before what `read` or git says of it.
    std::string apply_files(const std::string &commit, const std::vector<std::string> &files,
                            const std::function<std::string(const std::string &file)> &read) const;
    // What comes of a tree that was made from `base` when it is made from `onto` instead, by a three-way merge.
    Merged merge(const std::string &base, const std::string &tree, const std::string &onto) const;
    // Without patches and renames. Throws cli::Failure, also when the repository lacks files that were changed, or they
    // are larger than the limits.
    std::vector<Change> changed_files(const std::string &commit, const std::string &tree,
                                      const Limits &limits = {}) const;
    // With patches that give the tree. Throws cli::Failure as well.
    std::vector<Change> changes(const std::string &commit, const std::string &tree, const Limits &limits = {}) const;
    // Writes the files of a tree into a folder, which exists.
    void check_out(const std::string &tree, const std::string &folder) const;
    // Only these.
    void check_out(const std::string &tree, const std::vector<std::string> &paths, const std::string &folder) const;
    // The ids of its files but for links and submodules, by path.
    std::map<std::string, std::string> files(const std::string &tree) const;
    // The commits of its submodules, by path. `tree` may be a commit.
    std::map<std::string, std::string> submodules(const std::string &tree) const;
    // The new paths of those that have one in another tree, by the old ones.
    std::map<std::string, std::string> new_paths(const std::string &from, const std::string &to) const;
    // Those that may become other bytes in a worktree.
    std::vector<std::string> with_conversions(const std::string &tree, const std::vector<std::string> &paths) const;
    // The ids that git has for these files of a folder.
    std::vector<std::string> ids(const std::string &folder, const std::vector<std::string> &paths,
                                 Hashing hashing) const;

  private:
    GitPlace place(const std::string &worktree = {}) const;
    void read_tree(const std::string &tree) const;
    void apply_to_index(const std::string &patch) const;
    // Ids of a tree's entries whose modes begin like this, by path.
    std::map<std::string, std::string> entries(const std::string &tree, std::string_view mode) const;
    std::string commit_tree(const std::string &tree, const std::string &parent) const;
    void check_sizes(const std::vector<Change> &changes, const Limits &limits) const;
    [[noreturn]] void fail_partial(const std::string &missing) const;

    TemporaryFolder folder_;
    std::string repository_;       // for messages
    mutable std::string in_index_; // the tree or commit that the index is of
};

} // namespace opdock::plugin_pack
