#include "target.hpp"

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "cli/exit.hpp"

namespace opdock::plugin_pack {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const std::string &path, int error) {
    throw cli::Failure(path + ": " + std::generic_category().message(error));
}

// The names of staging folders of this target, without the six characters at the end.
std::string prefix_of(const fs::path &target) {
    return "." + target.filename().string() + ".opdock-";
}

// True for the remains of a killed process: a folder of such a name that contains only the two folders.
bool is_leftover(const fs::path &folder, const std::string &prefix) {
    const std::string name = folder.filename().string();
    std::error_code error;
    if (!name.starts_with(prefix) || name.size() != prefix.size() + 6 ||
        !fs::is_directory(fs::symlink_status(folder, error))) {
        return false;
    }
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
        if (entry->path().filename() != "new" && entry->path().filename() != "work") {
            return false;
        }
    }
    return !error;
}

void remove_leftovers(const fs::path &target) {
    std::error_code error;
    std::vector<fs::path> leftovers;
    for (fs::directory_iterator entry(target.parent_path(), error), end; !error && entry != end;
         entry.increment(error)) {
        if (is_leftover(entry->path(), prefix_of(target))) {
            leftovers.push_back(entry->path());
        }
    }
    for (const fs::path &leftover : leftovers) {
        fs::remove_all(leftover, error);
    }
}

[[noreturn]] void refuse_foreign(const std::string &path) {
    throw cli::Failure(path +
                       ": plugin-pack did not make this folder, which would be lost; remove it, or name another one");
}

bool is_foreign(const fs::path &folder, const std::string &mark) {
    std::error_code error;
    return !fs::is_empty(folder, error) && !fs::is_regular_file(fs::symlink_status(folder / mark, error));
}

} // namespace

Target::Target(std::string path, std::string mark) : path_(std::move(path)), mark_(std::move(mark)) {
    while (path_.size() > 1 && path_.ends_with('/')) {
        path_.pop_back();
    }
    const fs::path target(path_);
    std::error_code error;
    fs::create_directories(target.parent_path(), error);
    if (error) {
        fail(target.parent_path().string(), error.value());
    }
    const fs::file_status status = fs::symlink_status(target, error);
    if (fs::exists(status) && !fs::is_directory(status)) {
        throw cli::Failure(path_ + ": this exists and is not a folder");
    }
    if (fs::exists(status) && is_foreign(target, mark_)) {
        refuse_foreign(path_);
    }
    const std::string lock = (target.parent_path() / ("." + target.filename().string() + ".opdock.lock")).string();
    if (auto taken = LockFile::take(lock, LockFile::Absent::is_made)) {
        lock_.emplace(std::move(*taken));
    } else {
        throw cli::Failure(path_ + ": another plugin-pack is working on it");
    }
    remove_leftovers(target);
    folder_ = (target.parent_path() / (prefix_of(target) + "XXXXXX")).string();
    if (::mkdtemp(folder_.data()) == nullptr) {
        fail(folder_, errno);
    }
    fs::create_directory(staging(), error);
    fs::create_directory(scratch(), error);
}

Target::~Target() {
    std::error_code error;
    fs::remove_all(folder_, error); // together with the former content of the target
}

void Target::replace() {
    if (::rename(staging().c_str(), path_.c_str()) == 0) { // there was nothing, or an empty folder
        return;
    }
    if (errno != ENOTEMPTY && errno != EEXIST) {
        fail(path_, errno);
    }
    const auto exchange = [&] {
        if (::renameat2(AT_FDCWD, staging().c_str(), AT_FDCWD, path_.c_str(), RENAME_EXCHANGE) != 0) {
            fail(path_ + ": this file system cannot replace a folder atomically; remove the folder first", errno);
        }
    };
    exchange();
    if (is_foreign(staging(), mark_)) { // it appeared while this one was built
        exchange();
        refuse_foreign(path_);
    }
}

void Target::remove() {
    if (::rename(path_.c_str(), staging().c_str()) != 0) {
        fail(path_, errno);
    }
}

} // namespace opdock::plugin_pack
