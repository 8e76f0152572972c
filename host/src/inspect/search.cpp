#include "inspect/search.hpp"

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>

#include <dirent.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include "files/reject.hpp"
#include "inspect/manifest.hpp"
#include "text/error.hpp"
#include "text/spelling.hpp"

namespace opdock::core {
namespace {

// A name in a directory, and whether it can be a directory itself.
struct Name {
    std::string text;
    bool can_be_directory;

    bool operator<(const Name &other) const { return text < other.text; }
};

// Returns 0 or the errno. std::filesystem constructs a path for each name, which would dominate the search time.
int read_names(const std::string &directory, std::vector<Name> &names) {
    struct Close {
        void operator()(DIR *opened) const { closedir(opened); }
    };
    const std::unique_ptr<DIR, Close> opened(opendir(directory.c_str()));
    if (opened == nullptr) {
        return errno;
    }
    errno = 0;
    while (const dirent *entry = readdir(opened.get())) { // NOLINT(concurrency-mt-unsafe): a DIR of our own
        names.push_back(
            {entry->d_name, entry->d_type == DT_DIR || entry->d_type == DT_LNK || entry->d_type == DT_UNKNOWN});
        errno = 0;
    }
    // Sorted, so that nothing depends on the file system, not even messages.
    const int error = errno;
    std::sort(names.begin(), names.end());
    return error;
}

constexpr const char *manifest_name = "/plugin.json";

class Search {
  public:
    SearchResult take() { return std::move(result_); }

    // Adds a directory, a library or a manifest that was requested by name.
    void module(const std::string &path, const std::string &origin) {
        struct stat status = {};
        const bool exists = stat(path.c_str(), &status) == 0;
        result_.paths.push_back({path, origin, true, exists});
        if (!exists) {
            missing(path, origin, errno, true);
        } else if (!S_ISDIR(status.st_mode)) {
            std::vector<PluginCandidate> found;
            file(path, origin, true, found);
            add(std::move(found));
        } else if (!directory(path, origin, true)) {
            problem(path, origin, "the directory holds no plugin (*.so, plugin.json, */plugin.json or */*/plugin.json)",
                    true);
        }
    }

    // Adds one of the directories that are always searched; it need not exist.
    void standard_directory(const std::string &path, const std::string &origin) {
        struct stat status = {};
        const bool exists = stat(path.c_str(), &status) == 0;
        result_.paths.push_back({path, origin, false, exists});
        if (exists) {
            directory(path, origin, false);
        } else if (errno != ENOENT && errno != ENOTDIR) {
            problem(path, origin, std::generic_category().message(errno), false);
        }
    }

  private:
    // Returns whether it contained anything.
    bool directory(const std::string &path, const std::string &origin, bool requested) {
        std::vector<PluginCandidate> found;
        const std::size_t problems = result_.problems.size();
        std::vector<Name> names;
        if (const int error = read_names(path, names); error != 0) {
            problem(path, origin, std::generic_category().message(error), requested);
        }
        const std::string folder = path.ends_with('/') ? path : path + '/';
        for (const Name &name : names) {
            if (name.text.starts_with('.')) { // incomplete files of installers and editors
                continue;
            }
            if (name.text.ends_with(".so") || name.text == "plugin.json") {
                file(folder + name.text, origin, requested, found);
            } else if (name.can_be_directory && !manifest_in(folder + name.text, origin, requested, found)) {
                package(folder + name.text, origin, requested, found);
            }
        }
        const bool anything = !found.empty() || result_.problems.size() != problems;
        add(std::move(found));
        return anything;
    }

    // Adds the manifest of a folder: with one folder each, several plugins can be installed side by side.
    bool manifest_in(const std::string &folder, const std::string &origin, bool requested,
                     std::vector<PluginCandidate> &found) {
        struct stat status = {};
        if (stat((folder + manifest_name).c_str(), &status) != 0) {
            return false;
        }
        file(folder + manifest_name, origin, requested, found);
        return true;
    }

    // Adds a folder of such folders: plugins that are installed, replaced and removed together.
    void package(const std::string &folder, const std::string &origin, bool requested,
                 std::vector<PluginCandidate> &found) {
        std::vector<Name> names;
        read_names(folder, names); // what is not a folder, or not readable, holds nothing for us
        for (const Name &name : names) {
            if (!name.text.starts_with('.') && name.can_be_directory) {
                manifest_in(folder + '/' + name.text, origin, requested, found);
            }
        }
    }

    void file(const std::string &path, const std::string &origin, bool requested, std::vector<PluginCandidate> &found) {
        if (has_line_end(path, origin, requested)) {
            return;
        }
        if (!path.ends_with(".json")) {
            found.push_back({path, origin, requested, {}, {}, {}, {}});
            return;
        }
        try {
            Manifest manifest = read_manifest(path);
            for (const std::string &warning : manifest.warnings) {
                result_.problems.push_back({warning, requested, true});
            }
            found.push_back({std::move(manifest.library), origin, requested, path, std::move(manifest.tune),
                             std::move(manifest.signature), manifest.digest});
        } catch (const Error &error) {
            result_.problems.push_back({std::string(error.what()) + " (" + origin + ")", requested, false});
        }
    }

    // Rejects a path with a newline: the rest would appear in the log as a separate, possibly forged line.
    bool has_line_end(const std::string &path, const std::string &origin, bool requested) {
        if (path.find('\n') == std::string::npos) {
            return false;
        }
        problem(path, origin,
                fmt::format("its name contains a line break ({}); rename it", code_text(RejectCode::bad_name)),
                requested);
        result_.problems.back().code = code_text(RejectCode::bad_name);
        return true;
    }

    // Sorts by name. If a file in the directory is also named by a manifest there, keeps the manifest's entry, which
    // has more information.
    void add(std::vector<PluginCandidate> found) {
        const auto by_name = [](const PluginCandidate &c) {
            const std::string_view path = c.path;
            return std::tuple(path.substr(path.rfind('/') + 1), path, std::string_view(c.manifest));
        };
        const auto sort = [&](auto before) {
            if (!std::is_sorted(found.begin(), found.end(), before)) { // the files of a directory are sorted already
                std::sort(found.begin(), found.end(), before);
            }
        };
        sort([&](const PluginCandidate &a, const PluginCandidate &b) {
            return std::pair(a.manifest.empty(), by_name(a)) < std::pair(b.manifest.empty(), by_name(b));
        });
        std::erase_if(found, [&](PluginCandidate &candidate) {
            struct stat status = {};
            bool exists = lstat(candidate.path.c_str(), &status) == 0;
            if (exists && S_ISLNK(status.st_mode)) {
                exists = stat(candidate.path.c_str(), &status) == 0;
            } else if (exists) {
                candidate.status = status;
            }
            if (exists) {
                const auto [at, is_new] =
                    files_.try_emplace({status.st_dev, status.st_ino}, Seen{candidate.manifest, folders_, {}});
                return !is_new && !is_again(candidate, at->second);
            }
            const int reason = errno;
            missing(candidate.path, candidate.manifest.empty() ? candidate.origin : candidate.manifest, reason,
                    candidate.requested);
            return true;
        });
        ++folders_;
        sort([&](const PluginCandidate &a, const PluginCandidate &b) { return by_name(a) < by_name(b); });
        std::move(found.begin(), found.end(), std::back_inserter(result_.candidates));
    }

    // Reports a file that was named explicitly, or a dangling link.
    void missing(const std::string &path, const std::string &origin, int reason, bool requested) {
        const bool is_absent = reason == ENOENT || reason == ENOTDIR;
        const std::string code = code_text(is_absent ? RejectCode::not_found : RejectCode::unreadable);
        problem(path, origin,
                fmt::format("{} ({}){}", std::generic_category().message(reason), code,
                            is_absent ? "; correct the path, or build what it names" : ""),
                requested);
        result_.problems.back().code = code;
    }

    void problem(const std::string &path, const std::string &origin, const std::string &reason, bool requested) {
        result_.problems.push_back({origin + ": " + quote(path) + ": " + reason, requested, false});
    }

    SearchResult result_;
    struct Seen {
        std::string manifest; // that named it first; "" if none did
        int folder;           // in which it was found last
        std::set<std::string> others;
    };

    // Marks a file that a second manifest, in another folder, makes a candidate again. Returns whether it did.
    bool is_again(PluginCandidate &candidate, Seen &seen) const {
        candidate.again = seen.folder != folders_ && seen.manifest != candidate.manifest &&
                          seen.others.insert(candidate.manifest).second;
        if (candidate.again) {
            seen.folder = folders_;
        }
        return candidate.again;
    }

    std::map<std::pair<dev_t, ino_t>, Seen> files_; // found so far
    int folders_ = 0;
};

constexpr const char *remedy = "; plugins are never searched for in the working directory, write the absolute path";

} // namespace

std::vector<SearchDirectory> standard_directories(const std::string &install_dir) {
    std::vector<SearchDirectory> directories = {{"/usr/local/lib/opdock/plugins", "system"},
                                                {"/usr/lib/opdock/plugins", "system"}};
    if (!install_dir.empty()) {
        std::erase_if(directories, [&](const SearchDirectory &directory) { return directory.path == install_dir; });
        directories.insert(directories.begin(), {install_dir, "install"});
    }
    return directories;
}

SearchResult search_plugins(const SearchInput &input, const Environment &environment) {
    Search search;
    for (const std::string &path : input.modules) {
        if (!path.starts_with('/')) {
            throw Error(OPDOCK_INVALID_ARGUMENT,
                        "expected the absolute path of a plugin or directory, found " + quote(path) + remedy);
        }
        search.module(path, program_origin);
    }
    if (const std::string *value = environment.find(Variable::modules)) {
        for (const Piece &piece : split(*value, ",:")) {
            if (piece.text.find('\n') != std::string_view::npos) {
                reject(environment.place(Variable::modules), piece.offset,
                       "expected absolute paths separated by commas or colons, found " + quote(piece.text) +
                           " with a line feed in it");
            }
            if (!piece.text.starts_with('/')) {
                reject(environment.place(Variable::modules), piece.offset,
                       "expected absolute paths separated by commas or colons, found " + quote(piece.text) +
                           (piece.text.empty() ? "; remove the extra separator" : remedy));
            }
            search.module(std::string(piece.text), environment.name(Variable::modules));
        }
    }
    if (!environment.is_on(Variable::modules_only)) {
        if (!environment.user_data_dir.empty()) {
            search.standard_directory(environment.user_data_dir + "/opdock/plugins", "user");
        }
        for (const SearchDirectory &directory : input.standard_directories) {
            search.standard_directory(directory.path, directory.origin);
        }
    }
    return search.take();
}

} // namespace opdock::core
