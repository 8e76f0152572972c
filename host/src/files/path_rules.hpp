// Detects who else could replace a file: checks owners and permissions of the file, its folder and every folder and
// link on the path, both as written and as resolved.
//
// Root and the effective user may be owners; root's group and the effective group may write as well, by mode or POSIX
// ACL. In folders above the file's own, everybody may write if the sticky bit protects files of other users, as in
// /tmp. Links of /proc are faults: their real target differs from the one they show.
#pragma once

#include <list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/stat.h>

namespace opdock::core {

// User and group of this process as owners of files. (uid_t)-1 and (gid_t)-1, which own nothing, if a user namespace
// shows unmapped users under this process's number: files that seem to be its own may be anybody's.
uid_t own_user();
gid_t own_group();

// Elements of a search path such as PATH. Search code treats an empty element as the working directory.
std::vector<std::string_view> split_path(std::string_view text, std::string_view separators);

class PathRules {
  public:
    struct Fault {
        std::string place; // the file, folder or link to blame
        std::string what;  // "everybody may write to the folder '/opt/acme' (mode 0777)"
        std::string remedy;
        bool is_file = false; // rather than a folder or link shared by many files
    };

    PathRules();
    PathRules(uid_t user, gid_t group) : user_(user), group_(group) {}

    // The first fault on the path to the file. Also empty if the file cannot be inspected. Caches results per folder.
    // `status`: the file's status, if the caller has it and the file is not a link.
    std::optional<Fault> judge(const std::string &absolute_path, const struct stat *status = nullptr);

    // Like judge(), for a folder, independent of its content. `missing`: the verdict on a folder that does not exist,
    // if another user could create it.
    enum class Missing { is_fine, is_judged };
    std::optional<Fault> judge_folder(const std::string &absolute_path, Missing missing);

  private:
    struct Folder {
        std::string real; // empty if it cannot be inspected
        std::optional<Fault> fault;
        std::optional<Fault> if_made; // fault of the last existing folder, if the next one does not exist
    };

    std::optional<Fault> judge(const std::string &path, const struct stat *known, int links_left);
    const Folder &folder(const std::string &path);
    Folder walk(const std::string &path);
    const std::optional<Fault> &folder_above(const std::string &real);
    std::optional<Fault> fault_of(const std::string &real) const;
    std::optional<Fault> judge_status(const std::string &path, const struct stat &status, bool sticky_is_fine) const;

    uid_t user_;
    gid_t group_;
    std::map<std::string, Folder> folders_;             // by path as written
    std::map<std::string, std::optional<Fault>> above_; // by real path
};

} // namespace opdock::core
