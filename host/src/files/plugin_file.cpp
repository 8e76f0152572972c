#include "files/plugin_file.hpp"

#include <cerrno>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files/reject.hpp"

namespace opdock::core {
namespace {

constexpr std::uint64_t largest_file = std::uint64_t{4} << 30; // code addresses span 32 bits; the rest is margin

std::string system_message(int code) {
    return std::generic_category().message(code);
}

} // namespace

PluginFile::PluginFile(const std::filesystem::path &path)
    : PluginFile(AT_FDCWD, path.c_str(), path.filename().string(), 0) {}

PluginFile::PluginFile(const HeldDirectory &directory, const std::string &name)
    : PluginFile(directory.descriptor(), name.c_str(), name, O_NOFOLLOW) {}

// O_NONBLOCK: opening a FIFO without a writer would block.
PluginFile::PluginFile(int directory, const char *path, std::string name, int flags)
    : name_(std::move(name)),
      descriptor_(::openat(directory, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | flags)) {
    if (descriptor_.get() < 0) {
        const int code = errno;
        throw Rejected(code == ENOENT || code == ENOTDIR ? RejectCode::not_found : RejectCode::unreadable,
                       fmt::format("'{}' cannot be opened: {}.\nCheck the path and its permissions.", name_,
                                   system_message(code)));
    }
    struct stat status {};
    if (::fstat(descriptor_.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
        throw Rejected(RejectCode::not_regular_file,
                       fmt::format("'{}' is not a regular file.\n"
                                   "Specify a shared object, or a folder that contains shared objects.",
                                   name_));
    }
    identity_ = identity_of(status);
    if (size() > largest_file) {
        throw Rejected(RejectCode::too_large, fmt::format("'{}' has {} bytes, more than the {} a plugin may have.\n"
                                                          "Move data that is not code into files beside the plugin.",
                                                          name_, size(), largest_file));
    }
}

bool PluginFile::is_changed() const {
    struct stat status {};
    return ::fstat(descriptor_.get(), &status) != 0 || identity_of(status) != identity_;
}

void PluginFile::read(std::uint64_t offset, std::span<std::byte> bytes) const {
    while (!bytes.empty()) {
        const ssize_t got =
            TEMP_FAILURE_RETRY(::pread(descriptor_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset)));
        if (got < 0) {
            throw Rejected(RejectCode::unreadable, fmt::format("'{}' cannot be read: {}.\nCopy or install it again.",
                                                               name_, system_message(errno)));
        }
        if (got == 0) {
            throw Rejected(RejectCode::truncated,
                           fmt::format("'{}' became shorter while it was read.\nInstall plugins by renaming them into "
                                       "place.",
                                       name_));
        }
        bytes = bytes.subspan(static_cast<std::size_t>(got));
        offset += static_cast<std::uint64_t>(got);
    }
}

} // namespace opdock::core
