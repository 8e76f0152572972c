#include "files/own_folder.hpp"

#include <algorithm>
#include <cerrno>
#include <system_error>

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files/path_rules.hpp"

namespace opdock::core {
namespace {

// Detects that others could replace the folder, or have done so: their link may lead to a folder of ours.
std::string fault_of_way_to(const std::string &folder) {
    const auto fault = PathRules().judge_folder(folder, PathRules::Missing::is_fine);
    return fault ? fmt::format("another user could replace the folder '{}': {}; use another folder, or run `{}` if "
                               "nobody replaced it",
                               folder, fault->what, fault->remedy)
                 : std::string();
}

} // namespace

std::string fault_of_own_folder(const std::string &folder) {
    struct stat status = {};
    if (::stat(folder.c_str(), &status) != 0) {
        return ::lstat(folder.c_str(), &status) == 0 ? fmt::format("the target of the link '{}' does not exist", folder)
                                                     : std::string();
    }
    if (!S_ISDIR(status.st_mode)) {
        return fmt::format("'{}' is not a folder", folder);
    }
    if (status.st_uid != own_user()) {
        return fmt::format("the folder '{}' belongs to user {}, not to user {}, who runs this process", folder,
                           status.st_uid, ::geteuid());
    }
    if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        return fmt::format(
            "other users may write to the folder '{}' (mode {:04o}), so its contents cannot be trusted; {}", folder,
            status.st_mode & 07777u,
            (status.st_mode & S_ISVTX) != 0 // shared by all users, such as /tmp
                ? "use a folder that only its owner may write to"
                : fmt::format("run `chmod go-w {}` if nobody else wrote to it", folder));
    }
    return fault_of_way_to(folder);
}

// Sets the mode at creation: until a later chmod others could create files in the folder.
std::string make_own_folder(const std::string &folder) {
    struct stat status = {};
    if (::stat(folder.c_str(), &status) != 0) {
        if (std::string fault = fault_of_way_to(folder); !fault.empty()) {
            return fault;
        }
    }
    for (std::size_t end = 0; end != folder.size();) {
        end = std::min(folder.find('/', end + 1), folder.size());
        const std::string part = folder.substr(0, end);
        if (::mkdir(part.c_str(), S_IRWXU) != 0 && errno != EEXIST) {
            const int code = errno; // a read-only disk reports EROFS even if the folder exists
            if (::stat(part.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) {
                return fmt::format("the folder '{}' cannot be created: {}", folder,
                                   std::generic_category().message(code));
            }
        }
    }
    if (::stat(folder.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) {
        return fmt::format("'{}' is not a folder", folder);
    }
    return fault_of_own_folder(folder);
}

} // namespace opdock::core
