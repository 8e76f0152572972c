#include "attachments.hpp"

#include <algorithm>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "cli/exit.hpp"
#include "cli/text_file.hpp"
#include "files/digest.hpp"
#include "inspect/inspect.hpp"
#include "keys/plugin_signature.hpp"
#include "policy/policy_yaml.hpp"
#include "tune/plugin_tuning.hpp"
#include "tune/tune_file.hpp"

namespace opdock::plugin_pack {
namespace {

namespace fs = std::filesystem;

constexpr const char *tune_ending = ".tune.yaml";

// "libacme" of "libacme.so.1"
std::string folder_of(const std::string &library) {
    return library.substr(0, library.find(".so"));
}

// Throws cli::Failure for a file that is no plugin, or a plugin that this opdock cannot judge.
Abi abi_of(const std::string &path) {
    core::LibraryVersions versions;
    const core::Inspection inspection = core::inspect(path, versions);
    if (!inspection.note) {
        throw cli::Failure("--plugin " + path + ": this is not a plugin: " +
                           (inspection.rejection ? inspection.rejection->message : "it has no note"));
    }
    return {inspection.note->abi, inspection.note->oldest_host};
}

void raise(std::optional<Abi> &abi, const Abi &one) {
    abi = abi ? Abi{std::max(abi->built_for, one.built_for), std::max(abi->oldest_host, one.oldest_host)} : one;
}

std::string content_of(const std::string &kind, const std::string &path) {
    std::error_code error; // reading it reports the error
    if (kind == "tune" || kind == "policy" || !fs::is_regular_file(path, error)) {
        return cli::read_text(path); // no host reads more, and the size of a device is unknown
    }
    const uintmax_t bytes = fs::file_size(path, error);
    if (error || bytes == 0) {
        return cli::read_text(path); // files of /proc have the size 0, their real size is unknown
    }
    require_size(path, bytes, {most_bytes});
    return cli::read_text(path, most_bytes);
}

// Finds the plugin by the tune file's name, as a host does; a single plugin matches any name.
const std::string &plugin_of_tune(const std::string &name, const std::vector<std::string> &libraries) {
    for (const std::string &library : libraries) {
        const std::string folder = folder_of(library);
        if (name == folder + tune_ending || "lib" + name == folder + tune_ending) {
            return library;
        }
    }
    if (libraries.size() != 1) {
        throw cli::Failure("--tune " + name + ": cannot determine its plugin; acme.tune.yaml is for libacme.so");
    }
    return libraries.front();
}

const Attachment *find(const std::vector<Attachment> &list, const std::string &name) {
    const auto found = std::find_if(list.begin(), list.end(), [&](const Attachment &one) { return one.name == name; });
    return found == list.end() ? nullptr : &*found;
}

// Shows the vendor the errors that customers' hosts would report. Throws core::Error with the place.
void check_text(const std::string &kind, const std::string &path, const std::string &text) {
    if (kind == "policy") {
        core::parse_policy_file(text, path, core::Enforce::accept);
    } else if (kind == "tune") {
        core::parse_tune_file(text, path);
    }
}

[[noreturn]] void fail_two_tunes(const std::string &path, const std::string &library) {
    throw cli::Failure(path + ": the plugin " + library + " already has another tune file");
}

void require_good_names(const std::vector<Attachment> &list) {
    for (const Attachment &one : list) {
        if (std::count_if(list.begin(), list.end(), [&](const Attachment &other) { return other.name == one.name; }) >
            1) {
            throw cli::Failure("two files of the package would be called '" + one.name + "'");
        }
        if (one.kind != "manifest" &&
            (!is_attachment_name(one.name) || one.name.ends_with(std::string("/") + manifest_file))) {
            throw cli::Failure("a file of a package cannot be called '" + one.name +
                               "', because the package has its own file of that name");
        }
        if (is_mistaken_for_plugin(one)) {
            throw cli::Failure("a " + one.kind + " of a package cannot be called '" + one.name +
                               "': hosts would take it for a plugin");
        }
        if (find(list, one.name.substr(0, one.name.find('/'))) != nullptr && one.name.find('/') != std::string::npos) {
            throw cli::Failure("the package would have both a file and a folder called '" +
                               one.name.substr(0, one.name.find('/')) + "'");
        }
    }
}

} // namespace

Attachments read_attachments(const std::vector<std::pair<std::string, std::string>> &files) {
    Attachments attachments;
    std::vector<std::string> libraries, tune_places; // per plugin; the place where a host looks for its tune file
    std::vector<nlohmann::json> manifests;           // per plugin
    for (const auto &[kind, path] : files) {
        const std::string name = fs::path(path).filename().string();
        if (!is_name(name)) {
            throw cli::Failure(path + ": the name of a file in a package must consist of letters, digits and ._-");
        }
        if (kind == "plugin") {
            libraries.push_back(name);
            tune_places.push_back(core::tune_file_beside(path));
            manifests.push_back({{"library", name}});
        }
    }
    for (const auto &[kind, path] : files) {
        std::string content = content_of(kind, path);
        check_text(kind, path, content);
        const std::string name = fs::path(path).filename().string();
        std::string place = name;
        if (kind == "plugin") {
            raise(attachments.abi, abi_of(path));
            place = folder_of(name) + "/" + name;
        } else if (kind == "tune") {
            const std::string &library = plugin_of_tune(name, libraries);
            nlohmann::json &manifest = manifests[static_cast<size_t>(
                std::find(libraries.begin(), libraries.end(), library) - libraries.begin())];
            if (manifest.contains("tune")) {
                fail_two_tunes(path, library);
            }
            manifest["tune"] = name;
            place = folder_of(library) + "/" + name;
        }
        attachments.list.push_back({kind, place, std::move(content)});
    }
    for (size_t i = 0; i < libraries.size(); ++i) {
        attachments.list.push_back(
            {"manifest", folder_of(libraries[i]) + "/" + manifest_file, manifests[i].dump() + "\n"});
        std::error_code error; // an unreachable file counts as absent
        if (!manifests[i].contains("tune") && fs::is_regular_file(tune_places[i], error)) {
            attachments.left_tune_files.emplace_back(tune_places[i], libraries[i]);
        }
    }
    require_good_names(attachments.list);
    return attachments;
}

std::vector<Attachment> with_signatures(std::vector<Attachment> attachments, const keys::SecretKey &key) {
    std::vector<Attachment> made;
    for (const Attachment &plugin : attachments) {
        const Attachment *manifest =
            plugin.kind != "plugin" ? nullptr
                                    : find(attachments, fs::path(plugin.name).replace_filename(manifest_file).string());
        if (manifest == nullptr) {
            continue;
        }
        const std::string name = plugin.name + ".sig";
        std::vector<core::FileSignature> signatures;
        if (const Attachment *earlier = find(attachments, name)) {
            signatures = core::parse_signatures(earlier->content, name);
            std::erase_if(signatures,
                          [&](const core::FileSignature &one) { return one.key_id == key.public_key.id(); });
        }
        signatures.push_back(
            keys::sign_plugin(core::sha256_of(plugin.content), core::sha256_of(manifest->content), key));
        made.push_back({"signature", name, core::print(signatures)});
    }
    for (Attachment &one : made) {
        std::erase_if(attachments, [&](const Attachment &earlier) { return earlier.name == one.name; });
        attachments.push_back(std::move(one));
    }
    return attachments;
}

} // namespace opdock::plugin_pack
