#include <algorithm>
#include <filesystem>
#include <iostream>

#include <nlohmann/json.hpp>

#include "adapted.hpp"
#include "cli/exit.hpp"
#include "cli/print_document.hpp"
#include "cli/printable.hpp"
#include "cli/text_file.hpp"
#include "cli/written_file.hpp"
#include "commands.hpp"
#include "git.hpp"
#include "signing.hpp"
#include "workshop.hpp"

namespace opdock::plugin_pack {
namespace {

using nlohmann::json;

Backend backend_of(const BackendPlace &place, const Request &request) {
    Backend backend;
    backend.name = place.name;
    backend.changes = find_changes(place.folder, place.commit, request.include_ignored);
    backend.format = objects_of(place.folder).format;
    backend.version = request.backend_version;
    if (backend.version.empty()) {
        backend.version = describe(place.folder, backend.changes.commit);
    }
    return backend;
}

Attachment attachment_of(const std::string &kind, const std::string &path) {
    Attachment attachment{kind, std::filesystem::path(path).filename().string(), cli::read_text(path, most_bytes)};
    if (!is_name(attachment.name)) {
        throw cli::Failure("--" + kind + " " + path + ": a file in a package has a name of letters, digits and ._-");
    }
    return attachment;
}

Package package_of(const Request &request) {
    Package package;
    package.device_type = request.device_type;
    package.tasks = request.tasks;
    std::sort(package.tasks.begin(), package.tasks.end());
    package.tasks.erase(std::unique(package.tasks.begin(), package.tasks.end()), package.tasks.end());
    package.serial = request.serial.value_or(1);
    package.message = request.message;
    package.contact = request.contact;
    package.models = request.models;
    for (const auto &[kind, path] : request.attachments) {
        package.attachments.push_back(attachment_of(kind, path));
        for (size_t i = 0; i + 1 < package.attachments.size(); ++i) {
            if (package.attachments[i].name == package.attachments.back().name) {
                throw cli::Failure("two files of the package would be called '" + package.attachments[i].name + "'");
            }
        }
    }
    for (const BackendPlace &place : request.backends) {
        package.backends.push_back(backend_of(place, request));
    }
    std::sort(package.backends.begin(), package.backends.end(),
              [](const Backend &a, const Backend &b) { return a.name < b.name; });
    return package;
}

} // namespace

std::string describe(const std::string &repository, const std::string &commit) {
    const GitRun run = run_git({repository}, {"describe", "--tags", "--always", "--abbrev=12", commit});
    return run.out.substr(0, run.out.find('\n'));
}

void report_package(const Request &request, const Package &package, const Signing &signing, size_t bytes,
                    const char *schema) {
    if (request.json) {
        json backends = json::array();
        for (const Backend &backend : package.backends) {
            backends.push_back({{"name", backend.name},
                                {"commit", backend.changes.commit},
                                {"tree", backend.changes.tree},
                                {"changes", backend.changes.list.size()}});
        }
        cli::print_document({{"schema", schema},
                             {"package", request.out},
                             {"bytes", bytes},
                             {"serial", package.serial},
                             {"backends", backends}});
        return;
    }
    for (const Backend &backend : package.backends) {
        const size_t count = backend.changes.list.size();
        std::cout << backend.name << ": " << count << (count == 1 ? " change to " : " changes to ")
                  << cli::printable(commit_text(backend)) << '\n';
    }
    std::cout << cli::printable(request.out) << ": serial " << package.serial << ", " << bytes << " bytes, "
              << signing.text() << '\n';
}

int patch(const Request &request) {
    cli::check_output(request.out, request.force);
    const Signing signing(request);
    const Package package = package_of(request);
    const std::string text = signing.print(package);
    cli::write_output(request.out, request.force, text);
    report_package(request, package, signing, text.size(), "opdock.plugin-pack.patch/1");
    return cli::exit_fine;
}

} // namespace opdock::plugin_pack
