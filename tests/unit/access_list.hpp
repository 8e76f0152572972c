// POSIX access control lists on the files of tests.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <sys/xattr.h>

namespace opdock::test {

struct AccessEntry {
    std::uint16_t tag; // ACL_USER and so on
    std::uint16_t permissions;
    std::uint32_t id = ACL_UNDEFINED_ID;
};

// Like setfacl; with `list` "system.posix_acl_default" like setfacl -d. Entries must be in the order of their tags.
inline void set_access_list(const std::string &path, const std::vector<AccessEntry> &entries,
                            const char *list = "system.posix_acl_access") {
    posix_acl_xattr_header header = {};
    header.a_version = POSIX_ACL_XATTR_VERSION;
    std::string bytes(reinterpret_cast<const char *>(&header), sizeof header);
    for (const AccessEntry &one : entries) {
        posix_acl_xattr_entry entry = {};
        entry.e_tag = one.tag;
        entry.e_perm = one.permissions;
        entry.e_id = one.id;
        bytes.append(reinterpret_cast<const char *>(&entry), sizeof entry);
    }
    // If the temporary directory does not support access lists, this fails, and the tests cannot be run there.
    REQUIRE(::setxattr(path.c_str(), list, bytes.data(), bytes.size(), 0) == 0);
}

// Lets a user or group write in addition to the owner; the file's group and everybody else may read.
inline void let_write(const std::string &path, int tag, std::uint32_t id) {
    std::vector<AccessEntry> entries = {{ACL_USER_OBJ, 7}, {ACL_GROUP_OBJ, 5}, {ACL_MASK, 7}, {ACL_OTHER, 5}};
    entries.insert(entries.begin() + (tag == ACL_USER ? 1 : 2), {static_cast<std::uint16_t>(tag), 7, id});
    set_access_list(path, entries);
}

} // namespace opdock::test
