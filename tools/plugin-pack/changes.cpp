#include "changes.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <map>
#include <set>

#include "cli/exit.hpp"
#include "conversions.hpp"
#include "differences.hpp"
#include "git.hpp"
#include "temporary_folder.hpp"
#include "text/spelling.hpp"
#include "workshop.hpp"

namespace opdock::plugin_pack {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t link_mode = 0120000;

// Collects the names of filter settings of the repository and of its submodules, which git reads too.
void find_filters(const std::string &repository, std::set<std::string> &names) {
    const GitRun run = run_git({repository}, {"config", "--name-only", "-z", "--get-regexp", "^filter\\."});
    for (std::string &name : split_at_zeros(run.out)) {
        names.insert(std::move(name));
    }
    constexpr std::string_view submodule = "160000 ";
    for (const std::string &entry : split_at_zeros(git({repository}, {"ls-files", "--stage", "-z"}))) {
        const fs::path folder = fs::path(repository) / entry.substr(entry.find('\t') + 1);
        if (entry.starts_with(submodule) && fs::exists(fs::symlink_status(folder / ".git"))) {
            find_filters(folder.string(), names);
        }
    }
}

// Settings that disable all these filters: the output of a filter is not the content of the file.
std::vector<std::pair<std::string, std::string>> without_filters(const std::set<std::string> &names) {
    std::vector<std::pair<std::string, std::string>> settings;
    settings.reserve(names.size());
    for (const std::string &name : names) {
        settings.emplace_back(name, name.ends_with(".required") ? "false" : "");
    }
    return settings;
}

// The repository with an index and new objects outside of it. Starts from a copy of its index, so that files count that
// are tracked although they are ignored.
class Shadow {
  public:
    explicit Shadow(const std::string &repository) : objects_(objects_of(repository)) {
        const fs::path index = fs::path(repository) / git_line({repository}, {"rev-parse", "--git-path", "index"});
        std::error_code error;
        if (fs::exists(index, error)) {
            fs::copy_file(index, folder_ / "index", error);
        }
        fs::create_directory(folder_ / "objects", error);
        if (error) {
            throw cli::Failure(repository + ": cannot copy its index: " + error.message());
        }
        if (fs::path(folder_.path()).lexically_normal().string().starts_with(repository + "/")) {
            throw cli::Failure("the folder for temporary files, " + folder_.path() +
                               ", is inside the repository; set TMPDIR to another folder");
        }
        find_filters(repository, filters_);
        place_ = {repository,
                  {{"GIT_INDEX_FILE", folder_ / "index"},
                   {"GIT_OBJECT_DIRECTORY", folder_ / "objects"},
                   {"GIT_ALTERNATE_OBJECT_DIRECTORIES", alternates_text(objects_.folders)}},
                  without_filters(filters_),
                  Conversion::of_the_user}; // by these, untouched files equal the commit
    }

    const GitPlace &place() const { return place_; }
    // The repository's objects and the added ones.
    ObjectStore objects() const {
        ObjectStore all = objects_;
        all.folders.insert(all.folders.begin(), folder_ / "objects");
        return all;
    }
    // The repository's filter settings: "filter.lfs.clean" and the like.
    const std::set<std::string> &filters() const { return filters_; }

  private:
    TemporaryFolder folder_;
    ObjectStore objects_;
    std::set<std::string> filters_;
    GitPlace place_;
};

void refuse_conflicts(const GitPlace &place) {
    const std::vector<std::string> unmerged = split_at_zeros(git(place, {"ls-files", "--unmerged", "-z"}));
    if (!unmerged.empty()) {
        throw cli::Failure(place.directory + ": a merge is not finished: " +
                           core::visible_line(unmerged.front().substr(unmerged.front().find('\t') + 1)) +
                           " has conflicts");
    }
}

// Makes git compare the contents of all files, also of those it was told not to look at, and of those outside a sparse
// checkout that exist. By its time a file may look unchanged although its attributes have changed since.
void look_into_all(const GitPlace &place) {
    std::string entries;
    for (const std::string &entry : split_at_zeros(git(place, {"ls-files", "-v", "--stage", "-z"}))) {
        const size_t tab = entry.find('\t'); // "H 100644 ID 0\tPATH"
        if (tab == std::string::npos) {
            continue;
        }
        const bool is_skipped = entry[0] == 'S' || entry[0] == 's';
        if (!is_skipped || fs::exists(fs::symlink_status(fs::path(place.directory) / entry.substr(tab + 1)))) {
            entries += entry.substr(2) + '\0';
        }
    }
    git(place, {"update-index", "-z", "--index-info"}, entries); // resets the cached state and flags
    run_git(place, {"update-index", "-q", "--refresh"});         // its exit code reports changed files
}

GitPlace with_pathspecs(GitPlace place) {
    place.variables["GIT_LITERAL_PATHSPECS"] = "0";
    return place;
}

std::vector<std::string> untracked_files(const GitPlace &place, bool include_ignored,
                                         const std::vector<std::string> &pathspecs) {
    std::vector<std::string> arguments = {"ls-files", "--others", "-z"};
    if (!include_ignored) {
        arguments.emplace_back("--exclude-standard");
    }
    arguments.emplace_back("--");
    arguments.insert(arguments.end(), pathspecs.begin(), pathspecs.end());
    return split_at_zeros(git(with_pathspecs(place), arguments));
}

// Untracked folders created by unpatch.
std::vector<std::string> made_folders(const GitPlace &place, bool include_ignored) {
    std::vector<std::string> folders;
    for (const std::string &path :
         untracked_files(place, include_ignored, {std::string(":(glob)*/**/") + provenance_name})) {
        folders.push_back(fs::path(path).parent_path().string());
    }
    return folders;
}

// Pathspecs for everything except these folders.
std::vector<std::string> all_but(const std::vector<std::string> &folders) {
    std::vector<std::string> pathspecs = {"."};
    for (const std::string &folder : folders) {
        pathspecs.push_back(":(exclude,literal)" + folder);
    }
    return pathspecs;
}

// Tracked files of the worktree to list beside the new ones: all, or only the changed ones.
enum class Tracked { all, changed };

std::vector<std::string> worktree_files(const GitPlace &place, Tracked tracked, const Counting &counting,
                                        const std::vector<std::string> &made) {
    std::vector<std::string> paths = untracked_files(place, counting.include_ignored, all_but(made));
    const std::vector<std::string> of_index = tracked == Tracked::all
                                                  ? std::vector<std::string>{"ls-files", "-z"}
                                                  : std::vector<std::string>{"diff-files", "--name-only", "-z"};
    for (std::string &path : split_at_zeros(git(place, of_index))) {
        paths.push_back(std::move(path));
    }
    std::erase_if(paths, [&](const std::string &path) {
        return !fs::is_regular_file(fs::symlink_status(fs::path(place.directory) / path));
    });
    return paths;
}

// Adds files unchanged, without any conversion, and makes `git add` skip them.
void add_as_they_are(const GitPlace &place, const std::vector<std::string> &paths) {
    std::string entries, all;
    for (const std::string &path : paths) {
        const fs::perms mode = fs::symlink_status(fs::path(place.directory) / path).permissions();
        entries += (mode & fs::perms::owner_exec) != fs::perms::none ? "100755 " : "100644 ";
        entries += git_line(place, {"hash-object", "-w", "--no-filters", "--", path}) + "\t" + path + '\0';
        all += path + '\0';
    }
    git(place, {"update-index", "-z", "--index-info"}, entries);
    git(place, {"update-index", "--assume-unchanged", "-z", "--stdin"}, all);
}

// Files that are not in the encoding that their attributes declare, and on which git would fail.
std::vector<std::string> wrongly_encoded(const GitPlace &place, const std::vector<std::string> &paths) {
    std::vector<std::string> found;
    for (const auto &[path, encoding] : attributes_of(place, {"working-tree-encoding"}, paths)) {
        if (run_git(place, {"hash-object", "-w", "--", path}).code != 0) {
            found.push_back(path);
        }
    }
    return found;
}

std::vector<std::string> filtered_files(const Shadow &shadow, const std::vector<Change> &changes) {
    std::vector<std::string> paths;
    for (const Change &change : changes) {
        if (change.mode != 0 && change.mode != link_mode && change.mode != submodule_mode) {
            paths.push_back(change.path);
        }
    }
    std::vector<std::string> found;
    for (const auto &[path, filter] : attributes_of(shadow.place(), {"filter"}, paths)) {
        const auto name = shadow.filters().lower_bound("filter." + filter + ".");
        if (name != shadow.filters().end() && name->starts_with("filter." + filter + ".")) {
            found.push_back(path);
        }
    }
    return found;
}

// Called before anything is read: a stray checkpoint must not be copied first.
void refuse_large_files(const GitPlace &place, const Counting &counting, const std::vector<std::string> &made) {
    const Limits &limits = counting.limits;
    for (const std::string &path : worktree_files(place, Tracked::changed, counting, made)) {
        std::error_code error;
        const uint64_t bytes = fs::file_size(fs::path(place.directory) / path, error);
        // The size of a file of which only the time has changed is that of the index.
        if (!error && bytes > limits.file && sizes_of(place, {":" + path}).front() != bytes) {
            require_size(place.directory + "/" + path, bytes, limits);
        }
    }
}

bool is_of_others(const std::string &folder, const Counting &counting) {
    return std::any_of(counting.others.begin(), counting.others.end(), [&](const std::string &other) {
        std::error_code error;
        return fs::equivalent(folder, other, error);
    });
}

// Resets submodules that another caller looks at to their commits.
void put_back_others(const GitPlace &place, const std::map<std::string, std::string> &before,
                     const Counting &counting) {
    std::string entries;
    for (const auto &[path, id] : before) {
        if (is_of_others(place.directory + "/" + path, counting)) {
            entries.append("160000 ").append(id).append("\t").append(path).append(1, '\0');
        }
    }
    git(place, {"update-index", "-z", "--index-info"}, entries);
}

// Sets the tree of the whole worktree, and the files that a checkout of that tree would not reproduce.
void take_worktree(const Shadow &shadow, const Workshop &workshop, const Counting &counting, Changes &changes) {
    const GitPlace &place = shadow.place();
    const Limits &limits = counting.limits;
    add_as_they_are(place, wrongly_encoded(place, worktree_files(place, Tracked::all, counting, changes.made)));
    std::vector<std::string> add = {"add", "--all", "--sparse"};
    if (counting.include_ignored) {
        add.emplace_back("--force");
    }
    add.emplace_back("--");
    for (std::string &pathspec : all_but(changes.made)) {
        add.push_back(std::move(pathspec));
    }
    git(with_pathspecs(place), add);
    put_back_others(place, workshop.submodules(changes.commit), counting);
    changes.tree = git_line(place, {"write-tree"});
    Conversions conversions = find_conversions(place.directory, workshop, changes.tree, limits);
    if (!conversions.unexplained.empty()) { // due to attributes outside the tree
        add_as_they_are(place, conversions.unexplained);
        changes.tree = git_line(place, {"write-tree"});
        conversions = find_conversions(place.directory, workshop, changes.tree, limits);
    }
    if (!conversions.unexplained.empty()) {
        throw cli::Failure(place.directory + "/" + core::visible_line(conversions.unexplained.front()) +
                           ": it was changed while it was read; try again");
    }
    changes.converted = std::move(conversions.converted);
    changes.crlf = std::move(conversions.crlf);
}

} // namespace

void require_top(const std::string &repository) {
    const std::string top = git_line({repository}, {"rev-parse", "--show-toplevel"});
    std::error_code error;
    if (top.empty() || !fs::equivalent(top, repository, error)) {
        throw cli::Failure(repository + ": this is not the top folder of a repository's worktree" +
                           (top.empty() ? "" : ", which is " + core::visible_line(top)));
    }
}

void require_size(const std::string &path, uint64_t bytes, const Limits &limits) {
    if (bytes > limits.file) {
        throw cli::Failure(core::visible_line(path) + ": it has " + size_text(bytes) +
                           ", but a package carries files of at most " + size_text(limits.file) +
                           "; leave the file out");
    }
}

std::string size_text(uint64_t bytes) {
    constexpr std::array units = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    auto value = static_cast<double>(bytes);
    size_t unit = 0;
    while (value >= 1024 && unit + 1 < units.size()) {
        value /= 1024;
        ++unit;
    }
    std::array<char, 64> text{};
    static_cast<void>(
        std::snprintf(text.data(), text.size(), unit == 0 ? "%.0f %s" : "%.1f %s", value, units.at(unit)));
    return text.data();
}

size_t count_of(const Changes &changes) {
    size_t count = changes.list.size();
    for (const Submodule &submodule : changes.submodules) {
        count += count_of(submodule.changes);
    }
    return count;
}

Changes find_changes(const std::string &repository, const std::string &commit, const Counting &counting) {
    require_top(repository);
    Changes changes;
    changes.commit = commit_id(repository, commit);
    if (changes.commit.empty()) {
        throw cli::Failure(repository + ": there is no commit '" + commit + "'");
    }
    const Shadow shadow(repository);
    refuse_conflicts(shadow.place());
    changes.made = made_folders(shadow.place(), counting.include_ignored);
    refuse_large_files(shadow.place(), counting, changes.made);
    look_into_all(shadow.place());
    const Workshop workshop(shadow.objects());              // where attributes outside the tree do not count
    static_cast<void>(workshop.has_commit(changes.commit)); // throws if its files are missing
    take_worktree(shadow, workshop, counting, changes);
    changes.list = workshop.changes(changes.commit, changes.tree, counting.limits);
    for (const Change &change : changes.list) {
        if (change.mode == submodule_mode && change.old_mode != submodule_mode) {
            throw cli::Failure(repository + ": " + core::visible_line(change.path) +
                               " is a separate repository; move it away, or add its files without its .git");
        }
    }
    changes.filtered = filtered_files(shadow, changes.list);
    const auto before = workshop.submodules(changes.commit);
    for (const auto &[path, id] : workshop.submodules(changes.tree)) {
        const std::string folder = (fs::path(repository) / path).string();
        if (!fs::exists(fs::symlink_status(fs::path(folder) / ".git")) || is_of_others(folder, counting)) {
            continue; // not checked out, or looked at by another caller
        }
        if (path.find('\n') != std::string::npos) {
            throw cli::Failure(repository + ": the submodule " + core::quote(path) +
                               " has a line feed in its path, which packages do not support; move the submodule");
        }
        const ObjectStore objects = objects_of(folder);
        // Prefer the commit that others know as well: the current one may exist only at the vendor. At this path there
        // may be another repository by now.
        const auto known = before.find(path);
        const bool is_same = known != before.end() && Workshop(objects).has_commit(known->second);
        Submodule submodule{path, objects.format, find_changes(folder, is_same ? known->second : id, counting)};
        for (const std::string &file : submodule.changes.filtered) {
            changes.filtered.push_back((fs::path(path) / file).string());
        }
        changes.submodules.push_back(std::move(submodule));
    }
    return changes;
}

} // namespace opdock::plugin_pack
