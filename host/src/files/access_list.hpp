// POSIX access control lists: whom they let write beside those that a file's mode names.
#pragma once

#include <string>

#include <sys/stat.h>

namespace opdock::core {

// "group 4242" or "user 65534": the first who may write to the file by the bits of its group, with an ACL or without;
// empty for nobody. The users 0 and `user` and the groups 0 and `group` do not count. Where an ACL names somebody, the
// group's bits of the mode are its mask, so that it is read only where they let somebody write. `path` may be no link.
std::string writer_of_group_class(const std::string &path, const struct stat &status, uid_t user, gid_t group);

} // namespace opdock::core
