#include "files/access_list.hpp"

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <system_error>
#include <vector>

#include <endian.h>
#include <fmt/format.h>
#include <linux/limits.h>
#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <sys/xattr.h>

namespace opdock::core {
namespace {

struct Entry {
    std::uint16_t tag;
    bool may_write;
    std::uint32_t id;
};

// Empty if the file has no list, or if the filesystem supports none. `error`: why it could not be read.
std::vector<Entry> read_list(const std::string &path, std::string &error) {
    std::vector<char> bytes(XATTR_SIZE_MAX);
    const ssize_t got = ::lgetxattr(path.c_str(), "system.posix_acl_access", bytes.data(), bytes.size());
    if (got < 0) {
        if (errno != ENODATA && errno != ENOTSUP) {
            error = std::generic_category().message(errno);
        }
        return {};
    }
    std::vector<Entry> entries;
    const auto size = static_cast<std::size_t>(got);
    posix_acl_xattr_header header = {};
    posix_acl_xattr_entry entry = {};
    if (size < sizeof header || (size - sizeof header) % sizeof entry != 0) {
        error = "its version is unknown";
        return {};
    }
    std::memcpy(&header, bytes.data(), sizeof header);
    if (le32toh(header.a_version) != POSIX_ACL_XATTR_VERSION) {
        error = "its version is unknown";
        return {};
    }
    for (std::size_t at = sizeof header; at < size; at += sizeof entry) {
        std::memcpy(&entry, bytes.data() + at, sizeof entry);
        entries.push_back({le16toh(entry.e_tag), (le16toh(entry.e_perm) & ACL_WRITE) != 0, le32toh(entry.e_id)});
    }
    return entries;
}

} // namespace

std::string writer_of_group_class(const std::string &path, const struct stat &status, uid_t user, gid_t group) {
    if ((status.st_mode & S_IWGRP) == 0) {
        return {};
    }
    std::string error;
    std::vector<Entry> entries = read_list(path, error);
    if (!error.empty()) {
        return fmt::format("any user in its access control list, which cannot be read ({}),", error);
    }
    if (entries.empty()) {
        entries.push_back({ACL_GROUP_OBJ, true, 0});
    }
    for (const Entry &entry : entries) {
        const bool is_group = entry.tag == ACL_GROUP || entry.tag == ACL_GROUP_OBJ;
        if (!entry.may_write || (!is_group && entry.tag != ACL_USER)) {
            continue;
        }
        const std::uint32_t id = entry.tag == ACL_GROUP_OBJ ? status.st_gid : entry.id;
        if (id != 0 && id != (is_group ? group : user)) {
            return fmt::format("{} {}", is_group ? "group" : "user", id);
        }
    }
    return {};
}

} // namespace opdock::core
