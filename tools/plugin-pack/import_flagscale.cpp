#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <optional>

#include <nlohmann/json.hpp>

#include "cli/exit.hpp"
#include "cli/print_document.hpp"
#include "cli/printable.hpp"
#include "cli/quantities.hpp"
#include "cli/status_line.hpp"
#include "cli/text_file.hpp"
#include "cli/written_file.hpp"
#include "commands.hpp"
#include "flagscale.hpp"
#include "flagscale_encryption.hpp"
#include "signing.hpp"
#include "text/spelling.hpp"
#include "workshop.hpp"

namespace opdock::plugin_pack {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

struct Made {
    std::string path;
    size_t backends = 0;
    size_t changes = 0;
};

// Repositories in which patches are applied, each with one workshop for all backends made from it.
class Repositories {
  public:
    explicit Repositories(const Request &request) : places_(request.backends) {
        if (!request.decrypt_key.empty()) {
            key_.emplace(request.decrypt_key);
        }
    }

    // The backend made by applying its patches to the repository. Throws cli::Failure.
    Backend converted(const FlagscaleBackend &from) {
        const auto place = std::find_if(places_.begin(), places_.end(),
                                        [&](const BackendPlace &one) { return one.name == from.name; });
        if (place == places_.end()) {
            throw cli::Failure("no repository was given for it: --backend " + from.name + "=DIR");
        }
        const std::string commit = place->commit.empty() ? from.commit : place->commit;
        if (commit.empty()) {
            throw cli::Failure("it does not name the commit that its patches apply to; give it with --backend " +
                               from.name + "=DIR@COMMIT");
        }
        Repository &repository = opened(place->folder);
        Backend backend;
        backend.name = from.name;
        backend.version = from.version;
        backend.format = repository.objects.format;
        std::string &id = repository.commits[commit];
        if (id.empty()) {
            id = repository.workshop.commit_of(place->folder, commit);
        }
        backend.changes.commit = id;
        backend.changes.tree =
            repository.workshop.apply_files(id, from.patches, [&](const std::string &file) { return read(file); });
        backend.changes.list = repository.workshop.changes(id, backend.changes.tree);
        return backend;
    }

  private:
    struct Repository {
        explicit Repository(const std::string &folder) : objects(objects_of(folder)), workshop(objects) {}

        ObjectStore objects;
        Workshop workshop;
        std::map<std::string, std::string> commits; // full ids
    };

    std::string read(const std::string &file) const {
        const std::string text = cli::read_text(file);
        if (is_lfs_pointer(text)) {
            throw cli::Failure(lfs_remedy);
        }
        return file.ends_with(flagscale_encrypted) ? key_->decrypt(text) : text;
    }

    Repository &opened(const std::string &folder) {
        std::unique_ptr<Repository> &repository = repositories_[folder];
        if (!repository) {
            repository = std::make_unique<Repository>(folder);
        }
        return *repository;
    }

    const std::vector<BackendPlace> &places_;
    std::optional<FlagscaleKey> key_;
    std::map<std::string, std::unique_ptr<Repository>> repositories_;
};

std::string package_name(const std::string &device_type, const std::string &task) {
    return device_type + "-" + task + ".opdock";
}

void add_line(std::string &message, const std::string &line) {
    message += (message.empty() ? "" : "\n") + line;
}

// For a submodule that a patch adds, git has only a commit, without a repository that contains it.
void add_submodules(std::string &message, const Backend &backend) {
    for (const Change &change : backend.changes.list) {
        if (change.mode == submodule_mode && change.old_mode != submodule_mode) {
            add_line(message, "Without the files of the submodule " +
                                  core::visible_line(backend.name + "/" + change.path) + ", at its commit " +
                                  change.blob + ".");
        }
    }
}

void add_new(std::vector<std::string> &to, const std::vector<std::string> &from) {
    for (const std::string &one : from) {
        if (std::find(to.begin(), to.end(), one) == to.end()) {
            to.push_back(one);
        }
    }
}

using Packages = std::map<std::string, Package>; // by file name

// One package per device and task. What cannot be converted is added to the unresolved list, and noted in the packages
// that lack it.
Packages convert(FlagscaleTree &tree, Repositories &repositories, cli::StatusLine &status) {
    Packages packages;
    for (size_t i = 0; i < tree.backends.size(); ++i) {
        const FlagscaleBackend &one = tree.backends[i];
        status.show(std::to_string(i + 1) + " of " + std::to_string(tree.backends.size()) + "  " + one.device_type +
                    "/" + one.name);
        try {
            const Backend backend = repositories.converted(one);
            for (const std::string &task : one.tasks) {
                Package &package = packages[package_name(one.device_type, task)];
                package.device_type = one.device_type;
                package.tasks = {task};
                package.contact = package.contact.empty() ? one.contact : package.contact;
                add_new(package.models, one.models);
                add_submodules(package.message, backend);
                package.backends.push_back(backend);
            }
        } catch (const cli::Failure &failure) {
            tree.unresolved.push_back({one.folder, failure.what()});
        }
    }
    for (const Unresolved &one : tree.unresolved) {
        const fs::path folder(one.folder);
        for (auto &[name, package] : packages) {
            if (package.device_type == folder.parent_path().filename()) {
                add_line(package.message, "Without " + core::visible_line(folder.filename().string()) +
                                              ", which could not be imported from FlagScale.");
            }
        }
    }
    return packages;
}

std::vector<Made> write_all(const Packages &packages, const Request &request, const Signing &signing) {
    std::error_code error; // writing the first package reports the error
    fs::create_directories(request.out, error);
    std::vector<Made> made;
    for (const auto &[name, package] : packages) {
        const std::string path = request.out + "/" + name;
        cli::write_output(path, request.force, signing.print(package));
        made.push_back({path, package.backends.size(), 0});
        for (const Backend &backend : package.backends) {
            made.back().changes += backend.changes.list.size();
        }
    }
    return made;
}

json document_of(const std::vector<Made> &made, const std::vector<Unresolved> &unresolved) {
    json document = {{"schema", "opdock.plugin-pack.import-flagscale/1"},
                     {"packages", json::array()},
                     {"unresolved", json::array()}};
    for (const Made &one : made) {
        document["packages"].push_back({{"package", one.path}, {"backends", one.backends}, {"changes", one.changes}});
    }
    for (const Unresolved &one : unresolved) {
        document["unresolved"].push_back({{"folder", one.folder}, {"reason", one.reason}});
    }
    return document;
}

std::string report_of(const std::vector<Made> &made, const std::vector<Unresolved> &unresolved) {
    std::string text;
    for (const Made &one : made) {
        text += one.path + ": " + cli::counted(one.changes, "change") + " to " + cli::counted(one.backends, "backend") +
                "\n";
    }
    for (const Unresolved &one : unresolved) {
        text += "not imported: " + core::visible_line(one.folder) + ": " + one.reason + "\n";
    }
    return text;
}

} // namespace

int import_flagscale(const Request &request) {
    std::error_code error; // writing the first package reports the error
    if (fs::exists(request.out, error) && !fs::is_directory(request.out, error)) {
        throw cli::Failure(request.out + ": this is not a folder; expected a folder for the packages");
    }
    Repositories repositories(request);
    FlagscaleTree tree = read_flagscale(request.subject, !request.decrypt_key.empty());
    for (const FlagscaleBackend &one : tree.backends) {
        for (const std::string &task : one.tasks) {
            cli::check_output(request.out + "/" + package_name(one.device_type, task), request.force);
        }
    }
    const Signing signing(request);
    cli::StatusLine status;
    const Packages packages = convert(tree, repositories, status);
    status.show("packing " + std::to_string(packages.size()) + " packages");
    const std::vector<Made> made = write_all(packages, request, signing);
    status.clear();
    if (request.json) {
        cli::print_document(document_of(made, tree.unresolved));
    } else {
        std::cout << cli::printable(report_of(made, tree.unresolved));
    }
    return tree.unresolved.empty() ? cli::exit_fine : cli::exit_absent;
}

} // namespace opdock::plugin_pack
