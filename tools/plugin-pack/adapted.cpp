#include "adapted.hpp"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>

#include <nlohmann/json.hpp>

#include "cli/exit.hpp"
#include "cli/printable.hpp"
#include "cli/suggest.hpp"
#include "commands.hpp"
#include "conversions.hpp"
#include "exit_codes.hpp"
#include "text/spelling.hpp"

namespace opdock::plugin_pack {
namespace {

ObjectStore checked_objects(const Backend &backend, const BackendPlace &place) {
    ObjectStore objects = objects_of(place.folder);
    if (objects.format != backend.format) {
        throw cli::Failure(place.folder + ": its ids are " + objects.format + ", but the package's are " +
                           backend.format);
    }
    return objects;
}

std::string applied(const Backend &backend, const Workshop &workshop) {
    std::string tree;
    try {
        tree = workshop.apply(backend.changes.commit, backend.changes.list);
    } catch (const cli::Failure &failure) {
        if (failure.code != exit_conflict) {
            throw;
        }
        throw cli::Failure(backend.name + ": a patch does not fit: " + failure.what(), exit_conflict);
    }
    if (tree != backend.changes.tree) {
        throw cli::Failure(backend.name + ": the patches turn " + backend.changes.commit + " into the tree " + tree +
                               ", not " + backend.changes.tree + " as the package says",
                           exit_conflict);
    }
    return tree;
}

using File = std::pair<uint32_t, std::string>; // mode and id; {} if there is no file

// The old and new state of each changed file, independent of the detection of renames.
std::map<std::string, std::pair<File, File>> files_of(const std::vector<Change> &changes) {
    std::map<std::string, std::pair<File, File>> files;
    for (const Change &change : changes) {
        if (change.old_mode != 0) {
            files[change.old_path].first = {change.old_mode, change.old_blob};
        }
        if (change.mode != 0) {
            files[change.path].second = {change.mode, change.blob};
        }
    }
    return files;
}

// True if the folder is a checkout that has the commit. The .git is required: without it, git would use the repository
// around the folder.
bool is_there(const std::string &folder, const std::string &commit) {
    std::error_code error;
    return std::filesystem::is_directory(std::filesystem::symlink_status(folder, error)) &&
           std::filesystem::exists(std::filesystem::symlink_status(std::filesystem::path(folder) / ".git", error)) &&
           Workshop(objects_of(folder)).has_commit(commit);
}

// Finds the checkout of a submodule, which the vendor may have moved; "" if there is none.
std::string folder_of_submodule(const Adapted &adapted, const Submodule &submodule, const std::string &base) {
    std::vector<std::string> paths = {submodule.path};
    for (const auto &[path, id] : adapted.workshop->submodules(base)) {
        if (path.find('\n') == std::string::npos) { // packages have no such submodule
            paths.push_back(path);
        }
    }
    const std::filesystem::path real = std::filesystem::canonical(adapted.folder);
    for (const std::string &path : paths) {
        std::error_code error; // through a link it could be somebody else's
        if (std::filesystem::canonical(real / path, error) == real / path &&
            is_there(adapted.folder + "/" + path, submodule.changes.commit)) {
            return adapted.folder + "/" + path;
        }
    }
    return "";
}

void adapt_submodules(Adapted &adapted, const std::string &base, bool merges, const std::string &scratch) {
    Changes &changes = adapted.backend.changes;
    if (changes.submodules.empty()) {
        return;
    }
    const auto now = adapted.workshop->submodules(changes.tree);
    const auto onto = adapted.workshop->submodules(changes.commit);
    std::vector<Submodule> kept;
    for (Submodule &one : changes.submodules) {
        const bool is_changed = count_of(one.changes) != 0;
        const std::string name = adapted.backend.name + "/" + one.path;
        if (!now.contains(one.path)) {
            if (!merges) {
                throw cli::Failure(name + ": it is not a submodule of the tree", exit_not_trusted);
            }
            if (is_changed) {
                throw cli::Failure(name + ": the package changes this submodule, but the commit no longer has it",
                                   exit_conflict);
            }
            continue;
        }
        BackendPlace inner{name, folder_of_submodule(adapted, one, base), ""};
        if (merges && onto.contains(one.path)) {
            inner.commit = onto.at(one.path);
        }
        if (!is_changed && (inner.folder.empty() || (!inner.commit.empty() && !is_there(inner.folder, inner.commit)))) {
            adapted.absent.push_back(one.path);
            kept.push_back(std::move(one));
            continue;
        }
        if (inner.folder.empty()) {
            throw cli::Failure(adapted.folder + "/" + one.path +
                               ": the package changes this submodule, but it is not checked out; check out " + base +
                               ", then run `git -C " + adapted.folder + " submodule update --init`");
        }
        Adapted made = adapt({inner.name, "", one.format, std::move(one.changes)}, inner, scratch);
        made.path = one.path;
        for (const std::string &path : made.conflicts) {
            adapted.conflicts.push_back(one.path + "/" + path);
        }
        kept.push_back({one.path, one.format, made.backend.changes});
        adapted.submodules.push_back(std::move(made));
    }
    changes.submodules = std::move(kept);
}

} // namespace

const BackendPlace *find_place(const std::string &name, const Request &request) {
    const auto found = std::find_if(request.backends.begin(), request.backends.end(),
                                    [&](const BackendPlace &place) { return place.name == name; });
    return found == request.backends.end() ? nullptr : &*found;
}

void require_backends(const Package &package, const Request &request) {
    if (package.backends.empty()) {
        throw cli::Failure("the package only has files and changes nothing; `plugin-pack install` installs them");
    }
    for (const BackendPlace &place : request.backends) {
        const auto is_it = [&](const Backend &backend) { return backend.name == place.name; };
        if (std::none_of(package.backends.begin(), package.backends.end(), is_it)) {
            const std::vector<std::string> names = cli::names_of(package.backends);
            throw cli::Failure("the package does not adapt '" + place.name + "', but " + joined(names) +
                               "; write --backend NAME=DIR" + cli::did_you_mean(place.name, names));
        }
    }
}

std::vector<const Backend *> requested_backends(const Package &package, const Request &request) {
    require_backends(package, request);
    std::vector<const Backend *> requested;
    for (const Backend &backend : package.backends) {
        if (find_place(backend.name, request) != nullptr) {
            requested.push_back(&backend);
        } else {
            std::cerr << cli::printable("plugin-pack: note: the package adapts " + backend.name + " too; --backend " +
                                        backend.name + "=DIR adapts that backend\n");
        }
    }
    return requested;
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
    adapted.folder = place.folder;
    const Workshop &workshop = *adapted.workshop;
    const std::string &base = backend.changes.commit;
    if (!workshop.has_commit(base)) {
        throw cli::Failure(place.folder + ": it does not have the commit " + base +
                           (backend.version.empty() ? "" : " (" + core::visible_line(backend.version) + ")") +
                           " that the package is for; fetch it");
    }
    workshop.require_files(base);
    const std::string tree = applied(backend, workshop);
    if (files_of(workshop.changed_files(base, tree)) != files_of(backend.changes.list)) {
        throw cli::Failure(backend.name + ": the package's list of changes differs from its patches", exit_not_trusted);
    }
    if (!place.commit.empty()) {
        Changes &changes = adapted.backend.changes;
        changes.commit = workshop.commit_of(place.folder, place.commit);
        workshop.require_files(changes.commit);
        Merged merged = workshop.merge(base, tree, changes.commit);
        adapted.conflicts = std::move(merged.conflicts);
        adapted.backend.version = describe(place.folder, changes.commit);
        changes.tree = merged.tree;
        changes.list = workshop.changes(changes.commit, changes.tree);
        keep_conversions(workshop, backend.changes, changes);
    }
    adapt_submodules(adapted, base, !place.commit.empty(), scratch);
    return adapted;
}

std::string commit_text(const Backend &backend) {
    const std::string id = backend.changes.commit.substr(0, 12);
    return backend.version.empty() || backend.version == id ? id
                                                            : core::visible_line(backend.version) + " (" + id + ")";
}

int finish_with(const std::vector<Adapted> &all) {
    std::string conflicts;
    for (const Adapted &adapted : all) {
        for (const std::string &path : adapted.conflicts) {
            conflicts += "\n  " + adapted.backend.name + "/" + core::visible_line(path);
        }
    }
    if (!conflicts.empty()) {
        throw cli::Failure("there are conflicts, with both sides between marks, in" + conflicts, exit_conflict);
    }
    return cli::exit_fine;
}

} // namespace opdock::plugin_pack
