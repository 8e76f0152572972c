#include "in_place.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <set>
#include <system_error>

#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "archive.hpp"
#include "cli/exit.hpp"
#include "cli/text_file.hpp"
#include "cli/written_file.hpp"
#include "conversions.hpp"
#include "exit_codes.hpp"
#include "git.hpp"
#include "lock_file.hpp"
#include "temporary_folder.hpp"
#include "text/spelling.hpp"

namespace opdock::plugin_pack {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const fs::path &path, int error) {
    throw cli::Failure(core::visible_line(path.string()) + ": " + std::generic_category().message(error));
}

// The state of a file or a link; nothing for anything else.
std::optional<FileState> state_of(const fs::path &path) {
    std::error_code error;
    const fs::file_status status = fs::symlink_status(path, error);
    if (fs::is_symlink(status)) {
        return FileState{FileState::Kind::link, fs::read_symlink(path).string()};
    }
    if (fs::is_regular_file(status)) {
        const bool runs = (status.permissions() & fs::perms::owner_exec) != fs::perms::none;
        return FileState{runs ? FileState::Kind::executable : FileState::Kind::file,
                         cli::read_text(path.string(), most_bytes)};
    }
    return std::nullopt;
}

bool is_as(const std::optional<FileState> &state, const Move &move, const std::string &path) {
    const auto before = move.before.find(path);
    return before != move.before.end() && (state == before->second || state == move.after.at(path));
}

enum class Standing { nothing, file, folder, other };

// The kind of entry at a path of the move. A file or link in the place of a parent folder is in the way, unless it is
// one of the states of the move: then the path does not exist yet, or no longer.
Standing standing_at(const Move &move, const std::string &path) {
    fs::path place = move.folder, relative;
    std::error_code error;
    for (const fs::path &part : fs::path(path).parent_path()) {
        place /= part;
        relative /= part;
        const fs::file_status status = fs::symlink_status(place, error);
        if (!fs::exists(status)) {
            return Standing::nothing;
        }
        if (!fs::is_directory(status)) {
            return is_as(state_of(place), move, relative.string()) ? Standing::nothing : Standing::other;
        }
    }
    const fs::file_status status = fs::symlink_status(fs::path(move.folder) / path, error);
    return !fs::exists(status)                                     ? Standing::nothing
           : fs::is_directory(status)                              ? Standing::folder
           : fs::is_regular_file(status) || fs::is_symlink(status) ? Standing::file
                                                                   : Standing::other;
}

// True if the move removes the whole folder: it contains only empty folders and files that the move deletes.
bool goes_away(const Move &move, const std::string &path) {
    const fs::path folder = fs::path(move.folder) / path;
    for (const fs::directory_entry &entry : fs::recursive_directory_iterator(folder)) {
        if (entry.is_directory() && !entry.is_symlink()) {
            continue;
        }
        const std::string name = entry.path().lexically_relative(move.folder).string();
        const auto after = move.after.find(name);
        if (after == move.after.end() || after->second || !is_as(state_of(entry.path()), move, name)) {
            return false;
        }
    }
    return true;
}

bool has_inner(const Move &move, const std::string &path) {
    const auto next = move.before.upper_bound(path + "/");
    return next != move.before.end() && next->first.starts_with(path + "/");
}

bool is_in_the_way(const Move &move, const std::string &path) {
    switch (standing_at(move, path)) {
    case Standing::nothing: // a file to be changed, not created or deleted, is gone
        return move.before.at(path) && move.after.at(path);
    case Standing::file:
        return !is_as(state_of(fs::path(move.folder) / path), move, path);
    case Standing::folder: // a folder to be replaced by a file, or that replaced one
        return move.after.at(path) ? !goes_away(move, path) : !has_inner(move, path);
    case Standing::other:
        break;
    }
    return true;
}

[[noreturn]] void fail_changed(const fs::path &path) {
    throw cli::Failure(
        core::visible_line(path.string()) +
            ": it was changed in the meantime and is left unchanged; move it away, then repeat or revert the rest",
        exit_conflict);
}

// Removes folders that became empty, as git has no empty ones.
void remove_empty_parents(const fs::path &folder, const std::string &path) {
    for (fs::path parent = fs::path(path).parent_path(); !parent.empty(); parent = parent.parent_path()) {
        if (::rmdir((folder / parent).c_str()) != 0 && errno != ENOENT) {
            break;
        }
    }
}

// Replaces files: an old one stays visible until the new one is complete.
class Writer {
  public:
    // Writes in the git directory of the checkout, so that leftovers of a killed process are in no worktree.
    explicit Writer(const std::string &checkout)
        : path_(git_line({checkout}, {"rev-parse", "--absolute-git-dir"}) + "/opdock-in-place"),
          lock_(LockFile::take(path_ + ".lock", LockFile::Absent::is_made)) {
        if (!lock_) {
            throw cli::Failure(checkout + ": another plugin-pack is working on it");
        }
        ::unlink(path_.c_str());
    }

    void write(const fs::path &path, const FileState &state) const {
        std::error_code error;
        fs::create_directories(path.parent_path(), error);
        if (error) {
            fail(path.parent_path(), error.value());
        }
        if (state.kind == FileState::Kind::link) {
            if (::symlink(state.content.c_str(), path_.c_str()) != 0) {
                fail(path_, errno);
            }
        } else {
            write_content(state, path);
        }
        if (::rename(path_.c_str(), path.c_str()) != 0) {
            const int reason = errno;
            ::unlink(path_.c_str());
            fail(path, reason);
        }
    }

  private:
    // Keeps the permissions to read and write.
    static mode_t mode_for(const fs::path &path, const FileState &state) {
        struct stat there = {};
        const mode_t mask = ::umask(0);
        ::umask(mask);
        const bool is_there = ::lstat(path.c_str(), &there) == 0 && S_ISREG(there.st_mode);
        const mode_t mode = is_there ? there.st_mode & 0666 : 0666 & ~mask;
        return state.kind == FileState::Kind::executable ? mode | ((mode & 0444) >> 2) : mode;
    }

    // Copies owner, access list and attributes of the file to be replaced; returns 0, or the error.
    static int take_over(int file, const fs::path &path) {
        struct stat there = {}, made = {};
        if (::lstat(path.c_str(), &there) != 0 || !S_ISREG(there.st_mode) || ::fstat(file, &made) != 0) {
            return 0;
        }
        if ((there.st_uid != made.st_uid || there.st_gid != made.st_gid) &&
            ::fchown(file, there.st_uid, there.st_gid) != 0) {
            return errno;
        }
        std::string names(65536, '\0'); // maximum size in the kernel
        const ssize_t length = ::llistxattr(path.c_str(), names.data(), names.size());
        names.resize(length > 0 ? static_cast<size_t>(length) : 0);
        for (size_t at = 0; at < names.size(); at += std::strlen(names.c_str() + at) + 1) {
            const std::string name = names.c_str() + at;
            if (name != "system.posix_acl_access" && !name.starts_with("user.")) {
                continue; // managed by the system
            }
            std::string value(65536, '\0');
            const ssize_t size = ::lgetxattr(path.c_str(), name.c_str(), value.data(), value.size());
            if (size < 0 || ::fsetxattr(file, name.c_str(), value.data(), static_cast<size_t>(size), 0) != 0) {
                return errno;
            }
        }
        return 0;
    }

    void write_content(const FileState &state, const fs::path &path) const {
        cli::NewFile file(path_, 0600);
        file.append(state.content);
        int error = take_over(file.descriptor(), path);
        if (error == 0 && ::fchmod(file.descriptor(), mode_for(path, state)) != 0) { // an access list changes the mode
            error = errno;
        }
        if (error != 0) {
            fail(path_, error);
        }
        file.keep();
    }

    std::string path_;
    std::optional<LockFile> lock_;
};

void remove_known(const Move &move, const std::string &path) {
    const fs::path place = fs::path(move.folder) / path;
    const Standing standing = standing_at(move, path);
    if (standing == Standing::file) {
        if (!is_as(state_of(place), move, path)) {
            fail_changed(place);
        }
        if (::unlink(place.c_str()) != 0) {
            fail(place, errno);
        }
    }
    if (standing == Standing::file || standing == Standing::nothing) {
        remove_empty_parents(move.folder, path);
    }
}

// Removes a folder without files, to make room for a file.
void remove_empty_folder(const fs::path &folder) {
    std::vector<fs::path> inner;
    for (const fs::directory_entry &entry : fs::directory_iterator(folder)) {
        inner.push_back(entry.path());
    }
    for (const fs::path &one : inner) {
        if (!fs::is_directory(fs::symlink_status(one))) {
            fail_changed(one);
        }
        remove_empty_folder(one);
    }
    if (::rmdir(folder.c_str()) != 0) {
        fail(folder, errno);
    }
}

void write_known(const Move &move, const std::string &path, const FileState &state, const Writer &writer) {
    const fs::path place = fs::path(move.folder) / path;
    const Standing standing = standing_at(move, path);
    if (standing == Standing::folder) {
        remove_empty_folder(place);
    } else if (standing == Standing::file) {
        const std::optional<FileState> now = state_of(place);
        if (now == state) {
            return;
        }
        if (!is_as(now, move, path)) {
            fail_changed(place);
        }
    } else if (standing == Standing::other) {
        fail_changed(place);
    }
    writer.write(place, state);
}

// The files whose bytes the package stores separately, if they are in the tree.
std::set<std::string> converted_files(const Adapted &adapted) {
    const Changes &changes = adapted.backend.changes;
    std::set<std::string> paths(changes.crlf.begin(), changes.crlf.end());
    for (const auto &[path, content] : changes.converted) {
        paths.insert(path);
    }
    if (!paths.empty()) {
        const std::map<std::string, std::string> files = adapted.workshop->files(changes.tree);
        std::erase_if(paths, [&](const std::string &path) { return !files.contains(path); });
    }
    return paths;
}

} // namespace

Move move_to_adapted(const Adapted &adapted, const std::string &folder) {
    const Changes &changes = adapted.backend.changes;
    std::vector<std::string> old_paths;
    std::set<std::string> new_paths = converted_files(adapted); // checked even if nothing else changes them
    for (const Change &change : changes.list) {
        if (change.old_mode != 0 && change.old_mode != submodule_mode) {
            old_paths.push_back(change.old_path);
        }
        if (change.mode != 0 && change.mode != submodule_mode) {
            new_paths.insert(change.path);
        }
    }
    const TemporaryFolder files;
    const fs::path before = files / "before", after = files / "after";
    fs::create_directory(before);
    fs::create_directory(after);
    adapted.workshop->check_out(adapted.workshop->tree_of(changes.commit), old_paths, before.string());
    adapted.workshop->check_out(changes.tree, {new_paths.begin(), new_paths.end()}, after.string());
    restore_conversions(*adapted.workshop, changes, after.string());
    Move move{folder, {}, {}};
    for (const Change &change : changes.list) {
        if (change.mode == submodule_mode) {
            continue; // its folder stays
        }
        for (const std::string &path : {change.old_path, change.path}) {
            move.before[path] = state_of(before / path);
            move.after[path] = state_of(after / path);
        }
        if (change.status == 'C') { // the source of the copy stays
            move.before.erase(change.old_path);
            move.after.erase(change.old_path);
        }
    }
    return move;
}

Move reversed(Move move) {
    std::swap(move.before, move.after);
    return move;
}

std::vector<std::string> paths_in_the_way(const Move &move) {
    std::vector<std::string> paths;
    for (const auto &[path, before] : move.before) {
        if (is_in_the_way(move, path)) {
            paths.push_back(path);
        }
    }
    return paths;
}

void carry_out(const Move &move) {
    const Writer writer(move.folder);
    for (const auto &[path, after] : move.after) {
        if (!after) {
            remove_known(move, path);
        }
    }
    for (const auto &[path, after] : move.after) {
        if (after) {
            write_known(move, path, *after, writer);
        }
    }
}

} // namespace opdock::plugin_pack
