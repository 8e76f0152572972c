#include "conversions.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <set>

#include <nlohmann/json.hpp>

#include "archive.hpp"
#include "cli/exit.hpp"
#include "cli/text_file.hpp"
#include "exit_codes.hpp"
#include "package.hpp"
#include "temporary_folder.hpp"

namespace opdock::plugin_pack {
namespace {

namespace fs = std::filesystem;

using Files = std::map<std::string, std::string>; // ids by path

// Replaces each LF of a text by CRLF, unless it has a CR already.
std::string with_crlf(const std::string &text) {
    std::string result;
    for (const char c : text) {
        if (c == '\n' && !result.ends_with('\r')) {
            result += '\r';
        }
        result += c;
    }
    return result;
}

std::string with_lf(const std::string &text) {
    std::string result;
    for (const char c : text) {
        if (c == '\n' && result.ends_with('\r')) {
            result.pop_back();
        }
        result += c;
    }
    return result;
}

// The text, with the line ends that are most frequent in `like`.
std::string with_line_ends(const std::string &text, const std::string &like) {
    if (like.find('\0') != std::string::npos) { // text in another encoding
        return text;
    }
    const size_t crlf = like.size() - with_lf(like).size();
    const auto all = static_cast<size_t>(std::count(like.begin(), like.end(), '\n'));
    return 2 * crlf > all ? with_crlf(with_lf(text)) : with_lf(text);
}

std::string read(const fs::path &file) {
    return cli::read_text(file.string(), most_bytes);
}

// Compares without holding both files in memory: for most files with attributes, nothing else is needed.
bool has_same_bytes(const fs::path &one, const fs::path &other) {
    if (fs::file_size(one) != fs::file_size(other)) {
        return false;
    }
    std::ifstream first(one, std::ios::binary), second(other, std::ios::binary);
    return std::equal(std::istreambuf_iterator<char>(first), std::istreambuf_iterator<char>(),
                      std::istreambuf_iterator<char>(second), std::istreambuf_iterator<char>());
}

void write(const fs::path &file, const std::string &text) {
    std::ofstream stream(file, std::ios::binary);
    stream << text;
    stream.close();
    if (!stream) {
        throw cli::Failure(file.string() + ": cannot write it");
    }
}

// A package could list a path with a link, and the write would follow the link.
void require_file(const std::string &folder, const std::string &path) {
    fs::path place = folder;
    const fs::path relative(path);
    for (auto part = relative.begin(); part != relative.end(); ++part) {
        place /= *part;
        const fs::file_status status = fs::symlink_status(place);
        if (std::next(part) == relative.end() ? !fs::is_regular_file(status) : !fs::is_directory(status)) {
            throw cli::Failure(path_json(path).dump() + " is not a file of the tree", exit_not_trusted);
        }
    }
}

// The paths whose files in the folder have an id other than in the tree.
std::vector<std::string> others(const Workshop &workshop, const std::string &folder, const Files &files,
                                const std::vector<std::string> &paths, Hashing hashing) {
    const std::vector<std::string> ids = workshop.ids(folder, paths, hashing);
    std::vector<std::string> found;
    for (size_t i = 0; i < paths.size(); ++i) {
        if (ids[i] != files.at(paths[i])) {
            found.push_back(paths[i]);
        }
    }
    return found;
}

// The files that differ from the tree under all of git's conversions. The folder has the attributes of the tree.
std::vector<std::string> unexplained(const Workshop &workshop, const std::string &folder, const Files &files,
                                     std::vector<std::string> paths) {
    for (const Hashing hashing : {Hashing::as_it_is, Hashing::by_attributes, Hashing::with_line_ends}) {
        paths = others(workshop, folder, files, paths, hashing);
    }
    return paths;
}

bool is_attributes(const std::string &path) {
    return fs::path(path).filename() == ".gitattributes";
}

// Files of the worktree that a checkout may not reproduce.
std::vector<std::string> suspects(const std::string &worktree, const Workshop &workshop, const std::string &tree,
                                  const Files &files) {
    std::vector<std::string> paths;
    for (const auto &[path, id] : files) {
        if (fs::is_regular_file(fs::symlink_status(fs::path(worktree) / path))) { // false outside a sparse checkout
            paths.push_back(path);
        }
    }
    std::vector<std::string> found = others(workshop, worktree, files, paths, Hashing::as_it_is);
    const std::vector<std::string> converted = workshop.with_conversions(tree, paths);
    found.insert(found.end(), converted.begin(), converted.end());
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
    return found;
}

// Returns the wanted content of a file, by its path in the tree and its place in a checkout; nothing: keep it.
using Wanted = std::function<std::optional<std::string>(const std::string &path, const fs::path &checked_out)>;

// The conversions that turn the files of a checkout of the tree into the wanted ones.
Conversions conversions_to(const Wanted &wanted, const Workshop &workshop, const std::string &tree, const Files &files,
                           const std::vector<std::string> &paths) {
    Conversions conversions;
    if (paths.empty()) {
        return conversions;
    }
    std::vector<std::string> needed = paths;
    for (const auto &[path, id] : files) {
        if (is_attributes(path)) {
            needed.push_back(path);
        }
    }
    const TemporaryFolder folder;
    workshop.check_out(tree, needed, folder.path());
    std::vector<std::string> different;
    for (const std::string &path : paths) {
        const fs::path file = fs::path(folder.path()) / path;
        std::optional<std::string> content = wanted(path, file);
        if (!content) {
            continue;
        }
        const std::string checked_out = read(file);
        if (*content == checked_out) {
            continue;
        }
        different.push_back(path);
        write(file, *content);
        if (*content == with_crlf(checked_out)) {
            conversions.crlf.push_back(path);
        } else {
            conversions.converted.emplace_back(path, std::move(*content));
        }
    }
    conversions.unexplained = unexplained(workshop, folder.path(), files, std::move(different));
    return conversions;
}

} // namespace

Conversions find_conversions(const std::string &worktree, const Workshop &workshop, const std::string &tree,
                             const Limits &limits) {
    const Files files = workshop.files(tree);
    const auto in_worktree = [&](const std::string &path, const fs::path &checked_out) -> std::optional<std::string> {
        const fs::path file = fs::path(worktree) / path;
        if (has_same_bytes(file, checked_out)) {
            return std::nullopt;
        }
        require_size(file.string(), fs::file_size(file), limits);
        return read(file);
    };
    return conversions_to(in_worktree, workshop, tree, files, suspects(worktree, workshop, tree, files));
}

void keep_conversions(const Workshop &workshop, const Changes &before, Changes &merged) {
    if (before.converted.empty() && before.crlf.empty()) {
        return;
    }
    const Files old_files = workshop.files(before.tree);
    const Files files = workshop.files(merged.tree);
    const std::map<std::string, std::string> moved = workshop.new_paths(before.tree, merged.tree);
    std::vector<std::string> paths; // current ones
    const auto path_now = [&](const std::string &path) {
        const auto found = moved.find(path);
        return found == moved.end() ? path : found->second;
    };
    std::map<std::string, const std::string *> contents; // null: CRLF
    for (const std::string &path : before.crlf) {
        contents.emplace(path_now(path), nullptr);
    }
    std::set<std::string> untouched;
    for (const auto &[path, content] : before.converted) {
        const std::string now = path_now(path);
        contents.emplace(now, &content);
        const auto old_id = old_files.find(path);
        const auto id = files.find(now);
        if (old_id != old_files.end() && id != files.end() && old_id->second == id->second) {
            untouched.insert(now);
        }
    }
    for (const auto &[path, content] : contents) {
        if (files.contains(path)) {
            paths.push_back(path);
        }
    }
    const auto as_before = [&](const std::string &path, const fs::path &file) {
        const std::string *content = contents.at(path);
        const std::string checked_out = read(file);
        return content == nullptr         ? with_crlf(checked_out)
               : untouched.contains(path) ? *content
                                          : with_line_ends(checked_out, *content);
    };
    Conversions kept = conversions_to(as_before, workshop, merged.tree, files, paths);
    const auto is_wrong = [&](const std::string &path) { // not by the new commit's attributes
        return std::find(kept.unexplained.begin(), kept.unexplained.end(), path) != kept.unexplained.end();
    };
    std::erase_if(kept.crlf, is_wrong);
    std::erase_if(kept.converted, [&](const auto &one) { return is_wrong(one.first); });
    merged.converted = std::move(kept.converted);
    merged.crlf = std::move(kept.crlf);
}

void restore_conversions(const Workshop &workshop, const Changes &changes, const std::string &folder) {
    std::vector<std::string> paths;
    for (const auto &[path, content] : changes.converted) {
        require_file(folder, path);
        write(fs::path(folder) / path, content);
        paths.push_back(path);
    }
    for (const std::string &path : changes.crlf) {
        require_file(folder, path);
        write(fs::path(folder) / path, with_crlf(read(fs::path(folder) / path)));
        paths.push_back(path);
    }
    if (paths.empty()) {
        return;
    }
    const Files files = workshop.files(changes.tree);
    for (const std::string &path : paths) {
        if (!files.contains(path)) {
            throw cli::Failure(path_json(path).dump() + " is not a file of the tree", exit_not_trusted);
        }
    }
    const std::vector<std::string> wrong = unexplained(workshop, folder, files, std::move(paths));
    if (!wrong.empty()) {
        throw cli::Failure(path_json(wrong.front()).dump() + ": its content in the package differs from its tree",
                           exit_not_trusted);
    }
}

} // namespace opdock::plugin_pack
