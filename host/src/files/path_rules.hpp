// Who else could put something in a file's place: owners and permissions of the file, of its folder and of every folder
// and link on the way to it, as it is written and as it really is.
//
// Owners may be root and the effective user; root's group and the effective group may write as well, by the
// mode or by a POSIX ACL. Above a file's own folder everybody may write where the sticky bit keeps them from replacing
// what is not theirs, as in /tmp. Links of /proc are at fault: they lead elsewhere than they say.
#pragma once

#include <list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/stat.h>

namespace opdock::core {

// The user and the group of this process as files name them. Nobody, as chown has it (-1), where a user namespace shows
// all whom it has no number for by the number that this process has: what looks like its own may be anybody's.
uid_t own_user();
gid_t own_group();

// Elements of a search path, such as PATH. Whoever searches takes an empty one for the working directory.
std::vector<std::string_view> split_path(std::string_view text, std::string_view separators);

class PathRules {
  public:
    struct Fault {
        std::string place; // the file, folder or link to blame
        std::string what;  // "everybody may write to the folder '/opt/acme' (mode 0777)"
        std::string remedy;
        bool is_file = false; // rather than what many files have in common
    };

    PathRules();
    PathRules(uid_t user, gid_t group) : user_(user), group_(group) {}

    // The first fault on the way to the file. Nothing as well when the file cannot be looked at. What is found out of a
    // folder is remembered. `status`: that of the file, when the caller knows it and that it is no link.
    std::optional<Fault> judge(const std::string &absolute_path, const struct stat *status = nullptr);

    // The same of a folder, whatever it holds. `missing`: what is said of one that is not there, when somebody else
    // could make it.
    enum class Missing { is_fine, is_judged };
    std::optional<Fault> judge_folder(const std::string &absolute_path, Missing missing);

  private:
    struct Folder {
        std::string real; // empty when it cannot be looked at
        std::optional<Fault> fault;
        std::optional<Fault> if_made; // of the last folder that is there, when the next one is not
    };

    std::optional<Fault> judge(const std::string &path, const struct stat *known, int links_left);
    const Folder &folder(const std::string &path);
    Folder walk(const std::string &path);
    const std::optional<Fault> &folder_above(const std::string &real);
    std::optional<Fault> fault_of(const std::string &real) const;
    std::optional<Fault> judge_status(const std::string &path, const struct stat &status, bool sticky_is_fine) const;

    uid_t user_;
    gid_t group_;
    std::map<std::string, Folder> folders_;             // by path as it was written
    std::map<std::string, std::optional<Fault>> above_; // by real path
};

} // namespace opdock::core
