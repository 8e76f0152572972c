#include "changes.hpp"

#include <filesystem>
#include <map>
#include <set>

#include "archive.hpp"
#include "cli/exit.hpp"
#include "cli/text_file.hpp"
#include "git.hpp"
#include "temporary_folder.hpp"
#include "workshop.hpp"

namespace opdock::plugin_pack {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t link_mode = 0120000;
constexpr uint32_t submodule_mode = 0160000;

std::string full_id(const std::string &repository, const std::string &commit) {
    const GitRun run =
        run_git({repository}, {"rev-parse", "--verify", "--quiet", "--end-of-options", commit + "^{commit}"});
    if (run.code != 0) {
        throw cli::Failure(repository + ": there is no commit '" + commit + "'");
    }
    return run.out.substr(0, run.out.find('\n'));
}

// The settings of filters of the repository, and of its submodules, which git looks into.
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

// Variables that take all of them away: what they make of a file is not the file.
std::map<std::string, std::string> without_filters(const std::string &repository) {
    std::set<std::string> names;
    find_filters(repository, names);
    std::map<std::string, std::string> variables = {{"GIT_CONFIG_COUNT", std::to_string(names.size())}};
    size_t count = 0;
    for (const std::string &name : names) {
        const std::string number = std::to_string(count++);
        variables["GIT_CONFIG_KEY_" + number] = name;
        variables["GIT_CONFIG_VALUE_" + number] = name.ends_with(".required") ? "false" : "";
    }
    return variables;
}

// The repository with an index and new objects elsewhere. Its own index is where it begins, so that files that are
// ignored and tracked all the same count, and files that were not touched need not be read.
class Shadow {
  public:
    explicit Shadow(const std::string &repository) : objects_(objects_of(repository)) {
        const fs::path index = fs::path(repository) / git_line({repository}, {"rev-parse", "--git-path", "index"});
        std::error_code error;
        if (fs::exists(index, error)) {
            fs::copy_file(index, folder_ / "index", error);
            // By it git knows which files may have been changed in the instant in which they were added.
            fs::last_write_time(folder_ / "index", fs::last_write_time(index, error), error);
        }
        fs::create_directory(folder_ / "objects", error);
        if (error) {
            throw cli::Failure(repository + ": its index cannot be copied: " + error.message());
        }
        if (fs::path(folder_.path()).lexically_normal().string().starts_with(repository + "/")) {
            throw cli::Failure("the folder for temporary files, " + folder_.path() +
                               ", lies in the repository; set TMPDIR");
        }
        place_ = {repository, without_filters(repository)};
        place_.variables["GIT_INDEX_FILE"] = folder_ / "index";
        place_.variables["GIT_OBJECT_DIRECTORY"] = folder_ / "objects";
        place_.variables["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = alternates_text(objects_.folders);
    }

    const GitPlace &place() const { return place_; }
    // What there is, and what was added.
    ObjectStore objects() const {
        ObjectStore all = objects_;
        all.folders.insert(all.folders.begin(), folder_ / "objects");
        return all;
    }

  private:
    TemporaryFolder folder_;
    ObjectStore objects_;
    GitPlace place_;
};

void refuse_conflicts(const GitPlace &place) {
    const std::vector<std::string> unmerged = split_at_zeros(git(place, {"ls-files", "--unmerged", "-z"}));
    if (!unmerged.empty()) {
        throw cli::Failure(place.directory + ": a merge is not finished: " +
                           unmerged.front().substr(unmerged.front().find('\t') + 1) + " has conflicts");
    }
}

// Also at those that the user told git not to look at, and at those outside a sparse checkout that are there.
void look_at_all(const GitPlace &place) {
    std::string unchanged, skipped;
    for (const std::string &entry : split_at_zeros(git(place, {"ls-files", "-v", "-z"}))) {
        if (entry.size() < 3) {
            continue;
        }
        const std::string path = entry.substr(2);
        if (entry[0] >= 'a' && entry[0] <= 'z') {
            unchanged += path + '\0';
        }
        if ((entry[0] == 'S' || entry[0] == 's') && fs::exists(fs::symlink_status(fs::path(place.directory) / path))) {
            skipped += path + '\0';
        }
    }
    if (!unchanged.empty()) {
        git(place, {"update-index", "--no-assume-unchanged", "-z", "--stdin"}, unchanged);
    }
    if (!skipped.empty()) {
        git(place, {"update-index", "--no-skip-worktree", "-z", "--stdin"}, skipped);
    }
}

std::vector<std::pair<std::string, std::string>> converted_files(const std::string &repository,
                                                                 const Workshop &workshop, const Changes &changes) {
    std::vector<std::string> paths;
    for (const Change &change : changes.list) {
        if (change.mode != 0 && change.mode != link_mode && change.mode != submodule_mode) {
            paths.push_back(change.path);
        }
    }
    const TemporaryFolder files;
    workshop.check_out(changes.tree, paths, files.path());
    std::vector<std::pair<std::string, std::string>> converted;
    for (const std::string &path : paths) {
        std::string content = cli::read_text((fs::path(repository) / path).string(), most_bytes);
        if (content != cli::read_text((fs::path(files.path()) / path).string(), most_bytes)) {
            converted.emplace_back(path, std::move(content));
        }
    }
    return converted;
}

} // namespace

void require_top(const std::string &repository) {
    const std::string top = git_line({repository}, {"rev-parse", "--show-toplevel"});
    std::error_code error;
    if (top.empty() || !fs::equivalent(top, repository, error)) {
        throw cli::Failure(repository + ": this is not the top folder of a repository's worktree" +
                           (top.empty() ? "" : ", which is " + top));
    }
}

Changes find_changes(const std::string &repository, const std::string &commit, bool include_ignored) {
    require_top(repository);
    Changes changes;
    changes.commit = full_id(repository, commit);
    const Shadow shadow(repository);
    refuse_conflicts(shadow.place());
    look_at_all(shadow.place());
    std::vector<std::string> add = {"add", "--all", "--sparse"};
    if (include_ignored) {
        add.emplace_back("--force");
    }
    add.insert(add.end(), {"--", "."});
    git(shadow.place(), add);
    changes.tree = git_line(shadow.place(), {"write-tree"});
    const Workshop workshop(shadow.objects()); // where attributes outside the tree do not count
    changes.list = workshop.changes(changes.commit, changes.tree);
    for (const Change &change : changes.list) {
        if (change.mode == submodule_mode && change.old_mode != submodule_mode) {
            throw cli::Failure(repository + ": " + change.path +
                               " is a repository of its own; move it away, or add its files without its .git");
        }
    }
    changes.converted = converted_files(repository, workshop, changes);
    return changes;
}

} // namespace opdock::plugin_pack
