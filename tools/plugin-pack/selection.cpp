#include "selection.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <tuple>

#include "adapted.hpp"
#include "cli/exit.hpp"
#include "cli/suggest.hpp"
#include "commands.hpp"
#include "installed.hpp"

namespace opdock::plugin_pack {
namespace {

// True if the package has the requested backends, and possibly others.
bool is_of_backends(const Package &package, const Request &request) {
    const auto found = std::count_if(package.backends.begin(), package.backends.end(), [&](const Backend &backend) {
        return find_place(backend.name, request) != nullptr;
    });
    return static_cast<size_t>(found) == request.backends.size();
}

bool is_of_tasks(const Package &package, const Request &request) {
    const auto &tasks = package.tasks;
    return std::all_of(request.tasks.begin(), request.tasks.end(), [&](const std::string &task) {
        return std::find(tasks.begin(), tasks.end(), task) != tasks.end();
    });
}

// True if the package is newer than the one in force beside it: somebody went back to an older one.
bool is_put_back(const FoundPackage &found) {
    const std::filesystem::path folder = std::filesystem::path(found.path).parent_path();
    const auto there = find_installed(folder.parent_path().string(), folder.filename().string());
    return there && !there->package.empty() && found.opened.package.serial > there->serial;
}

// Compares with a prefix of the id, or a name in the repository.
bool is_of_commit(const Package &package, const Request &request) {
    std::string id = request.commit;
    std::transform(id.begin(), id.end(), id.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return id.empty() || std::any_of(package.backends.begin(), package.backends.end(), [&](const Backend &backend) {
               const BackendPlace *place = find_place(backend.name, request);
               return place != nullptr && (backend.changes.commit.starts_with(id) ||
                                           backend.changes.commit == commit_id(place->folder, request.commit));
           });
}

// The reason why the package does not fit the repositories; empty if it does.
std::string obstacle(const Package &package, const Request &request) {
    for (const Backend &backend : package.backends) {
        const BackendPlace *place = find_place(backend.name, request);
        if (place == nullptr) {
            continue;
        }
        const ObjectStore objects = objects_of(place->folder);
        if (objects.format != backend.format || !Workshop(objects).has_commit(backend.changes.commit)) {
            return place->folder + " does not have " + commit_text(backend);
        }
    }
    return "";
}

} // namespace

std::string find_package(const Request &request) {
    const std::vector<std::string> folders = plugin_folders(request);
    std::string reasons;
    std::vector<FoundPackage> fitting;
    for (FoundPackage &one : find_packages(folders, requested_trust(request))) {
        if (!one.fault.empty()) {
            reasons += "\n  " + one.fault;
            continue;
        }
        const Package &package = one.opened.package;
        if (package.device_type == request.device_type && !is_put_back(one) && is_of_tasks(package, request) &&
            is_of_backends(package, request) && is_of_commit(package, request)) {
            fitting.push_back(std::move(one));
        }
    }
    // Packages with only these backends come before those with others.
    std::stable_sort(fitting.begin(), fitting.end(), [](const FoundPackage &a, const FoundPackage &b) {
        const Package &one = a.opened.package, &other = b.opened.package;
        return std::tuple(one.backends.size(), other.serial) < std::tuple(other.backends.size(), one.serial);
    });
    for (const FoundPackage &one : fitting) {
        const bool is_closed = !one.opened.recipients.empty() && request.decrypt_key.empty();
        const std::string reason =
            is_closed ? "it is encrypted; --decrypt-key opens it" : obstacle(one.opened.package, request);
        if (reason.empty()) {
            return one.path;
        }
        reasons += "\n  " + one.path + ": " + reason;
    }
    throw cli::Failure("no package for " + request.device_type + ", " + joined(request.tasks) + " and " +
                       joined(cli::names_of(request.backends)) +
                       (request.commit.empty() ? "" : " at " + request.commit) + " in " + joined(folders) + reasons);
}

} // namespace opdock::plugin_pack
