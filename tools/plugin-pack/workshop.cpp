#include "workshop.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "cli/exit.hpp"
#include "cli/quantities.hpp"
#include "cli/text_file.hpp"
#include "differences.hpp"
#include "exit_codes.hpp"
#include "text/spelling.hpp"

namespace opdock::plugin_pack {
namespace {

// Uses C's escapes if git would misread the folder.
std::string quoted(const std::string &folder) {
    if (folder.find_first_of(":\"\\\r\n") == std::string::npos) {
        return folder;
    }
    std::string text = "\"";
    for (const char c : folder) {
        if (c == '\n') {
            text += "\\n";
            continue;
        }
        text += c == '"' || c == '\\' ? "\\" : "";
        text += c;
    }
    return text + "\"";
}

} // namespace

ObjectStore objects_of(const std::string &repository) {
    const GitPlace there{repository};
    const std::string lines = git_line(there, {"rev-parse", "--show-object-format", "--git-path", "objects"});
    const size_t end = lines.find('\n');
    const std::filesystem::path folder = std::filesystem::path(repository) / lines.substr(end + 1);
    return {{folder.lexically_normal().string()}, lines.substr(0, end), repository};
}

std::string alternates_text(const std::vector<std::string> &folders) {
    std::string text;
    for (const std::string &folder : folders) {
        text += (text.empty() ? "" : ":") + quoted(folder);
    }
    return text;
}

Workshop::Workshop(const ObjectStore &objects, const std::string &parent)
    : folder_(parent), repository_(objects.repository) {
    GitPlace nobodys{folder_.path()};
    nobodys.has_own_settings = true;
    git(nobodys, {"init", "--quiet", "--bare", "--template=", "--object-format=" + objects.format, "git"});
    std::ofstream alternates(folder_ / "git/objects/info/alternates");
    for (const std::string &folder : objects.folders) {
        alternates << quoted(folder) << '\n';
    }
    std::ofstream config(folder_ / "git/config", std::ios::app);
    config << "[core]\n\tfileMode = true\n\tsymlinks = true\n\tignoreCase = false\n";
    alternates.close();
    config.close();
    if (!alternates || !config) {
        throw cli::Failure(folder_.path() + ": cannot write a repository there");
    }
}

GitPlace Workshop::place(const std::string &worktree) const {
    GitPlace place{worktree.empty() ? folder_.path() : worktree,
                   {{"GIT_DIR", folder_ / "git"}, {"GIT_INDEX_FILE", folder_ / "index"}}};
    place.has_own_settings = true;
    if (!worktree.empty()) {
        place.variables.emplace("GIT_WORK_TREE", worktree);
    }
    return place;
}

bool Workshop::has_commit(const std::string &commit) const {
    if (run_git(place(), {"cat-file", "-e", commit + "^{tree}"}).code == 0) {
        return true;
    }
    if (run_git(place(), {"cat-file", "-e", commit + "^{commit}"}).code == 0) {
        fail_partial("the folders of the commit " + commit);
    }
    return false;
}

std::string Workshop::commit_of(const std::string &repository, const std::string &commit) const {
    // Only the repository itself has names of branches and tags.
    std::string id = commit_id(repository, commit);
    if (id.empty() || !has_commit(id)) {
        throw cli::Failure(repository + ": it does not have the commit " + core::visible_line(commit) + "; fetch it");
    }
    return id;
}

std::string Workshop::tree_of(const std::string &commit) const {
    return git_line(place(), {"rev-parse", "--verify", "--quiet", "--end-of-options", commit + "^{tree}"});
}

void Workshop::read_tree(const std::string &tree) const {
    if (tree == in_index_) {
        return;
    }
    in_index_.clear();
    std::error_code none;
    std::filesystem::remove(folder_ / "index", none);
    git(place(), {"read-tree", tree});
    in_index_ = tree;
}

std::string Workshop::apply(const std::string &commit, const std::vector<Change> &changes) const {
    read_tree(commit);
    std::string all;
    for (const Change &change : changes) {
        all += change.patch;
    }
    if (all.size() > Limits().patches) {
        throw cli::Failure("the patches have " + size_text(all.size()) + ", but git applies at most " +
                           size_text(Limits().patches));
    }
    if (!all.empty()) {
        apply_to_index(all);
    }
    return in_index_ = git_line(place(), {"write-tree"});
}

void Workshop::apply_to_index(const std::string &patch) const {
    in_index_.clear();
    const GitRun run = run_git(place(), {"apply", "--cached", "--whitespace=nowarn", "-"}, patch);
    if (run.code == 0) {
        return;
    }
    const auto says = [&](const char *words) { return run.err.find(words) != std::string::npos; };
    const bool is_patch = !says("No valid patches in input") && !says("unrecognized input"); // from git before 2.35
    throw cli::Failure(is_patch ? "git apply failed: " + words_of(run)
                                : "git cannot read this patch, or it changes nothing",
                       exit_conflict);
}

std::string Workshop::apply_files(const std::string &commit, const std::vector<std::string> &files,
                                  const std::function<std::string(const std::string &file)> &read) const {
    read_tree(commit);
    for (const std::string &file : files) {
        try {
            apply_to_index(read(file));
        } catch (const cli::Failure &failure) {
            throw cli::Failure(file + ": " + failure.what(), failure.code);
        }
    }
    return in_index_ = git_line(place(), {"write-tree"});
}

// With a fixed author and time: the commit is for the merge alone.
std::string Workshop::commit_tree(const std::string &tree, const std::string &parent) const {
    GitPlace with_names = place();
    for (const char *who : {"AUTHOR", "COMMITTER"}) {
        with_names.variables.emplace(std::string("GIT_") + who + "_NAME", "nobody");
        with_names.variables.emplace(std::string("GIT_") + who + "_EMAIL", "nobody@localhost");
        with_names.variables.emplace(std::string("GIT_") + who + "_DATE", "@0 +0000");
    }
    std::vector<std::string> arguments = {"commit-tree", tree, "-m", "for a merge"};
    if (!parent.empty()) {
        arguments.insert(arguments.end(), {"-p", parent});
    }
    return git_line(with_names, arguments);
}

Merged Workshop::merge(const std::string &base, const std::string &tree, const std::string &onto) const {
    // Without parents, which a shallow clone does not have.
    const std::string root = commit_tree(tree_of(base), "");
    const std::string theirs = commit_tree(tree, root);
    const std::string ours = commit_tree(tree_of(onto), root);
    const GitRun run =
        run_git(place(), {"merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", ours, theirs});
    std::vector<std::string> parts = split_at_zeros(run.out);
    if (run.code > 1 || parts.empty()) {
        throw cli::Failure("git merge-tree, which needs git 2.38, failed: " + run.err);
    }
    Merged merged{parts.front(), {}};
    parts.erase(parts.begin());
    std::erase(parts, "");
    merged.conflicts = std::move(parts);
    return merged;
}

void Workshop::fail_partial(const std::string &missing) const {
    throw cli::Failure(repository_ + ": it is a partial clone that lacks " + missing +
                       "; check out the commit in it, so that git fetches them, or clone it without --filter");
}

void Workshop::require_files(const std::string &commit) const {
    std::set<std::string> missing;
    std::istringstream printed(
        git(place(), {"rev-list", "--objects", "--missing=print", "--no-object-names", commit + "^{tree}"}));
    for (std::string id; std::getline(printed, id);) {
        if (id.starts_with('?')) {
            missing.insert(id.substr(1));
        }
    }
    if (missing.empty()) {
        return;
    }
    std::string example;
    if (const GitRun run = run_git(place(), {"ls-tree", "-r", "-z", "--full-tree", commit}); run.code == 0) {
        for (const std::string &entry : split_at_zeros(run.out)) {
            const size_t tab = entry.find('\t'); // "100644 blob ID\tPATH"
            if (tab != std::string::npos && missing.contains(entry.substr(12, tab - 12))) {
                example = ", such as " + entry.substr(tab + 1);
                break;
            }
        }
    }
    fail_partial(cli::counted(missing.size(), "file") + " of the commit " + commit + example);
}

void Workshop::check_sizes(const std::vector<Change> &changes, const Limits &limits) const {
    std::vector<std::string> ids, paths;
    for (const Change &change : changes) {
        for (const auto &[mode, id] :
             {std::pair(change.old_mode, change.old_blob), std::pair(change.mode, change.blob)}) {
            if (mode != 0 && mode != 0160000) { // a submodule's commit is in another repository
                ids.push_back(id);
                paths.push_back(change.path);
            }
        }
    }
    const std::vector<std::optional<uint64_t>> sizes = sizes_of(place(), ids);
    for (size_t i = 0; i < ids.size(); ++i) {
        if (!sizes[i]) {
            fail_partial("the file " + paths[i] + " as it was committed");
        }
        require_size(paths[i], *sizes[i], limits);
    }
}

std::vector<Change> Workshop::changed_files(const std::string &commit, const std::string &tree,
                                            const Limits &limits) const {
    std::vector<Change> list = differences(place(), commit, tree, Renames::as_two);
    check_sizes(list, limits);
    return list;
}

std::vector<Change> Workshop::changes(const std::string &commit, const std::string &tree, const Limits &limits) const {
    const std::vector<Change> files = changed_files(commit, tree, limits); // does not read the files
    const auto has = [&](char status) {
        return std::any_of(files.begin(), files.end(), [&](const Change &one) { return one.status == status; });
    };
    const bool may_have_renames = has('A') && has('D');
    // git apply does not accept a rename of a file whose path becomes a folder.
    for (const Renames renames : {Renames::found, Renames::as_two}) {
        if (renames == Renames::found && !may_have_renames) {
            continue;
        }
        read_tree(tree); // its attributes say which files are text
        std::vector<Change> list = renames == Renames::as_two ? files : differences(place(), commit, tree, renames);
        add_patches(place(), commit, tree, renames, limits, list);
        try {
            if (apply(commit, list) == tree) {
                return list;
            }
        } catch (const cli::Failure &failure) {
            if (renames == Renames::as_two) {
                throw cli::Failure(failure.what());
            }
        }
    }
    throw cli::Failure("the patches that git makes of these changes do not reproduce them");
}

void Workshop::check_out(const std::string &tree, const std::string &folder) const {
    read_tree(tree);
    git(place(folder), {"checkout-index", "--all", "--force", "--quiet"});
}

void Workshop::check_out(const std::string &tree, const std::vector<std::string> &paths,
                         const std::string &folder) const {
    read_tree(tree);
    git(place(folder), {"checkout-index", "--force", "--quiet", "-z", "--stdin"}, joined_with_zeros(paths));
}

std::map<std::string, std::string> Workshop::entries(const std::string &tree, std::string_view mode) const {
    std::map<std::string, std::string> found;
    for (const std::string &entry : split_at_zeros(git(place(), {"ls-tree", "-r", "-z", "--full-tree", tree}))) {
        const size_t tab = entry.find('\t'), id = entry.rfind(' ', tab) + 1; // "100644 blob ID\tPATH"
        if (entry.starts_with(mode) && tab != std::string::npos) {
            found.emplace(entry.substr(tab + 1), entry.substr(id, tab - id));
        }
    }
    return found;
}

std::map<std::string, std::string> Workshop::files(const std::string &tree) const {
    return entries(tree, "100");
}

std::map<std::string, std::string> Workshop::submodules(const std::string &tree) const {
    return entries(tree, "160000 ");
}

std::map<std::string, std::string> Workshop::new_paths(const std::string &from, const std::string &to) const {
    return plugin_pack::new_paths(place(), from, to);
}

std::vector<std::string> Workshop::with_conversions(const std::string &tree,
                                                    const std::vector<std::string> &paths) const {
    read_tree(tree);
    std::vector<std::string> found;
    for (auto &[path, value] : attributes_of(
             place(folder_.path()), {"--cached", "text", "crlf", "eol", "ident", "working-tree-encoding"}, paths)) {
        if (found.empty() || found.back() != path) {
            found.push_back(std::move(path));
        }
    }
    return found;
}

std::vector<std::string> Workshop::ids(const std::string &folder, const std::vector<std::string> &paths,
                                       Hashing hashing) const {
    std::string lines;
    for (const std::string &path : paths) {
        lines += quoted(path) + "\n";
    }
    GitPlace there = place(folder);
    if (hashing == Hashing::with_line_ends) {
        there.settings.emplace_back("core.autocrlf", "input");
    }
    std::vector<std::string> arguments = {"hash-object", "--stdin-paths"};
    if (hashing == Hashing::as_it_is) {
        arguments.emplace_back("--no-filters");
    }
    std::istringstream printed(paths.empty() ? "" : git(there, arguments, lines));
    std::vector<std::string> ids;
    for (std::string id; std::getline(printed, id);) {
        ids.push_back(std::move(id));
    }
    if (ids.size() != paths.size()) {
        throw cli::Failure(folder + ": git printed a different number of ids than of files");
    }
    return ids;
}

} // namespace opdock::plugin_pack
