// POSIX access control lists: who may write to a file beyond what its mode shows.
#pragma once

#include <string>

#include <sys/stat.h>

namespace opdock::core {

// The first other writer that the group bits or an ACL admit: "group 4242" or "user 65534"; empty for none. The users 0
// and `user` and the groups 0 and `group` do not count. With an ACL the mode's group bits are the ACL's mask, so the
// list is read only if these bits permit writing. `path` must not be a link.
std::string writer_of_group_class(const std::string &path, const struct stat &status, uid_t user, gid_t group);

} // namespace opdock::core
