#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>

#include <nlohmann/json.hpp>
#include <sys/stat.h>

#include "adapted.hpp"
#include "attachments.hpp"
#include "cli/exit.hpp"
#include "cli/print_document.hpp"
#include "cli/printable.hpp"
#include "cli/quantities.hpp"
#include "cli/status_line.hpp"
#include "cli/written_file.hpp"
#include "commands.hpp"
#include "git.hpp"
#include "questions.hpp"
#include "signing.hpp"
#include "text/spelling.hpp"
#include "workshop.hpp"

namespace opdock::plugin_pack {
namespace {

using nlohmann::json;

Backend backend_of(const BackendPlace &place, const Request &request) {
    Backend backend;
    backend.name = place.name;
    Counting counting{request.include_ignored};
    for (const BackendPlace &other : request.backends) {
        if (other.name != place.name) {
            counting.others.push_back(other.folder);
        }
    }
    backend.changes = find_changes(place.folder, place.commit, counting);
    backend.format = objects_of(place.folder).format;
    backend.version = place.version;
    if (backend.version.empty()) {
        backend.version = describe(place.folder, backend.changes.commit);
    }
    return backend;
}

// Files that a filter stores elsewhere, or encrypts, are packed in readable form: the vendor must know beforehand.
void note_filtered(const Backend &backend) {
    constexpr size_t most = 3; // number of names shown
    std::vector<std::string> names = backend.changes.filtered;
    if (names.empty()) {
        return;
    }
    const size_t count = names.size();
    names.resize(std::min(count, most));
    std::cerr << cli::printable(
        "plugin-pack: note: filters are not run; the content in the worktree is packed for " + joined(names) +
        (count > most ? " and " + cli::counted(count - most, "other file") : "") + " of " + backend.name + "\n");
}

void note_made(const BackendPlace &place, const Backend &backend) {
    for (const std::string &folder : backend.changes.made) {
        std::cerr << cli::printable("plugin-pack: note: " + place.folder + "/" + core::visible_line(folder) +
                                    " is left out: unpatch made it\n");
    }
}

// The package of a checkout that does not descend from the commit reverts part of it: usually another was meant.
void note_other_history(const BackendPlace &place, const Backend &backend) {
    const GitRun run = run_git({place.folder}, {"merge-base", "--is-ancestor", backend.changes.commit, "HEAD"});
    if (run.code == 1 && git_line({place.folder}, {"rev-parse", "--is-shallow-repository"}) == "false") {
        std::cerr << cli::printable("plugin-pack: note: " + place.commit + " is not an ancestor of HEAD in " +
                                    place.folder + ": the package undoes those of its changes that HEAD lacks\n");
    }
}

void note_left_tune_files(const Attachments &attachments) {
    for (const auto &[file, library] : attachments.left_tune_files) {
        const std::string name = std::filesystem::path(file).filename().string();
        std::cerr << cli::printable("plugin-pack: note: " + name + " is beside " + library +
                                    " and is left out; --tune " + core::visible_line(file) + " includes it\n");
    }
}

// Refuses or reports files that are in a checkout by mistake.
void check_added(const BackendPlace &place, const Changes &changes) {
    for (const Change &change : changes.list) {
        if (change.mode == 0 || change.mode == submodule_mode) {
            continue;
        }
        const std::string file = place.folder + "/" + change.path;
        std::string begin(32, '\0');
        if (S_ISREG(change.mode)) { // a link may point to a pipe
            std::ifstream(file, std::ios::binary).read(begin.data(), static_cast<std::streamsize>(begin.size()));
        }
        if (begin.starts_with("opdock.secret-key/")) {
            throw cli::Failure(core::visible_line(file) +
                               ": this is a secret key, which would go into the package; keep it elsewhere");
        }
        if (change.status == 'A' && change.path.ends_with(package_ending)) {
            std::cerr << cli::printable(
                "plugin-pack: note: the package will contain another package: " + core::visible_line(file) + "\n");
        }
    }
    for (const Submodule &one : changes.submodules) {
        check_added({"", place.folder + "/" + one.path, ""}, one.changes);
    }
}

Package package_of(const Request &request, cli::StatusLine &status) {
    Package package;
    package.device_type = request.device_type;
    package.tasks = request.tasks;
    std::sort(package.tasks.begin(), package.tasks.end());
    package.tasks.erase(std::unique(package.tasks.begin(), package.tasks.end()), package.tasks.end());
    package.serial = request.serial.value_or(1);
    package.message = request.message;
    package.contact = request.contact;
    package.models = request.models;
    Attachments attachments = read_attachments(request.attachments);
    package.attachments = std::move(attachments.list);
    package.abi = attachments.abi;
    note_left_tune_files(attachments);
    for (const BackendPlace &place : request.backends) {
        status.show("looking for changes in " + place.folder);
        package.backends.push_back(backend_of(place, request));
        status.clear();
        note_other_history(place, package.backends.back());
        note_filtered(package.backends.back());
        note_made(place, package.backends.back());
        check_added(place, package.backends.back().changes);
    }
    std::sort(package.backends.begin(), package.backends.end(),
              [](const Backend &a, const Backend &b) { return a.name < b.name; });
    constexpr size_t most_name = 200; // of a folder with it, and some more
    if (package.name().size() > most_name) {
        throw cli::Failure("the package would be called " + package.name() + ", which is longer than " +
                           std::to_string(most_name) + " characters; give the backends shorter names");
    }
    return package;
}

} // namespace

std::string describe(const std::string &repository, const std::string &commit) {
    const GitRun run = run_git({repository}, {"describe", "--tags", "--always", "--abbrev=12", commit});
    const std::string name = run.out.substr(0, run.out.find('\n'));
    return is_utf8(name) ? name : commit.substr(0, 12); // a tag may be any bytes
}

void report_package(const Request &request, const Package &package, const Signing &signing, size_t bytes,
                    const char *schema) {
    if (request.json) {
        json backends = json::array();
        for (const Backend &backend : package.backends) {
            backends.push_back({{"name", backend.name},
                                {"commit", backend.changes.commit},
                                {"tree", backend.changes.tree},
                                {"changes", count_of(backend.changes)}});
        }
        cli::print_document({{"schema", schema},
                             {"package", request.out},
                             {"bytes", bytes},
                             {"serial", package.serial},
                             {"backends", backends}});
        return;
    }
    for (const Backend &backend : package.backends) {
        std::cout << cli::printable(backend.name + ": " + cli::counted(count_of(backend.changes), "change") + " to " +
                                    commit_text(backend))
                  << '\n';
    }
    std::cout << cli::printable(request.out) << ": serial " << package.serial << ", " << bytes << " bytes, "
              << signing.text() << '\n';
}

int patch(const Request &given) {
    cli::check_output(given.out, given.force);
    Request request = given;
    ask_for_missing(request);
    const Signing signing(request);
    cli::StatusLine status;
    const Package package = package_of(request, status);
    status.show("packing");
    const std::string text = signing.print(package);
    status.clear();
    cli::write_output(request.out, request.force, text);
    report_package(request, package, signing, text.size(), "opdock.plugin-pack.patch/1");
    return cli::exit_fine;
}

} // namespace opdock::plugin_pack
