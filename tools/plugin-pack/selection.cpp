#include "selection.hpp"

#include <algorithm>

#include "adapted.hpp"
#include "cli/exit.hpp"
#include "commands.hpp"
#include "installed.hpp"

namespace opdock::plugin_pack {
namespace {

bool is_of_backends(const Package &package, const Request &request) {
    return package.backends.size() == request.backends.size() &&
           std::all_of(package.backends.begin(), package.backends.end(),
                       [&](const Backend &backend) { return find_place(backend, request) != nullptr; });
}

bool is_of_commit(const Package &package, const std::string &commit) {
    return commit.empty() || std::any_of(package.backends.begin(), package.backends.end(), [&](const Backend &backend) {
               return backend.changes.commit.starts_with(commit);
           });
}

// Why the repositories cannot take the package; empty when they can.
std::string obstacle(const Package &package, const Request &request) {
    for (const Backend &backend : package.backends) {
        const BackendPlace &place = place_of(backend, request);
        const ObjectStore objects = objects_of(place.folder);
        if (objects.format != backend.format || !Workshop(objects).has_commit(backend.changes.commit)) {
            return place.folder + " does not have " + commit_text(backend);
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
        const auto &tasks = package.tasks;
        if (package.device_type == request.device_type &&
            std::find(tasks.begin(), tasks.end(), request.tasks.front()) != tasks.end() &&
            is_of_backends(package, request) && is_of_commit(package, request.commit)) {
            fitting.push_back(std::move(one));
        }
    }
    std::stable_sort(fitting.begin(), fitting.end(), [](const FoundPackage &a, const FoundPackage &b) {
        return a.opened.package.serial > b.opened.package.serial;
    });
    for (const FoundPackage &one : fitting) {
        const std::string reason = obstacle(one.opened.package, request);
        if (reason.empty()) {
            return one.path;
        }
        reasons += "\n  " + one.path + ": " + reason;
    }
    throw cli::Failure("no package for " + request.device_type + ", " + request.tasks.front() + " and " +
                       names_of(request.backends) + (request.commit.empty() ? "" : " at " + request.commit) + " in " +
                       joined(folders) + reasons);
}

} // namespace opdock::plugin_pack
