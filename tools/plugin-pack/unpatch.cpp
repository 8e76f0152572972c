#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>

#include <nlohmann/json.hpp>

#include "cli/exit.hpp"
#include "cli/print_document.hpp"
#include "cli/printable.hpp"
#include "commands.hpp"
#include "exit_codes.hpp"
#include "target.hpp"
#include "workshop.hpp"

namespace opdock::plugin_pack {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr const char *provenance_name = "opdock-provenance.json";

const BackendPlace &place_of(const Backend &backend, const Request &request) {
    const auto found = std::find_if(request.backends.begin(), request.backends.end(),
                                    [&](const BackendPlace &place) { return place.name == backend.name; });
    if (found != request.backends.end()) {
        return *found;
    }
    std::string given;
    for (const BackendPlace &place : request.backends) {
        given += (given.empty() ? "" : ", ") + place.name;
    }
    throw cli::Failure("the package adapts the backend '" + backend.name + "', and given are " + given +
                       "; write --backend " + backend.name + "=DIR");
}

void write(const fs::path &file, const std::string &text) {
    std::ofstream stream(file, std::ios::binary);
    stream << text;
    stream.close();
    if (!stream) {
        throw cli::Failure(file.string() + ": it cannot be written");
    }
}

// A package could say so of a link, and what is written would go where that leads.
void require_file(const std::string &folder, const std::string &path) {
    fs::path place = folder;
    const fs::path relative(path);
    for (auto part = relative.begin(); part != relative.end(); ++part) {
        place /= *part;
        const fs::file_status status = fs::symlink_status(place);
        if (std::next(part) == relative.end() ? !fs::is_regular_file(status) : !fs::is_directory(status)) {
            throw cli::Failure(path_json(path).dump() + " is no file of the tree", exit_not_trusted);
        }
    }
}

// The files that the package makes of the repository, in the backend's folder of what is staged.
void build(const Backend &backend, const BackendPlace &place, const Target &target) {
    const std::string folder = target.staging() + "/" + backend.name;
    fs::create_directory(folder);
    const ObjectStore objects = objects_of(place.folder);
    const std::string &commit = backend.changes.commit;
    if (objects.format != backend.format) {
        throw cli::Failure(place.folder + ": its ids are of " + objects.format + ", and the package's of " +
                           backend.format);
    }
    const Workshop workshop(objects, target.scratch());
    if (!workshop.has_commit(commit)) {
        throw cli::Failure(place.folder + ": it does not have the commit " + commit + " (" + backend.version +
                           ") that the package is for; fetch it");
    }
    std::vector<std::string> patches;
    for (const Change &change : backend.changes.list) {
        patches.push_back(change.patch);
    }
    std::string tree;
    try {
        tree = workshop.apply(commit, patches);
    } catch (const cli::Failure &failure) {
        throw cli::Failure(backend.name + ": a patch does not fit: " + failure.what(), exit_conflict);
    }
    if (tree != backend.changes.tree) {
        throw cli::Failure(backend.name + ": what the patches make of " + commit + " is the tree " + tree + ", not " +
                               backend.changes.tree + " as the package says",
                           exit_conflict);
    }
    workshop.check_out(tree, folder);
    for (const auto &[path, content] : backend.changes.converted) {
        require_file(folder, path);
        write(fs::path(folder) / path, content);
    }
}

json provenance_of(const OpenedPackage &opened) {
    json backends = json::array();
    for (const Backend &backend : opened.package.backends) {
        backends.push_back({{"name", backend.name},
                            {"version", backend.version},
                            {"commit", backend.changes.commit},
                            {"tree", backend.changes.tree},
                            {"changes", backend.changes.list.size()}});
    }
    return {{"schema", "opdock.provenance/1"},
            {"device_type", opened.package.device_type},
            {"tasks", opened.package.tasks},
            {"serial", opened.package.serial},
            {"key", opened.key == nullptr ? json() : json(opened.key->key.id())},
            {"backends", std::move(backends)}};
}

} // namespace

int unpatch(const Request &request) {
    Trust trust;
    const OpenedPackage opened = open_requested(request, trust);
    const Package &package = opened.package;
    if (!opened.is_open) {
        throw cli::Failure(request.subject +
                           ": it is encrypted; --decrypt-key NAME.key opens it with one of the keys " +
                           joined(opened.recipients));
    }
    const std::string out =
        request.out.empty() ? (fs::current_path() / "build" / package.device_type).string() : request.out;
    Target target(out, provenance_name);
    for (const Backend &backend : package.backends) {
        build(backend, place_of(backend, request), target);
    }
    const json provenance = provenance_of(opened);
    write(fs::path(target.staging()) / provenance_name, provenance.dump(2) + "\n");
    if (!request.dry_run) {
        target.replace();
    }
    if (request.json) {
        cli::print_document({{"schema", "opdock.plugin-pack.unpatch/1"},
                             {"out", request.dry_run ? json() : json(out)},
                             {"provenance", provenance}});
        return cli::exit_fine;
    }
    for (const Backend &backend : package.backends) {
        const size_t count = backend.changes.list.size();
        std::cout << cli::printable(out) << "/" << backend.name << ": " << cli::printable(backend.version) << " with "
                  << count << (count == 1 ? " change" : " changes") << (request.dry_run ? ", had it been written" : "")
                  << '\n';
    }
    return cli::exit_fine;
}

} // namespace opdock::plugin_pack
