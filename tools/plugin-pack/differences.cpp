#include "differences.hpp"

#include <algorithm>
#include <charconv>
#include <functional>
#include <sstream>
#include <string_view>

#include "cli/exit.hpp"

namespace opdock::plugin_pack {
namespace {

uint32_t octal(std::string_view text) {
    uint32_t value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value, 8);
    return value;
}

// Parses the output of `diff-tree --raw -z`: ":100644 100644 ID ID M", path, and for a rename the new path.
std::vector<Change> parse_raw(const std::string &raw) {
    std::vector<Change> changes;
    const std::vector<std::string> parts = split_at_zeros(raw);
    for (size_t i = 0; i + 1 < parts.size();) {
        const std::string &what = parts[i];
        const size_t first = what.find(' ', 8);          // after both modes
        const size_t second = what.find(' ', first + 1); // after the old id
        const size_t third = what.find(' ', second + 1); // after the new id
        if (what.empty() || what[0] != ':' || third == std::string::npos) {
            throw cli::Failure("git printed a list of changes that this tool does not understand: " + what);
        }
        Change change;
        change.old_mode = octal(std::string_view(what).substr(1, 6));
        change.mode = octal(std::string_view(what).substr(8, 6));
        change.old_blob = what.substr(first + 1, second - first - 1);
        change.blob = what.substr(second + 1, third - second - 1);
        change.status = what[third + 1];
        change.old_path = parts[i + 1];
        const bool has_two = change.status == 'R' || change.status == 'C';
        change.path = parts[i + (has_two && i + 2 < parts.size() ? 2 : 1)];
        i += has_two ? 3 : 2;
        changes.push_back(std::move(change));
    }
    return changes;
}

// Only the first line of a patch begins like this: lines of a hunk have a mark before their text, and lines of binary
// content have no blanks.
std::vector<std::string> split_patches(const std::string &text) {
    constexpr std::string_view beginning = "diff --git ";
    std::vector<std::string> patches;
    for (size_t at = 0; at < text.size();) {
        size_t next = text.find("\n" + std::string(beginning), at);
        next = next == std::string::npos ? text.size() : next + 1;
        patches.push_back(text.substr(at, next - at));
        at = next;
    }
    return patches;
}

// "a.bin (2.0 GiB), b.bin (1.5 GiB)"
std::string largest(const GitPlace &place, const std::vector<Change> &changes) {
    std::vector<std::string> blobs;
    blobs.reserve(changes.size());
    for (const Change &change : changes) {
        blobs.push_back(change.mode == 0 ? change.old_blob : change.blob);
    }
    const std::vector<std::optional<uint64_t>> sizes = sizes_of(place, blobs);
    std::vector<std::pair<uint64_t, std::string>> files;
    for (size_t i = 0; i < changes.size(); ++i) {
        files.emplace_back(sizes[i].value_or(0), changes[i].path);
    }
    std::sort(files.begin(), files.end(), std::greater<>());
    files.resize(std::min<size_t>(files.size(), 3));
    std::string text;
    for (const auto &[size, path] : files) {
        text += (text.empty() ? "" : ", ") + path + " (" + size_text(size) + ")";
    }
    return text;
}

std::vector<std::string> diff_tree(std::vector<std::string> what, const std::string &from, const std::string &to,
                                   Renames renames) {
    what.insert(what.begin(), {"diff-tree", "-r", "--full-index", "--no-ext-diff", "--ignore-submodules=none"});
    if (renames == Renames::found) {
        what.insert(what.end(), {"--find-renames=50%", "-l0"});
    } else {
        what.emplace_back("--no-renames");
    }
    what.insert(what.end(), {from, to});
    return what;
}

} // namespace

std::vector<Change> differences(const GitPlace &place, const std::string &from, const std::string &to,
                                Renames renames) {
    return parse_raw(git(place, diff_tree({"--raw", "-z", "--no-abbrev"}, from, to, renames)));
}

std::vector<std::optional<uint64_t>> sizes_of(const GitPlace &place, const std::vector<std::string> &blobs) {
    std::string ids;
    for (const std::string &blob : blobs) {
        ids += blob + "\n";
    }
    std::istringstream printed(git(place, {"cat-file", "--batch-check=%(objectsize)"}, ids));
    std::vector<std::optional<uint64_t>> sizes(blobs.size());
    for (std::optional<uint64_t> &size : sizes) {
        std::string line; // or "ID missing"
        if (std::getline(printed, line) && !line.ends_with(" missing")) {
            size = std::stoull(line);
        }
    }
    return sizes;
}

void add_patches(const GitPlace &place, const std::string &from, const std::string &to, Renames renames,
                 const Limits &limits, std::vector<Change> &changes) {
    GitPlace limited = place;
    limited.most_output = limits.patches;
    std::string text;
    try {
        text = git(limited, diff_tree({"--patch", "--binary", "--no-color", "--no-textconv", "--unified=3",
                                       "--diff-algorithm=myers", "--src-prefix=a/", "--dst-prefix=b/",
                                       "--submodule=short", "--no-relative", "--no-indent-heuristic"},
                                      from, to, renames));
    } catch (const TooMuchOutput &) {
        throw cli::Failure("the patches have more than " + size_text(limits.patches) +
                           ", the limit of a package; the largest files are " + largest(place, changes));
    }
    const std::vector<std::string> patches = split_patches(text);
    size_t next = 0;
    for (Change &change : changes) {
        // A change of type is printed as two patches: the old file deleted and the new one added.
        for (int part = change.status == 'T' ? 2 : 1; part > 0 && next < patches.size(); --part) {
            change.patch += patches[next++];
        }
    }
    if (next != patches.size() || (!changes.empty() && changes.back().patch.empty())) {
        throw cli::Failure("git printed a different number of patches than of changes");
    }
}

std::map<std::string, std::string> new_paths(const GitPlace &place, const std::string &from, const std::string &to) {
    std::map<std::string, std::string> paths;
    for (Change &change : parse_raw(git(place, {"diff-tree", "-r", "--raw", "-z", "--no-abbrev", "--find-renames=50%",
                                                "-l0", "--diff-filter=R", from, to}))) {
        paths.emplace(std::move(change.old_path), std::move(change.path));
    }
    return paths;
}

} // namespace opdock::plugin_pack
