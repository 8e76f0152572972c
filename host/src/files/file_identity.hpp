// Identity of a file, and detection of changes to it.
#pragma once

#include <compare>
#include <cstdint>

#include <sys/stat.h>

namespace opdock::core {

// Equal identities mean the same file with the same content, unless a clock was set back: see file_times.hpp.
struct FileIdentity {
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    std::uint64_t size = 0;
    std::int64_t modified = 0; // nanoseconds since the epoch
    std::int64_t changed = 0;  // the same: last change of content, name, owner or permissions

    auto operator<=>(const FileIdentity &) const = default;
};

// True if it is the same file with the same content, as far as detectable; name, owner and permissions may differ.
inline bool has_same_content(const FileIdentity &a, const FileIdentity &b) {
    return a.device == b.device && a.inode == b.inode && a.size == b.size && a.modified == b.modified;
}

inline FileIdentity identity_of(const struct stat &status) {
    const auto nanoseconds = [](const timespec &time) {
        return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
    };
    return {status.st_dev, status.st_ino, static_cast<std::uint64_t>(status.st_size), nanoseconds(status.st_mtim),
            nanoseconds(status.st_ctim)};
}

} // namespace opdock::core
