#include "files/path_rules.hpp"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "files/access_list.hpp"
#include "text/spelling.hpp"

namespace opdock::core {
namespace {

constexpr int most_links = 40; // the kernel's limit
const std::string root = "/";

std::string join(const std::string &folder, const std::string &name) {
    return folder == root ? root + name : folder + '/' + name;
}

// Empty if it is not a link.
std::string target_of(const std::string &link) {
    char buffer[PATH_MAX];
    const ssize_t length = ::readlink(link.c_str(), buffer, sizeof buffer);
    return length > 0 ? std::string(buffer, static_cast<std::size_t>(length)) : std::string();
}

// The whole path on one line, quoted so that it is safe to paste into a shell.
std::string for_shell(const std::string &path) {
    std::string quoted = "'";
    for (const char c : visible_line(path)) {
        quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
    }
    return quoted + "'";
}

// Pushes the names of a path to the front of the names that are left to walk.
void push_names(const std::string &path, std::list<std::string> &left) {
    auto at = left.begin();
    for (std::size_t begin = 0; begin < path.size();) {
        const std::size_t end = std::min(path.find('/', begin), path.size());
        if (const std::string name = path.substr(begin, end - begin); !name.empty() && name != ".") {
            left.insert(at, name);
        }
        begin = end + 1;
    }
}

// A missing file is reported elsewhere; a file that exists but cannot be inspected may be anything.
std::optional<PathRules::Fault> not_looked_at(const std::string &path, int code) {
    if (code == ENOENT || code == ENOTDIR || code == ELOOP) {
        return std::nullopt;
    }
    return PathRules::Fault{
        path, fmt::format("'{}' cannot be inspected: {}", visible_line(path), std::generic_category().message(code)),
        fmt::format("ls -ld {}", for_shell(path))};
}

// Links below /proc/PID lead into other processes' namespaces, whatever readlink returns.
bool is_magic(const std::string &link) {
    struct statfs filesystem = {};
    return ::statfs(link.substr(0, link.rfind('/') + 1).c_str(), &filesystem) == 0 &&
           filesystem.f_type == PROC_SUPER_MAGIC;
}

// A namespace shows all users (or groups) without a mapping under one number. Returns whether this is that number.
bool stands_for_many(std::uint64_t number, const char *overflow, const char *map) {
    constexpr std::uint64_t all = 0xffffffff;
    std::uint64_t in_place = 65534, inside = 0, outside = 0, count = all; // defaults if /proc does not tell
    std::ifstream(overflow) >> in_place;
    if (number != in_place) {
        return false;
    }
    std::ifstream mapped(map);
    if (mapped && !(mapped >> inside >> outside >> count)) {
        count = 0;
    }
    return count != all;
}

std::string_view kind_of(const struct stat &status) {
    return S_ISDIR(status.st_mode) ? "folder" : S_ISLNK(status.st_mode) ? "link" : "file";
}

} // namespace

std::vector<std::string_view> split_path(std::string_view text, std::string_view separators) {
    std::vector<std::string_view> elements;
    for (;;) {
        const std::size_t end = std::min(text.find_first_of(separators), text.size());
        elements.push_back(text.substr(0, end));
        if (end == text.size()) {
            return elements;
        }
        text.remove_prefix(end + 1);
    }
}

uid_t own_user() {
    const uid_t user = ::geteuid();
    return stands_for_many(user, "/proc/sys/kernel/overflowuid", "/proc/self/uid_map") ? static_cast<uid_t>(-1) : user;
}

gid_t own_group() {
    const gid_t group = ::getegid();
    return stands_for_many(group, "/proc/sys/kernel/overflowgid", "/proc/self/gid_map") ? static_cast<gid_t>(-1)
                                                                                        : group;
}

PathRules::PathRules() : PathRules(own_user(), own_group()) {}

std::optional<PathRules::Fault> PathRules::judge_status(const std::string &path, const struct stat &status,
                                                        bool sticky_is_fine) const {
    const std::string subject = fmt::format("the {} '{}'", kind_of(status), visible_line(path));
    const bool is_file = S_ISREG(status.st_mode);
    if (status.st_uid != 0 && status.st_uid != user_) {
        return Fault{
            path,
            user_ == static_cast<uid_t>(-1)
                ? fmt::format(
                      "{} belongs to user {}, which stands for all users without a number in this user namespace",
                      subject, status.st_uid)
                : fmt::format("{} belongs to user {}, not to root or to user {}, who runs this process", subject,
                              status.st_uid, user_),
            fmt::format("chown {} {}", S_ISLNK(status.st_mode) ? "-h root" : "root", for_shell(path)), is_file};
    }
    if (S_ISLNK(status.st_mode) && is_magic(path)) {
        return Fault{
            path,
            fmt::format("{} belongs to /proc and may lead elsewhere, so it is unknown who may write there", subject),
            fmt::format("readlink -f {}", for_shell(path))};
    }
    if (S_ISLNK(status.st_mode) || (sticky_is_fine && (status.st_mode & S_ISVTX) != 0)) {
        return std::nullopt; // permissions of links are meaningless
    }
    const unsigned mode = status.st_mode & 07777u;
    if ((status.st_mode & S_IWOTH) != 0) {
        return Fault{path, fmt::format("everybody may write to {} (mode {:04o})", subject, mode),
                     fmt::format("chmod o-w {}", for_shell(path)), is_file};
    }
    if (const std::string writer = writer_of_group_class(path, status, user_, group_); !writer.empty()) {
        return Fault{path, fmt::format("{} may write to {} (mode {:04o})", writer, subject, mode),
                     fmt::format("chmod g-w {}", for_shell(path)), is_file};
    }
    return std::nullopt;
}

const std::optional<PathRules::Fault> &PathRules::folder_above(const std::string &real) {
    const auto known = above_.find(real);
    if (known != above_.end()) {
        return known->second;
    }
    struct stat status = {};
    std::optional<Fault> fault;
    if (::lstat(real.c_str(), &status) == 0) {
        fault = judge_status(real, status, true);
    }
    return above_.emplace(real, std::move(fault)).first->second;
}

// Like the kernel, replaces links by their targets and resolves ".." to the parent of the real folder.
PathRules::Folder PathRules::walk(const std::string &path) {
    std::list<std::string> left;
    push_names(path, left);
    Folder result{root, folder_above(root), std::nullopt};
    const auto note = [&](const std::optional<Fault> &fault) {
        if (!result.fault) {
            result.fault = fault;
        }
    };
    for (int links = 0; !left.empty();) {
        const std::string name = std::exchange(left.front(), {});
        left.pop_front();
        if (name == "..") {
            result.real = std::filesystem::path(result.real).parent_path().string();
            continue;
        }
        const std::string here = join(result.real, name);
        struct stat status = {};
        if (::lstat(here.c_str(), &status) != 0) {
            note(not_looked_at(here, errno));
            return {"", result.fault, fault_of(result.real)};
        }
        note(folder_above(here));
        if (!S_ISLNK(status.st_mode)) {
            result.real = here;
            continue;
        }
        const std::string target = target_of(here);
        if (target.empty() || ++links > most_links) {
            return {"", result.fault, std::nullopt};
        }
        if (target.front() == '/') {
            result.real = root;
        }
        push_names(target, left);
    }
    note(fault_of(result.real));
    return result;
}

std::optional<PathRules::Fault> PathRules::fault_of(const std::string &real) const {
    struct stat status = {};
    return ::lstat(real.c_str(), &status) == 0 ? judge_status(real, status, false) : std::nullopt;
}

const PathRules::Folder &PathRules::folder(const std::string &path) {
    const auto known = folders_.find(path);
    return known != folders_.end() ? known->second : folders_.emplace(path, walk(path)).first->second;
}

std::optional<PathRules::Fault> PathRules::judge(const std::string &path, const struct stat *known, int links_left) {
    const std::size_t slash = path.rfind('/');
    const Folder &in = folder(path.substr(0, slash + 1));
    if (in.real.empty() || in.fault) {
        return in.fault;
    }
    const std::string real = join(in.real, path.substr(slash + 1));
    struct stat status = {};
    if (known != nullptr) {
        status = *known;
    } else if (::lstat(real.c_str(), &status) != 0) {
        return not_looked_at(real, errno);
    }
    if (auto fault = judge_status(real, status, false)) {
        return fault;
    }
    if (!S_ISLNK(status.st_mode)) {
        return std::nullopt;
    }
    const std::string target = target_of(real);
    if (target.empty() || links_left == 0) {
        return std::nullopt;
    }
    return judge(target.front() == '/' ? target : join(in.real, target), nullptr, links_left - 1);
}

std::optional<PathRules::Fault> PathRules::judge_folder(const std::string &absolute_path, Missing missing) {
    const Folder &judged = folder(absolute_path);
    return judged.fault || missing == Missing::is_fine ? judged.fault : judged.if_made;
}

std::optional<PathRules::Fault> PathRules::judge(const std::string &absolute_path, const struct stat *status) {
    return judge(absolute_path, status, most_links);
}

} // namespace opdock::core
