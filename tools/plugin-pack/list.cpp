// list and history: the installed packages, and the commits of all packages in their folders.
#include <algorithm>
#include <iostream>
#include <map>
#include <set>

#include <nlohmann/json.hpp>

#include "adapted.hpp"
#include "cli/exit.hpp"
#include "cli/print_document.hpp"
#include "cli/printable.hpp"
#include "cli/table.hpp"
#include "cli/written_file.hpp"
#include "commands.hpp"
#include "installed.hpp"

namespace opdock::plugin_pack {
namespace {

using nlohmann::json;

// An installed package and the content of its file.
struct Entry {
    Installed installed;
    std::optional<OpenedPackage> opened;
};

Entry entry_of(Installed installed, const Trust &trust) {
    Entry entry{std::move(installed), std::nullopt};
    if (entry.installed.fault.empty()) {
        try {
            entry.opened = open_manifest(read_package_head(entry.installed.package), trust);
        } catch (const cli::Failure &failure) {
            entry.installed.fault = failure.what();
        }
    }
    return entry;
}

std::string signer_of(const OpenedPackage &opened) {
    return opened.key ? opened.key->key.name : "nobody";
}

std::vector<std::string> backends_of(const Package &package) {
    std::vector<std::string> texts;
    for (const Backend &backend : package.backends) {
        texts.push_back(backend.name + " " + commit_text(backend));
    }
    return texts;
}

json entry_json(const Entry &entry) {
    json kept = json::array();
    for (const uint64_t serial : kept_serials(entry.installed)) {
        kept.push_back({{"serial", serial}, {"path", entry.installed.folder + "/" + package_file_name(serial)}});
    }
    json document = {{"name", entry.installed.name},
                     {"folder", entry.installed.folder},
                     {"serial", entry.installed.serial},
                     {"fault", entry.installed.fault.empty() ? json() : json(entry.installed.fault)},
                     {"package", json()},
                     {"kept", std::move(kept)}};
    if (entry.opened) {
        const Package &package = entry.opened->package;
        json backends = json::array();
        for (const Backend &backend : package.backends) {
            backends.push_back(
                {{"name", backend.name}, {"version", backend.version}, {"commit", backend.changes.commit}});
        }
        document["package"] = {{"path", entry.installed.package},
                               {"device_type", package.device_type},
                               {"tasks", package.tasks},
                               {"message", package.message},
                               {"key", entry.opened->key ? json(entry.opened->key->key.id()) : json()},
                               {"backends", std::move(backends)}};
    }
    return document;
}

std::string table_of(const std::vector<Entry> &entries, const cli::Page &page) {
    const bool has_backends = std::any_of(entries.begin(), entries.end(), [](const Entry &entry) {
        return entry.opened && !entry.opened->package.backends.empty();
    });
    cli::Table table;
    std::vector<cli::Cell> head = {{"package"}, {"serial"}, {"signed by"}};
    if (has_backends) {
        head.push_back({"backends"});
    }
    table.row(head);
    for (const Entry &entry : entries) {
        const Installed &installed = entry.installed;
        std::vector<cli::Cell> cells = {
            {installed.name}, {std::to_string(installed.serial)}, {entry.opened ? signer_of(*entry.opened) : "?"}};
        if (has_backends && entry.opened) {
            const std::vector<std::string> backends = backends_of(entry.opened->package);
            cells.push_back({backends.empty() ? "none" : joined(backends)});
        }
        table.row(cells);
        table.note(installed.fault);
        table.note(installed.folder);
        for (const uint64_t serial : kept_serials(installed)) {
            std::string age = installed.serial == 0 ? "kept" : "later"; // 0: the package in force is unknown
            if (serial < installed.serial) {
                age = "earlier";
            }
            table.note(age + ": " + std::to_string(serial) + " (" + installed.folder + "/" + package_file_name(serial) +
                       ")");
        }
    }
    return table.text(page);
}

// device, task, backends, commits: by serial, the newest last.
using History = std::map<std::string, std::map<std::string, std::map<std::string, std::vector<std::string>>>>;

History history_of(std::vector<FoundPackage> packages) {
    std::erase_if(packages, [](const FoundPackage &one) { return !one.fault.empty(); });
    std::stable_sort(packages.begin(), packages.end(), [](const FoundPackage &a, const FoundPackage &b) {
        return a.opened.package.serial < b.opened.package.serial;
    });
    History history;
    for (const FoundPackage &one : packages) {
        const Package &package = one.opened.package;
        std::string names, commits;
        for (const Backend &backend : package.backends) {
            names += (names.empty() ? "" : "+") + backend.name;
            commits += (commits.empty() ? "" : "+") + backend.changes.commit;
        }
        if (names.empty()) {
            continue;
        }
        for (const std::string &task : package.tasks) {
            std::vector<std::string> &list = history[package.device_type][task][names];
            std::erase(list, commits); // patched again: it becomes the newest
            list.push_back(commits);
        }
    }
    return history;
}

// Names and ids have no characters that are special to YAML; quotes keep an id of digits a string.
std::string yaml_of(const History &history) {
    std::string text;
    for (const auto &[device, tasks] : history) {
        text += device + ":\n";
        for (const auto &[task, backends] : tasks) {
            text += "  " + task + ":\n";
            for (const auto &[names, commits] : backends) {
                text += "    '" + names + "':\n";
                for (const std::string &commit : commits) {
                    text += "      - '" + commit + "'\n";
                }
            }
        }
    }
    return text.empty() ? "{}\n" : text;
}

} // namespace

int list(const Request &request) {
    const Trust trust = requested_trust(request);
    std::vector<Entry> entries;
    for (const std::string &folder : plugin_folders(request)) {
        for (Installed &one : installed_in(folder)) {
            entries.push_back(entry_of(std::move(one), trust));
        }
    }
    if (request.json) {
        json packages = json::array();
        for (const Entry &entry : entries) {
            packages.push_back(entry_json(entry));
        }
        cli::print_document(
            {{"schema", "opdock.plugin-pack.list/1"}, {"folders", plugin_folders(request)}, {"packages", packages}});
        return cli::exit_fine;
    }
    if (entries.empty()) {
        std::cout << cli::printable("no package is installed in " + joined(plugin_folders(request))) << '\n';
        return cli::exit_fine;
    }
    std::cout << table_of(entries, cli::page_of_stdout());
    return cli::exit_fine;
}

int history(const Request &request) {
    cli::check_output(request.out, request.force);
    const Trust trust = requested_trust(request);
    std::vector<FoundPackage> packages = find_packages(plugin_folders(request), trust);
    bool is_whole = true;
    std::set<std::string> without_backends; // names
    for (const FoundPackage &one : packages) {
        if (!one.fault.empty()) {
            std::cerr << cli::printable("plugin-pack: left out: " + one.fault) << '\n';
            is_whole = false;
        } else if (one.opened.package.backends.empty()) {
            without_backends.insert(one.opened.package.name());
        }
    }
    for (const std::string &name : without_backends) {
        std::cerr << cli::printable("plugin-pack: note: " + name + " has no backends, and so no commits to list\n");
    }
    const History all = history_of(std::move(packages));
    if (request.json) {
        cli::print_document({{"schema", "opdock.plugin-pack.history/1"}, {"history", all}});
    } else {
        cli::write_output(request.out, request.force, yaml_of(all));
    }
    return is_whole ? cli::exit_fine : cli::exit_absent;
}

} // namespace opdock::plugin_pack
