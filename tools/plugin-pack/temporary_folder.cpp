#include "temporary_folder.hpp"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <vector>

#include <sys/stat.h>
#include <unistd.h>

#include "cli/exit.hpp"
#include "text/spelling.hpp"

namespace opdock::plugin_pack {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view prefix = ".opdock-pack-";
constexpr std::string_view pattern = "XXXXXX";
constexpr const char *lock_name = "/lock";

std::string folder_for_temporary_files() {
    std::error_code error;
    const fs::path folder = fs::temp_directory_path(error);
    if (error) {
        const char *variable = std::getenv("TMPDIR"); // NOLINT(concurrency-mt-unsafe): nobody sets it
        throw cli::Failure(core::visible_line(variable == nullptr ? "/tmp" : variable) +
                           ": there is no such folder for temporary files; set TMPDIR to an existing one");
    }
    std::string path = fs::absolute(folder).lexically_normal().string();
    if (path.find('\n') != std::string::npos) {
        throw cli::Failure(core::quote(path) + ": the folder for temporary files has a line feed in its path; set "
                                               "TMPDIR to another");
    }
    return path;
}

std::string make_folder(const std::string &parent) {
    std::string path = parent + "/" + std::string(prefix) + std::string(pattern);
    if (::mkdtemp(path.data()) == nullptr) {
        throw cli::Failure("cannot create a folder in '" + parent + "': " + std::generic_category().message(errno));
    }
    return path;
}

bool is_own_folder(const std::string &path) {
    struct stat status = {};
    return ::lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == ::geteuid();
}

void remove_if_abandoned(const std::string &path) {
    std::error_code error;
    if (!fs::exists(fs::symlink_status(path + lock_name, error))) {
        ::rmdir(path.c_str()); // its process was killed early; a folder in use is not empty
        return;
    }
    if (const auto lock = LockFile::take(path + lock_name, LockFile::Absent::is_nothing)) {
        fs::remove_all(path, error);
    }
}

} // namespace

void remove_abandoned_folders(const std::string &parent) {
    std::error_code error;
    std::vector<std::string> found;
    for (fs::directory_iterator entry(parent, error), end; !error && entry != end; entry.increment(error)) {
        const std::string name = entry->path().filename().string();
        if (name.starts_with(prefix) && name.size() == prefix.size() + pattern.size()) {
            found.push_back(entry->path().string());
        }
    }
    for (const std::string &path : found) {
        try {
            if (is_own_folder(path)) {
                remove_if_abandoned(path);
            }
        } catch (const cli::Failure &) { // what cannot be removed stays
            continue;
        }
    }
}

TemporaryFolder::TemporaryFolder(const std::string &parent) {
    if (!parent.empty()) {
        outer_ = path_ = make_folder(parent);
        return;
    }
    const std::string folder = folder_for_temporary_files();
    remove_abandoned_folders(folder);
    while (!lock_) { // another process may remove it before it has its lock
        outer_ = make_folder(folder);
        auto lock = LockFile::take(outer_ + lock_name, LockFile::Absent::is_made);
        if (lock) {
            lock_.emplace(std::move(*lock));
        }
    }
    path_ = outer_ + "/files";
    std::error_code error;
    if (!fs::create_directory(path_, error)) {
        throw cli::Failure(path_ + ": " + error.message());
    }
}

TemporaryFolder::~TemporaryFolder() {
    std::error_code error; // what cannot be removed stays
    fs::remove_all(outer_, error);
}

} // namespace opdock::plugin_pack
