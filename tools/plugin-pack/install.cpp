// install and uninstall: the files of a package in a folder of their own below a folder for plugins. It is created,
// replaced and removed by one rename.
#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <iostream>
#include <optional>

#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "adapted.hpp"
#include "cli/exit.hpp"
#include "cli/print_document.hpp"
#include "cli/printable.hpp"
#include "cli/suggest.hpp"
#include "cli/text_file.hpp"
#include "cli/written_file.hpp"
#include "commands.hpp"
#include "exit_codes.hpp"
#include "files/bounded_file.hpp"
#include "files/path_rules.hpp"
#include "inspect/manifest.hpp"
#include "installed.hpp"
#include "target.hpp"
#include "text/error.hpp"
#include "text/spelling.hpp"

namespace opdock::plugin_pack {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

void require_abi(const Package &package, const std::string &path) {
    if (!package.abi) {
        return;
    }
    if (const auto reason = core::judge_abi(path, package.abi->built_for, package.abi->oldest_host, core::host_abi)) {
        throw cli::Failure(*reason);
    }
}

// The manifests among the files of the package.
class Manifests {
  public:
    void keep(Attachment &one, std::string_view piece) {
        if (one.kind != "manifest") {
            return;
        }
        bytes_ += piece.size();
        if (bytes_ > core::most_file_bytes) { // a host would not read a larger one
            throw cli::Failure("the package's files " + std::string(manifest_file) + " have more than " +
                                   size_text(core::most_file_bytes),
                               exit_not_trusted);
        }
        one.content += piece;
    }

  private:
    size_t bytes_ = 0;
};

// A plugin.json that names files outside its folder would make hosts load unsigned code.
void require_own_files(const Package &package) {
    for (const Attachment &one : package.attachments) {
        if (one.kind != "manifest") {
            continue;
        }
        const fs::path place = fs::path("/") / one.name;
        try {
            const core::Manifest manifest = core::parse_manifest(one.content, place.string());
            for (const std::string &file : {manifest.library, manifest.tune, manifest.signature}) {
                if (!file.empty() && fs::path(file).parent_path() != place.parent_path()) {
                    throw cli::Failure("the package's " + one.name +
                                           " names a file that is not in the package: " + file,
                                       exit_not_trusted);
                }
            }
        } catch (const core::Error &error) {
            throw cli::Failure(std::string("the package's plugin.json is invalid: ") + error.what(), exit_not_trusted);
        }
    }
}

// Writes piece by piece, from a package that was verified: no unpacked file is held in memory. `stays`: waits until
// each file is on the disk, which takes milliseconds per file.
void write_attachments(const PackageFile &package, const Trust &trust, const keys::SecretKey *key, const fs::path &to,
                       bool stays) {
    std::optional<cli::NewFile> file;
    const Attachment *written = nullptr;
    const auto finish = [&] {
        if (file && stays) {
            file->write({});
        }
        if (file) {
            file->keep();
        }
    };
    open(package, trust, key, {false, [&](const Attachment &one, std::string_view piece) {
                                   if (written != &one) {
                                       finish();
                                       fs::create_directories((to / one.name).parent_path());
                                       file.emplace(to / one.name, 0644);
                                       written = &one;
                                   }
                                   file->append(piece);
                               }});
    finish();
}

// `text` is the package's file.
void require_newer(const Installed &there, const Package &package, const std::string &text) {
    if (there.package.empty()) {
        throw cli::Failure(there.folder + ": cannot determine which package is installed (" + there.fault +
                               "); --allow-older replaces it anyway",
                           exit_older);
    }
    if (there.serial > package.serial) {
        throw cli::Failure(there.folder + ": serial " + std::to_string(there.serial) +
                               " is installed, but the package has the older serial " + std::to_string(package.serial) +
                               "; --allow-older installs it anyway",
                           exit_older);
    }
    // In force, or kept beside it.
    const std::string same = there.folder + "/" + package_file_name(package.serial);
    std::error_code error;
    const bool is_new = there.serial != package.serial && !fs::exists(fs::symlink_status(same, error));
    if (!is_new && (!fs::is_regular_file(same, error) || cli::read_text(same, most_package_bytes) != text)) {
        throw cli::Failure(
            there.folder + ": another package of the same serial, " + std::to_string(package.serial) +
                ", is installed; the vendor should have raised the serial. --allow-older installs it anyway",
            exit_older);
    }
}

// Keeps the packages of other serials that are already there.
void keep_others(const Installed &there, const std::string &name, const fs::path &to) {
    std::error_code error;
    for (fs::directory_iterator entry(there.folder, error), end; !error && entry != end; entry.increment(error)) {
        const std::string other = entry->path().filename().string();
        if (!other.ends_with(package_ending) || other == name || !entry->is_regular_file() || entry->is_symlink()) {
            continue;
        }
        const bool is_ours = (entry->status().permissions() & fs::perms::mask) == fs::perms(0644);
        if (is_ours) {
            fs::create_hard_link(entry->path(), to / other, error);
        }
        if (!is_ours || error) {
            fs::copy_file(entry->path(), to / other);
            fs::permissions(to / other, fs::perms(0644));
        }
    }
}

// The file that an installed plugin.json names as the plugin's tune file; "" for none.
std::string tune_file_of(const fs::path &manifest) {
    try {
        return core::read_manifest(manifest.string()).tune;
    } catch (const core::Error &) {
        return {}; // hosts do not read it either
    }
}

struct Removed {
    std::vector<std::string> plugins, tune_files;
};

// Installed libraries and tune files that the new package lacks: hosts will miss them.
Removed removed_files(const std::optional<Installed> &there, const fs::path &staging) {
    Removed removed;
    std::error_code error;
    if (!there) {
        return removed;
    }
    const auto is_gone = [&](const fs::path &name) { return !fs::exists(staging / name); };
    for (fs::recursive_directory_iterator entry(there->folder, error), end; !error && entry != end;
         entry.increment(error)) {
        const fs::path name = entry->path().lexically_relative(there->folder);
        if (name.extension() == ".so" && is_gone(name)) {
            removed.plugins.push_back(name.string());
        }
        if (name.filename() == manifest_file) {
            const fs::path tune = tune_file_of(entry->path());
            if (!tune.empty() && is_gone(tune.lexically_relative(there->folder))) {
                removed.tune_files.push_back(tune.lexically_relative(there->folder).string());
            }
        }
    }
    std::sort(removed.plugins.begin(), removed.plugins.end());
    std::sort(removed.tune_files.begin(), removed.tune_files.end());
    return removed;
}

std::vector<std::string> plugins_of(const Package &package) {
    std::vector<std::string> plugins;
    for (const Attachment &one : package.attachments) {
        if (one.kind == "plugin") {
            plugins.push_back(one.name);
        }
    }
    return plugins;
}

// Removes permissions of others to write that a parent folder passes on (default access lists, the setgid bit).
void keep_to_owner(const fs::path &folder) {
    for (const char *list : {"system.posix_acl_default", "system.posix_acl_access"}) {
        if (::removexattr(folder.c_str(), list) != 0 && errno != ENODATA && errno != ENOTSUP) {
            throw cli::Failure(folder.string() +
                               ": cannot remove its access list: " + std::generic_category().message(errno));
        }
    }
    fs::permissions(folder, fs::perms(0755));
}

// `staging` is beside the present or future `folder`.
void warn_of_unsafe_place(const std::string &folder, const fs::path &staging) {
    const auto fault =
        core::PathRules().judge_folder(fs::absolute(staging).string(), core::PathRules::Missing::is_fine);
    if (fault) {
        std::cerr << cli::printable(
            "plugin-pack: note: " + folder + ": another user could put code into it: " + fault->what +
            "; hosts warn about its plugins, and take none if strict is set or trust is required. Run `" +
            fault->remedy + "`, or install the package elsewhere\n");
    }
}

std::string report_of(const Package &package, const std::string &folder, const std::optional<Installed> &there,
                      const Removed &removed, bool is_dry_run) {
    std::string text = folder + ": serial " + std::to_string(package.serial);
    if (there && there->serial != package.serial) {
        text += " instead of " + std::to_string(there->serial);
    }
    text += is_dry_run ? ", not installed (--dry-run)\n" : "\n";
    for (const std::string &plugin : plugins_of(package)) {
        text += "  plugin " + plugin + "\n";
    }
    for (const std::string &plugin : removed.plugins) {
        text += "  removed: plugin " + core::visible_line(plugin) + "\n";
    }
    for (const std::string &tune_file : removed.tune_files) {
        text += "  removed: tune file " + core::visible_line(tune_file) + "\n";
    }
    for (const Attachment &one : package.attachments) {
        if (one.kind == "policy") {
            text += "  policy " + one.name + ", in force with PLUGIN_CONFIG=" + folder + "/" + one.name + "\n";
        }
    }
    return text;
}

} // namespace

int install(const Request &request) {
    ::umask(022); // hosts do not trust files that others may write
    const PackageFile read = read_package(request.subject);
    const Trust trust = requested_trust(request);
    const std::optional<keys::SecretKey> key = requested_key(request);
    const keys::SecretKey *decrypting = key ? &*key : nullptr;
    Manifests manifests;
    const OpenedPackage opened = open(
        read, trust, decrypting, {false, [&](Attachment &one, std::string_view piece) { manifests.keep(one, piece); }});
    const Package &package = opened.package;
    require_open(opened, request);
    require_abi(package, request.subject);
    require_own_files(package);
    const std::string plugins = plugin_folder(request);
    const std::string name = package.name(), folder = plugins + "/" + name;
    const std::string text = read.text();
    Target target(folder, installed_mark);
    const std::optional<Installed> there = find_installed(plugins, name);
    if (there && !request.allow_older) {
        require_newer(*there, package, text);
    }
    const fs::path staging = target.staging();
    keep_to_owner(staging);
    const std::string file = package_file_name(package.serial);
    cli::write_new_file(staging / installed_mark, print_mark(package.serial));
    cli::write_new_file(staging / file, text);
    if (there) {
        keep_others(*there, file, staging);
    }
    write_attachments(read, trust, decrypting, staging, !request.dry_run);
    const Removed removed = removed_files(there, staging);
    warn_of_unsafe_place(folder, staging);
    if (!request.dry_run) {
        target.replace();
    }
    if (request.json) {
        cli::print_document({{"schema", "opdock.plugin-pack.install/1"},
                             {"name", name},
                             {"folder", request.dry_run ? json() : json(folder)},
                             {"serial", package.serial},
                             {"replaced", there ? json(there->serial) : json()},
                             {"plugins", plugins_of(package)},
                             {"removed_plugins", removed.plugins},
                             {"removed_tune_files", removed.tune_files}});
    } else {
        std::cout << cli::printable(report_of(package, folder, there, removed, request.dry_run));
    }
    return cli::exit_fine;
}

int uninstall(const Request &request) {
    const std::string plugins = plugin_folder(request);
    const std::vector<Installed> all = installed_in(plugins);
    const auto there =
        std::find_if(all.begin(), all.end(), [&](const Installed &one) { return one.name == request.subject; });
    if (there == all.end()) {
        throw cli::Failure(plugins + ": no package '" + request.subject + "' is installed there" +
                           cli::did_you_mean(request.subject, cli::names_of(all)));
    }
    Target(there->folder, installed_mark).remove();
    if (request.json) {
        cli::print_document({{"schema", "opdock.plugin-pack.uninstall/1"},
                             {"name", there->name},
                             {"folder", there->folder},
                             {"serial", there->serial}});
    } else {
        std::cout << cli::printable(there->folder + ": removed\n");
    }
    return cli::exit_fine;
}

} // namespace opdock::plugin_pack
