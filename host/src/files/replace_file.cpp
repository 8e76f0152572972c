#include "files/replace_file.hpp"

#include <cerrno>
#include <cstdio>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files/descriptor.hpp"
#include "files/file_size_signal.hpp"

namespace opdock::core {
namespace {

// One temporary file for each writing thread, so that none uses another's. A process that was killed may have left a
// file of this name behind.
Descriptor new_file(const std::string &path, mode_t mode) {
    constexpr int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
    Descriptor file(::open(path.c_str(), flags, mode));
    if (file.get() < 0 && errno == EEXIST && ::unlink(path.c_str()) == 0) {
        file = Descriptor(::open(path.c_str(), flags, mode));
    }
    return file;
}

// 0 or an errno value.
int write_whole(const Descriptor &file, std::string_view contents) {
    const FileSizeSignal held_back;
    while (!contents.empty()) {
        const ssize_t count = TEMP_FAILURE_RETRY(::write(file.get(), contents.data(), contents.size()));
        if (count < 0) {
            return errno;
        }
        contents.remove_prefix(static_cast<std::size_t>(count));
    }
    return 0;
}

std::string replace_pieces(const std::string &path, std::span<const std::string_view> pieces, mode_t mode) {
    const auto failed = [&](int code) {
        return fmt::format("'{}' cannot be written: {}", path, std::generic_category().message(code));
    };
    struct stat status = {};
    if (::lstat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
        return fmt::format("'{}' is not written: it is not a regular file; specify a regular file or an unused name",
                           path);
    }
    const std::string fresh = fmt::format("{}.new-{}", path, ::gettid());
    const Descriptor file = new_file(fresh, mode);
    if (file.get() < 0) {
        return failed(errno);
    }
    int code = 0;
    for (const std::string_view piece : pieces) {
        code = code == 0 ? write_whole(file, piece) : code;
    }
    if (code == 0 && ::rename(fresh.c_str(), path.c_str()) != 0) {
        code = errno;
    }
    if (code != 0) {
        ::unlink(fresh.c_str());
        return failed(code);
    }
    return {};
}

constexpr mode_t of_owner = S_IRUSR | S_IWUSR;

} // namespace

std::string replace_file(const std::string &path, std::string_view contents) {
    return replace_pieces(path, std::span(&contents, 1), of_owner | S_IRGRP | S_IROTH);
}

std::string replace_private_file(const std::string &path, std::span<const std::string_view> pieces) {
    return replace_pieces(path, pieces, of_owner);
}

} // namespace opdock::core
