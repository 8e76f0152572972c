#include <algorithm>
#include <filesystem>
#include <iostream>

#include <nlohmann/json.hpp>

#include "adapted.hpp"
#include "cli/exit.hpp"
#include "cli/print_document.hpp"
#include "cli/printable.hpp"
#include "cli/quantities.hpp"
#include "cli/status_line.hpp"
#include "cli/text_file.hpp"
#include "cli/written_file.hpp"
#include "commands.hpp"
#include "conversions.hpp"
#include "exit_codes.hpp"
#include "in_place.hpp"
#include "selection.hpp"
#include "strict_json.hpp"
#include "target.hpp"
#include "text/error.hpp"
#include "text/spelling.hpp"

namespace opdock::plugin_pack {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

// The adapted tree made from this checkout; null: none.
const Adapted *find_adapted(const std::vector<Adapted> &all, const fs::path &checkout) {
    const auto found = std::find_if(all.begin(), all.end(), [&](const Adapted &one) {
        std::error_code error;
        return fs::equivalent(one.folder, checkout, error);
    });
    return found == all.end() ? nullptr : &*found;
}

// Writes the files of the backend to its folder below staging. A submodule that is itself one of `all` is written as
// that backend.
void write_files(const Adapted &adapted, const std::string &folder, const std::vector<Adapted> &all) {
    fs::create_directory(folder); // exists already for a submodule
    if (!fs::is_directory(fs::symlink_status(folder))) {
        throw cli::Failure(folder + ": this is not a folder", exit_not_trusted);
    }
    const Changes &changes = adapted.backend.changes;
    adapted.workshop->check_out(changes.tree, folder);
    restore_conversions(*adapted.workshop, changes, folder);
    for (const Adapted &submodule : adapted.submodules) {
        write_files(submodule, folder + "/" + submodule.path, all);
    }
    for (const auto &[path, id] : adapted.workshop->submodules(changes.tree)) {
        if (const Adapted *other = find_adapted(all, fs::path(adapted.folder) / path)) {
            write_files(*other, fs::path(folder) / path, all);
        }
    }
}

json tree_json(const Adapted &adapted) {
    const Changes &changes = adapted.backend.changes;
    json submodules = json::array();
    for (const Adapted &one : adapted.submodules) {
        submodules.push_back(tree_json(one));
        submodules.back()["path"] = path_json(one.path);
    }
    return {{"commit", changes.commit},
            {"tree", changes.tree},
            {"changes", changes.list.size()},
            {"submodules", std::move(submodules)},
            {"absent_submodules", paths_json(adapted.absent)}};
}

json provenance_of(const OpenedPackage &opened, const std::vector<Adapted> &all) {
    json backends = json::array();
    for (const Adapted &adapted : all) {
        const Backend &backend = adapted.backend;
        json one = tree_json(adapted);
        one["name"] = backend.name;
        one["version"] = backend.version;
        one["conflicts"] = paths_json(adapted.conflicts);
        backends.push_back(std::move(one));
    }
    return {{"schema", "opdock.provenance/1"},
            {"package", opened.package.name()},
            {"device_type", opened.package.device_type},
            {"tasks", opened.package.tasks},
            {"serial", opened.package.serial},
            {"key", opened.key ? json(opened.key->key.id()) : json()},
            {"backends", std::move(backends)}};
}

// A folder beside `out` for this package, if `out` has the one called `there`: named by the tasks if these differ.
std::string folder_beside(const std::string &out, const std::string &there, const std::string &name) {
    const auto before_backends = [](const std::string &text) {
        return text.substr(0, text.find('-', text.find('-') + 1)); // a device type has no '-'
    };
    const std::string tasks = before_backends(name);
    const fs::path parent = (fs::path(out) / "..").lexically_normal(); // `out` may end in '/'
    return (parent / (tasks == before_backends(there) ? name : tasks)).string();
}

// Throws cli::Failure if the present content is of another kind, or newer.
void require_replaceable(const std::string &out, const Package &package, const Request &request) {
    std::error_code error;
    const fs::path file = fs::path(out) / provenance_name;
    if (!fs::exists(file, error)) {
        return;
    }
    std::string name;
    std::string other; // a backend that is there and would be lost
    uint64_t serial = 0;
    try {
        const std::string text = cli::read_text(file.string());
        const JsonText there(text, file.string(), {64, 1'000'000});
        name = there.root().at("package").text();
        serial = there.root().at("serial").number(1, most_serial);
        for (const JsonValue &backend : there.root().at("backends").items()) {
            if (std::string one = backend.at("name").text(); find_place(one, request) == nullptr) {
                other = std::move(one);
            }
        }
    } catch (const core::Error &malformed) {
        throw cli::Failure(std::string(malformed.what()) +
                           "; plugin-pack did not write this file; remove the folder, or name another one");
    }
    if (name != package.name()) {
        throw cli::Failure(out + ": this folder was made from " + name + ", but this package is " + package.name() +
                           "; --out " + folder_beside(out, name, package.name()) + " keeps both; or remove the folder");
    }
    if (!other.empty()) {
        throw cli::Failure(out + ": the folder is replaced as a whole, but it also has " + core::visible_line(other) +
                           "; name that with --backend as well, or another folder with --out");
    }
    if (serial > package.serial && !request.allow_older && request.commit.empty()) {
        throw cli::Failure(out + ": this folder was made from serial " + std::to_string(serial) +
                               ", but the package has the older serial " + std::to_string(package.serial) +
                               "; --allow-older replaces it anyway",
                           exit_older);
    }
}

} // namespace

int unpatch(const Request &given) {
    Request request = given;
    if (request.subject.empty()) {
        request.subject = find_package(request);
    }
    const OpenedPackage opened = open_requested(request, {true, {}});
    require_open(opened, request);
    const Package &package = opened.package;
    if (request.in_place) {
        return change_in_place(request, package, false);
    }
    const std::vector<const Backend *> requested = requested_backends(package, request);
    const std::string out =
        request.out.empty() ? (fs::current_path() / "build" / package.device_type).string() : request.out;
    Target target(out, provenance_name);
    require_replaceable(out, package, request);
    std::vector<Adapted> all;
    cli::StatusLine status;
    for (const Backend *backend : requested) {
        status.show(backend->name + ": applying " + cli::counted(count_of(backend->changes), "change"));
        all.push_back(adapt(*backend, *find_place(backend->name, request), target.scratch()));
    }
    for (const Adapted &adapted : all) {
        status.show(adapted.backend.name + ": writing files");
        write_files(adapted, target.staging() + "/" + adapted.backend.name, all);
    }
    const json provenance = provenance_of(opened, all);
    cli::write_new_file(target.staging() + "/" + provenance_name, provenance.dump(2) + "\n");
    if (!request.dry_run) {
        target.replace();
    }
    status.clear();
    if (request.json) {
        cli::print_document({{"schema", "opdock.plugin-pack.unpatch/1"},
                             {"package", request.subject},
                             {"out", request.dry_run ? json() : json(out)},
                             {"provenance", provenance}});
    } else {
        for (const Adapted &adapted : all) {
            std::cout << cli::printable(out + "/" + adapted.backend.name + ": " + commit_text(adapted.backend))
                      << " with " << cli::counted(count_of(adapted.backend.changes), "change")
                      << (request.dry_run ? ", not written (--dry-run)" : "") << '\n';
        }
    }
    return finish_with(all);
}

} // namespace opdock::plugin_pack
