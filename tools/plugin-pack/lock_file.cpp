#include "lock_file.hpp"

#include <cerrno>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/exit.hpp"

namespace opdock::plugin_pack {
namespace {

// False if the previous owner removed the file meanwhile: then the name belongs to no file, or to another one.
bool is_at(int descriptor, const std::string &path) {
    struct stat open = {}, named = {};
    return ::fstat(descriptor, &open) == 0 && ::lstat(path.c_str(), &named) == 0 && open.st_ino == named.st_ino &&
           open.st_dev == named.st_dev;
}

} // namespace

std::optional<LockFile> LockFile::take(const std::string &path, Absent absent) {
    const int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | (absent == Absent::is_made ? O_CREAT : 0);
    while (true) {
        core::Descriptor file(::open(path.c_str(), flags, 0644));
        if (file.get() < 0 || ::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
            if (errno == (file.get() < 0 ? ENOENT : EWOULDBLOCK)) {
                return std::nullopt;
            }
            throw cli::Failure(path + ": " + std::generic_category().message(errno));
        }
        if (is_at(file.get(), path)) {
            return LockFile(path, std::move(file));
        }
    }
}

LockFile::~LockFile() {
    if (descriptor_.get() >= 0) {
        ::unlink(path_.c_str()); // while we hold the lock
    }
}

} // namespace opdock::plugin_pack
