#include "files/path_rules.hpp"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

namespace opdock::core {
namespace {

constexpr int most_links = 40; // as many as the kernel follows
const std::string root = "/";

std::string join(const std::string &folder, const std::string &name) {
    return folder == root ? root + name : folder + '/' + name;
}

// Empty when it is no link.
std::string target_of(const std::string &link) {
    char buffer[PATH_MAX];
    const ssize_t length = ::readlink(link.c_str(), buffer, sizeof buffer);
    return length > 0 ? std::string(buffer, static_cast<std::size_t>(length)) : std::string();
}

// Whole, and safe to be pasted whatever characters somebody put into it.
std::string for_shell(const std::string &path) {
    std::string quoted = "'";
    for (const char c : path) {
        quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
    }
    return quoted + "'";
}

// The names of a path, last first, onto those that are left to walk.
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

// That a file is not there is somebody else's to report; what is there and cannot be looked at may be anything.
std::optional<PathRules::Fault> not_looked_at(const std::string &path, int code) {
    if (code == ENOENT || code == ENOTDIR || code == ELOOP) {
        return std::nullopt;
    }
    return PathRules::Fault{path,
                            fmt::format("'{}' cannot be looked at: {}", path, std::generic_category().message(code)),
                            fmt::format("ls -ld {}", for_shell(path))};
}

std::string_view kind_of(const struct stat &status) {
    return S_ISDIR(status.st_mode) ? "folder" : S_ISLNK(status.st_mode) ? "link" : "file";
}

} // namespace

PathRules::PathRules() : PathRules(::geteuid(), ::getegid()) {}

std::optional<PathRules::Fault> PathRules::judge_status(const std::string &path, const struct stat &status,
                                                        bool sticky_is_fine) const {
    const std::string subject = fmt::format("the {} '{}'", kind_of(status), path);
    const bool is_file = S_ISREG(status.st_mode);
    if (status.st_uid != 0 && status.st_uid != user_) {
        return Fault{path,
                     fmt::format("{} belongs to user {}, and neither to root nor to user {}, who runs this process",
                                 subject, status.st_uid, user_),
                     fmt::format("chown {} {}", S_ISLNK(status.st_mode) ? "-h root" : "root", for_shell(path)),
                     is_file};
    }
    if (S_ISLNK(status.st_mode) || (sticky_is_fine && (status.st_mode & S_ISVTX) != 0)) {
        return std::nullopt; // a link has no permissions of its own
    }
    const unsigned mode = status.st_mode & 07777u;
    if ((status.st_mode & S_IWOTH) != 0) {
        return Fault{path, fmt::format("everybody may write to {} (mode {:04o})", subject, mode),
                     fmt::format("chmod o-w {}", for_shell(path)), is_file};
    }
    if ((status.st_mode & S_IWGRP) != 0 && status.st_gid != 0 && status.st_gid != group_) {
        return Fault{path, fmt::format("group {} may write to {} (mode {:04o})", status.st_gid, subject, mode),
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

// As the kernel walks: a link is replaced by what it points to, and ".." leads to the parent of where one is.
PathRules::Folder PathRules::walk(const std::string &path) {
    std::list<std::string> left;
    push_names(path, left);
    Folder result{root, folder_above(root)};
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
            return {"", result.fault};
        }
        note(folder_above(here));
        if (!S_ISLNK(status.st_mode)) {
            result.real = here;
            continue;
        }
        const std::string target = target_of(here);
        if (target.empty() || ++links > most_links) {
            return {"", result.fault};
        }
        if (target.front() == '/') {
            result.real = root;
        }
        push_names(target, left);
    }
    struct stat status = {};
    if (::lstat(result.real.c_str(), &status) == 0) {
        note(judge_status(result.real, status, false));
    }
    return result;
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

std::optional<PathRules::Fault> PathRules::judge(const std::string &absolute_path, const struct stat *status) {
    return judge(absolute_path, status, most_links);
}

} // namespace opdock::core
