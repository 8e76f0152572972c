#include "cli/written_file.hpp"

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/exit.hpp"

namespace opdock::cli {
namespace {

[[noreturn]] void fail(const std::string &path, int code) {
    throw Failure(
        path + ": " +
        (code == EEXIST ? "the file exists and is never overwritten" : std::generic_category().message(code)));
}

void write_all(int to, std::string_view text, const std::string &path) {
    while (!text.empty()) {
        const ssize_t written = ::write(to, text.data(), text.size());
        if (written < 0 && errno != EINTR) {
            fail(path, errno);
        }
        text.remove_prefix(static_cast<std::size_t>(written < 0 ? 0 : written));
    }
}

void sync(int to, const std::string &path) {
    if (::fsync(to) != 0 && errno != EINVAL) { // fsync does not apply to a device
        fail(path, errno);
    }
}

using Pieces = std::vector<std::string_view>;

void write_all(int to, const Pieces &pieces, const std::string &path) {
    for (const std::string_view piece : pieces) {
        write_all(to, piece, path);
    }
}

// Writes a temporary file beside `path`, and calls `place` to give it that name.
template<class Place>
void put_in_place(const std::string &path, const Pieces &pieces, Place place) {
    const std::filesystem::path target(path);
    std::string pattern = (target.parent_path() / ("." + target.filename().string() + ".XXXXXX")).string();
    const int descriptor = ::mkostemp(pattern.data(), O_CLOEXEC);
    if (descriptor < 0) {
        fail(path, errno);
    }
    try {
        write_all(descriptor, pieces, path);
        sync(descriptor, path);
        if (::fchmod(descriptor, 0644) != 0 || !place(pattern.c_str())) {
            fail(path, errno);
        }
    } catch (...) {
        ::close(descriptor);
        ::unlink(pattern.c_str());
        throw;
    }
    ::close(descriptor);
}

// True for a device or pipe, which cannot be replaced by renaming.
bool is_device(const std::string &path) {
    std::error_code error;
    return std::filesystem::is_other(path, error);
}

void write_into(const std::string &path, const Pieces &pieces) {
    const int descriptor = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK); // does not wait for a pipe's reader
    if (descriptor < 0 && errno == ENXIO) {
        throw Failure(path + ": no process reads this pipe");
    }
    if (descriptor < 0) {
        fail(path, errno);
    }
    ::fcntl(descriptor, F_SETFL, ::fcntl(descriptor, F_GETFL) & ~O_NONBLOCK); // but wait for a slow reader
    try {
        write_all(descriptor, pieces, path);
        sync(descriptor, path);
    } catch (...) {
        ::close(descriptor);
        throw;
    }
    ::close(descriptor);
}

void replace_with(const std::string &path, const Pieces &pieces) {
    put_in_place(path, pieces, [&](const char *written) { return std::rename(written, path.c_str()) == 0; });
}

void write_new(const std::string &path, const Pieces &pieces) {
    put_in_place(path, pieces, [&](const char *written) {
        if (::link(written, path.c_str()) != 0) { // unlike rename, fails if the file exists
            return false;
        }
        ::unlink(written);
        return true;
    });
}

} // namespace

void refuse_to_overwrite(const std::string &path) {
    struct stat status = {};
    if (::lstat(path.c_str(), &status) == 0) {
        fail(path, EEXIST);
    }
}

NewFile::NewFile(const std::string &path, mode_t mode)
    : path_(path), descriptor_(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode)) {
    if (descriptor_ < 0) {
        fail(path, errno);
    }
}

NewFile::~NewFile() {
    if (descriptor_ >= 0) {
        ::close(descriptor_);
    }
    if (!kept_) {
        ::unlink(path_.c_str());
    }
}

void NewFile::keep() {
    if (::close(std::exchange(descriptor_, -1)) != 0) { // some file systems report a full disk only here
        fail(path_, errno);
    }
    kept_ = true;
}

void NewFile::append(std::string_view text) {
    write_all(descriptor_, text, path_);
}

void NewFile::write(std::string_view text) {
    append(text);
    sync(descriptor_, path_);
}

void replace_file(const std::string &path, std::string_view text) {
    replace_with(path, {text});
}

void write_new_file(const std::string &path, std::string_view text) {
    write_new(path, {text});
}

void check_output(const std::string &path, bool force) {
    std::error_code error;
    if (!path.empty() && std::filesystem::is_directory(path, error)) {
        throw Failure(path + ": this is a folder; expected a file to write");
    }
    if (!path.empty() && !force && std::filesystem::exists(std::filesystem::symlink_status(path, error))) {
        throw Failure(path + ": the file exists; --force overwrites it");
    }
}

void write_output(const std::string &path, bool force, const std::string &text) {
    write_output(path, force, Pieces{text});
}

void write_output(const std::string &path, bool force, const Pieces &pieces) {
    if (path.empty()) {
        for (const std::string_view piece : pieces) {
            std::cout << piece;
        }
    } else if (force && is_device(path)) {
        write_into(path, pieces);
    } else if (force) {
        replace_with(path, pieces);
    } else {
        write_new(path, pieces);
    }
}

} // namespace opdock::cli
