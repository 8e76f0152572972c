#include "adapted.hpp"

#include <algorithm>

#include "cli/exit.hpp"
#include "commands.hpp"
#include "exit_codes.hpp"

namespace opdock::plugin_pack {
namespace {

ObjectStore checked_objects(const Backend &backend, const BackendPlace &place) {
    ObjectStore objects = objects_of(place.folder);
    if (objects.format != backend.format) {
        throw cli::Failure(place.folder + ": its ids are of " + objects.format + ", and the package's of " +
                           backend.format);
    }
    return objects;
}

std::string applied(const Backend &backend, const Workshop &workshop) {
    std::vector<std::string> patches;
    for (const Change &change : backend.changes.list) {
        patches.push_back(change.patch);
    }
    std::string tree;
    try {
        tree = workshop.apply(backend.changes.commit, patches);
    } catch (const cli::Failure &failure) {
        throw cli::Failure(backend.name + ": a patch does not fit: " + failure.what(), exit_conflict);
    }
    if (tree != backend.changes.tree) {
        throw cli::Failure(backend.name + ": what the patches make of " + backend.changes.commit + " is the tree " +
                               tree + ", not " + backend.changes.tree + " as the package says",
                           exit_conflict);
    }
    return tree;
}

std::string blob_of(const Changes &changes, const std::string &path) {
    const auto found = std::find_if(changes.list.begin(), changes.list.end(),
                                    [&](const Change &change) { return change.path == path; });
    return found == changes.list.end() ? "" : found->blob;
}

// Those that the merge left alone.
std::vector<std::pair<std::string, std::string>> still_converted(const Changes &before, const Changes &after) {
    std::vector<std::pair<std::string, std::string>> converted;
    for (const auto &one : before.converted) {
        const std::string blob = blob_of(before, one.first);
        if (!blob.empty() && blob == blob_of(after, one.first)) {
            converted.push_back(one);
        }
    }
    return converted;
}

} // namespace

const BackendPlace *find_place(const Backend &backend, const Request &request) {
    const auto found = std::find_if(request.backends.begin(), request.backends.end(),
                                    [&](const BackendPlace &place) { return place.name == backend.name; });
    return found == request.backends.end() ? nullptr : &*found;
}

void require_open(const OpenedPackage &opened, const Request &request) {
    if (!opened.is_open) {
        throw cli::Failure(request.subject +
                           ": it is encrypted; --decrypt-key NAME.key opens it with one of the keys " +
                           joined(opened.recipients));
    }
}

Adapted adapt(const Backend &backend, const BackendPlace &place, const std::string &scratch) {
    Adapted adapted{backend, std::make_unique<const Workshop>(checked_objects(backend, place), scratch), {}};
    const Workshop &workshop = *adapted.workshop;
    const std::string &base = backend.changes.commit;
    if (!workshop.has_commit(base)) {
        throw cli::Failure(place.folder + ": it does not have the commit " + base +
                           (backend.version.empty() ? "" : " (" + backend.version + ")") +
                           " that the package is for; fetch it");
    }
    const std::string tree = applied(backend, workshop);
    if (place.commit.empty()) {
        return adapted;
    }
    Changes &changes = adapted.backend.changes;
    changes.commit = workshop.commit_of(place.folder, place.commit);
    Merged merged = workshop.merge(base, tree, changes.commit);
    adapted.conflicts = std::move(merged.conflicts);
    adapted.backend.version = describe(place.folder, changes.commit);
    changes.tree = merged.tree;
    changes.list = workshop.changes(changes.commit, changes.tree);
    changes.converted = still_converted(backend.changes, changes);
    return adapted;
}

std::string commit_text(const Backend &backend) {
    const std::string id = backend.changes.commit.substr(0, 12);
    return backend.version.empty() || backend.version == id ? id : backend.version + " (" + id + ")";
}

} // namespace opdock::plugin_pack
