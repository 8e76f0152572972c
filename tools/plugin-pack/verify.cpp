#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>
#include <optional>

#include <nlohmann/json.hpp>

#include "cli/exit.hpp"
#include "cli/print_document.hpp"
#include "cli/printable.hpp"
#include "commands.hpp"
#include "keys/key_files.hpp"
#include "keys/trust.hpp"
#include "text/spelling.hpp"

namespace opdock::plugin_pack {
namespace {

using nlohmann::json;

json key_json(const OpenedPackage &opened) {
    return opened.key ? json{{"id", opened.key->key.id()}, {"name", opened.key->key.name}, {"path", opened.key->path}}
                      : json();
}

std::string signer_text(const OpenedPackage &opened) {
    return opened.key ? "signed with " + opened.key->key.text() + " of " + opened.key->path : "not signed";
}

// For encrypted packages without the key. Such a package is never reported as intact.
constexpr const char *not_looked_at = "the encrypted part was not checked: --decrypt-key NAME.key checks it";

// Includes the changes in submodules, prefixed with the submodule's path.
std::vector<Change> all_changes(const Changes &changes, const std::string &prefix = "") {
    std::vector<Change> all = changes.list;
    for (Change &change : all) {
        change.path.insert(0, prefix);
        change.old_path.insert(0, prefix);
    }
    for (const Submodule &submodule : changes.submodules) {
        const std::vector<Change> inner = all_changes(submodule.changes, prefix + submodule.path + "/");
        all.insert(all.end(), inner.begin(), inner.end());
    }
    return all;
}

json changes_json(const Changes &changes) {
    json list = json::array();
    for (const Change &change : all_changes(changes)) {
        list.push_back({{"status", std::string(1, change.status)},
                        {"path", path_json(change.path)},
                        {"old_path", path_json(change.old_path)}});
    }
    return list;
}

} // namespace

Trust requested_trust(const Request &request) {
    if (!request.trusted.empty() && !std::filesystem::is_directory(request.trusted)) {
        throw cli::Failure(request.trusted + ": there is no such folder of keys");
    }
    Trust trust{keys::keys_to_trust(request.public_keys, request.trusted), request.allow_unsigned};
    for (const std::string &warning : trust.keys.warnings) {
        std::cerr << "plugin-pack: " << cli::printable(warning) << '\n';
    }
    return trust;
}

std::optional<keys::SecretKey> requested_key(const Request &request) {
    return request.decrypt_key.empty()
               ? std::nullopt
               : std::optional(keys::read_key_file(request.decrypt_key, {request.passphrase_file}));
}

OpenedPackage open_requested(const Request &request, const Taking &taking) {
    const PackageFile file = read_package(request.subject);
    const Trust trust = requested_trust(request);
    const std::optional<keys::SecretKey> key = requested_key(request);
    return open(file, trust, key ? &*key : nullptr, taking);
}

// Text with line feeds could look like a line of this tool.
std::string on_one_line(const std::string &text) {
    const bool is_plain =
        std::none_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 127; });
    return is_plain ? text : json(text).dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string joined(const std::vector<std::string> &words) {
    std::string text;
    for (const std::string &word : words) {
        text += (text.empty() ? "" : ", ") + core::visible_line(word);
    }
    return text;
}

int verify(const Request &request) {
    const OpenedPackage opened = open_requested(request, {});
    if (request.json) {
        cli::print_document({{"schema", "opdock.plugin-pack.verify/1"},
                             {"package", request.subject},
                             {"status", "valid"},
                             {"key", key_json(opened)},
                             {"recipients", opened.recipients},
                             {"is_open", opened.is_open}});
    } else {
        std::cout << cli::printable(request.subject + (opened.is_open ? ": complete, " : ": ") + signer_text(opened) +
                                    (opened.is_open ? "\n" : std::string("; ") + not_looked_at + "\n"));
    }
    return cli::exit_fine;
}

int inspect(const Request &request) {
    std::map<std::string, uint64_t> bytes; // of attachments, by name
    const OpenedPackage opened = open_requested(
        request, {false, [&](const Attachment &one, std::string_view piece) { bytes[one.name] += piece.size(); }});
    const Package &package = opened.package;
    if (request.json) {
        json backends = json::array();
        for (const Backend &backend : package.backends) {
            backends.push_back({{"name", backend.name},
                                {"version", backend.version},
                                {"commit", backend.changes.commit},
                                {"tree", backend.changes.tree},
                                {"changes", changes_json(backend.changes)}});
        }
        json files = json::array();
        for (const Attachment &one : package.attachments) {
            files.push_back({{"kind", one.kind}, {"name", one.name}, {"bytes", bytes[one.name]}});
        }
        cli::print_document({{"schema", "opdock.plugin-pack.inspect/1"},
                             {"package", request.subject},
                             {"key", key_json(opened)},
                             {"recipients", opened.recipients},
                             {"is_open", opened.is_open},
                             {"device_type", package.device_type},
                             {"tasks", package.tasks},
                             {"serial", package.serial},
                             {"message", package.message},
                             {"contact", package.contact},
                             {"models", package.models},
                             {"backends", backends},
                             {"files", files}});
        return cli::exit_fine;
    }
    std::string text = request.subject + "\n  " + signer_text(opened) + "\n";
    if (!opened.recipients.empty()) {
        text += "  encrypted for " + joined(opened.recipients) +
                (opened.is_open ? "\n" : std::string("; ") + not_looked_at + " and shows what was changed\n");
    }
    text +=
        "  " + package.device_type + ", " + joined(package.tasks) + ", serial " + std::to_string(package.serial) + "\n";
    for (const auto &[what, value] : {std::pair("message", package.message), std::pair("contact", package.contact),
                                      std::pair("models", joined(package.models))}) {
        text += value.empty() ? "" : std::string("  ") + what + ": " + on_one_line(value) + "\n";
    }
    for (const Backend &backend : package.backends) {
        text += "\n  " + backend.name + " " + on_one_line(backend.version) + " (" + backend.changes.commit + ")\n";
        for (const Change &change : all_changes(backend.changes)) {
            text += std::string("    ") + change.status + "  " +
                    (change.old_path == change.path ? "" : on_one_line(change.old_path) + " -> ") +
                    on_one_line(change.path) + "\n";
        }
        text += opened.is_open && count_of(backend.changes) == 0 ? "    no changes\n" : "";
    }
    for (const Attachment &one : package.attachments) {
        text += "\n  " + on_one_line(one.kind) + " " + one.name + ", " + std::to_string(bytes[one.name]) + " bytes";
    }
    std::cout << cli::printable(text) << (package.attachments.empty() ? "" : "\n");
    return cli::exit_fine;
}

} // namespace opdock::plugin_pack
