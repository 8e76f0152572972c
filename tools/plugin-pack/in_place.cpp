#include "in_place.hpp"

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <set>
#include <system_error>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "archive.hpp"
#include "cli/exit.hpp"
#include "cli/text_file.hpp"
#include "conversions.hpp"
#include "temporary_folder.hpp"

namespace opdock::plugin_pack {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t submodule_mode = 0160000;

[[noreturn]] void fail(const fs::path &path, int error) {
    throw cli::Failure(path.string() + ": " + std::generic_category().message(error));
}

// Throws cli::Failure where something stands that is neither a file nor a link.
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

// Whether a folder of the path is a link, or a file: what is written there would go elsewhere.
bool leads_elsewhere(const fs::path &folder, const std::string &path) {
    fs::path place = folder;
    const fs::path parents = fs::path(path).parent_path();
    for (const fs::path &part : parents) {
        place /= part;
        std::error_code error;
        const fs::file_status status = fs::symlink_status(place, error);
        if (fs::is_symlink(status)) {
            return true;
        }
    }
    return false;
}

void remove_file(const fs::path &folder, const std::string &path) {
    std::error_code error;
    fs::remove(folder / path, error);
    if (error) {
        fail(folder / path, error.value());
    }
    // Folders that held nothing else, as git does not have empty ones.
    for (fs::path parent = fs::path(path).parent_path(); !parent.empty(); parent = parent.parent_path()) {
        if (::rmdir((folder / parent).c_str()) != 0) {
            break;
        }
    }
}

void write_content(const std::string &path, const FileState &state) {
    const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
                            state.kind == FileState::Kind::executable ? 0777 : 0666);
    if (file < 0) {
        fail(path, errno);
    }
    std::string_view rest = state.content;
    int error = 0;
    while (!rest.empty() && error == 0) {
        const ssize_t written = ::write(file, rest.data(), rest.size());
        error = written < 0 && errno != EINTR ? errno : 0;
        rest.remove_prefix(written < 0 ? 0 : static_cast<size_t>(written));
    }
    if (::close(file) != 0 || error != 0) {
        const int reason = error == 0 ? errno : error;
        ::unlink(path.c_str());
        fail(path, reason);
    }
}

void write_state(const fs::path &path, const FileState &state) {
    std::error_code error;
    fs::create_directories(path.parent_path(), error);
    if (error) {
        fail(path.parent_path(), error.value());
    }
    const std::string beside = (path.parent_path() / ("." + std::to_string(::getpid()) + ".opdock-new")).string();
    if (state.kind == FileState::Kind::link) {
        if (::symlink(state.content.c_str(), beside.c_str()) != 0) {
            fail(beside, errno);
        }
    } else {
        write_content(beside, state);
    }
    if (::rename(beside.c_str(), path.c_str()) != 0) {
        const int reason = errno;
        ::unlink(beside.c_str());
        fail(path, reason);
    }
}

// Without the bytes of files that were not changed.
Changes of_these(Changes changes, const std::set<std::string> &paths) {
    std::erase_if(changes.converted, [&](const auto &one) { return !paths.contains(one.first); });
    std::erase_if(changes.crlf, [&](const std::string &path) { return !paths.contains(path); });
    return changes;
}

} // namespace

Move move_to_adapted(const Adapted &adapted, const std::string &folder) {
    const Changes &changes = adapted.backend.changes;
    std::vector<std::string> old_paths, new_paths;
    for (const Change &change : changes.list) {
        if (change.old_mode != 0 && change.old_mode != submodule_mode) {
            old_paths.push_back(change.old_path);
        }
        if (change.mode != 0 && change.mode != submodule_mode) {
            new_paths.push_back(change.path);
        }
    }
    const TemporaryFolder files;
    const fs::path before = files / "before", after = files / "after";
    fs::create_directory(before);
    fs::create_directory(after);
    adapted.workshop->check_out(adapted.workshop->tree_of(changes.commit), old_paths, before.string());
    adapted.workshop->check_out(changes.tree, new_paths, after.string());
    restore_conversions(*adapted.workshop, of_these(changes, {new_paths.begin(), new_paths.end()}), after.string());
    Move move{folder, {}, {}};
    for (const Change &change : changes.list) {
        for (const std::string &path : {change.old_path, change.path}) {
            move.before[path] = state_of(before / path);
            move.after[path] = state_of(after / path);
        }
        if (change.status == 'C') { // what it was copied from stays
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
        const fs::path place = fs::path(move.folder) / path;
        std::error_code error;
        const std::optional<FileState> now = state_of(place);
        const bool is_other = !now && fs::exists(fs::symlink_status(place, error)) && !fs::is_directory(place, error);
        const bool is_known = now == before || now == move.after.at(path);
        if (is_other || !is_known || leads_elsewhere(move.folder, path)) {
            paths.push_back(path);
        }
    }
    return paths;
}

void carry_out(const Move &move) {
    for (const auto &[path, after] : move.after) {
        if (!after && state_of(fs::path(move.folder) / path)) {
            remove_file(move.folder, path);
        }
    }
    for (const auto &[path, after] : move.after) {
        if (after && state_of(fs::path(move.folder) / path) != after) {
            write_state(fs::path(move.folder) / path, *after);
        }
    }
}

} // namespace opdock::plugin_pack
