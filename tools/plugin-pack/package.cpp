#include "package.hpp"

#include <set>
#include <utility>

#include <nlohmann/json.hpp>

#include "cli/exit.hpp"
#include "encryption.hpp"
#include "exit_codes.hpp"
#include "files/digest.hpp"
#include "payload.hpp"
#include "strict_json.hpp"
#include "text/error.hpp"
#include "text/spelling.hpp"

namespace opdock::plugin_pack {
namespace {

using nlohmann::json;

constexpr core::JsonLimits manifest_limits = {8, 200'000}; // more than fit into its bytes

constexpr const char *word_characters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

json version_json(const core::AbiVersion &version) {
    return {version.major, version.minor};
}

json abi_json(const std::optional<Abi> &abi) {
    return abi ? json{{"built_for", version_json(abi->built_for)}, {"oldest_host", version_json(abi->oldest_host)}}
               : json();
}

json manifest_json(const Package &package) {
    json backends = json::array();
    for (const Backend &backend : package.backends) {
        backends.push_back({{"name", backend.name},
                            {"version", backend.version},
                            {"format", backend.format},
                            {"commit", backend.changes.commit},
                            {"tree", backend.changes.tree}});
    }
    return {{"schema", package_schema}, {"device_type", package.device_type}, {"tasks", package.tasks},
            {"serial", package.serial}, {"message", package.message},         {"contact", package.contact},
            {"models", package.models}, {"abi", abi_json(package.abi)},       {"backends", std::move(backends)}};
}

template<size_t digits>
bool is_hex(const std::string &text) {
    return text.size() == digits && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

core::AbiVersion version_of(const JsonValue &value) {
    const std::vector<JsonValue> parts = value.items();
    if (parts.size() != 2) {
        value.refuse("two numbers");
    }
    return {static_cast<uint32_t>(parts[0].number(0, UINT32_MAX)),
            static_cast<uint32_t>(parts[1].number(0, UINT32_MAX))};
}

std::vector<std::string> tasks_of(const JsonValue &value) {
    std::vector<std::string> tasks;
    for (const JsonValue &one : value.items()) {
        std::string task = one.text(is_task, "'inference', 'post_train' or 'train'");
        if (!tasks.empty() && task <= tasks.back()) {
            one.refuse("tasks in alphabetical order, each once");
        }
        tasks.push_back(std::move(task));
    }
    if (tasks.empty()) {
        value.refuse("at least one task");
    }
    return tasks;
}

Backend backend_of(const JsonValue &value) {
    Backend backend;
    backend.name = value.at("name").text(is_name, expected_name);
    backend.version = value.at("version").text();
    backend.format = value.at("format").text(is_format, expected_format);
    backend.changes.commit = id_of(value.at("commit"), backend.format);
    backend.changes.tree = id_of(value.at("tree"), backend.format);
    return backend;
}

Package package_of(const JsonValue &manifest) {
    Package package;
    package.device_type = manifest.at("device_type").text(is_device_type, "a device such as 'Acme_A1'");
    package.tasks = tasks_of(manifest.at("tasks"));
    package.serial = manifest.at("serial").number(1, most_serial);
    package.message = manifest.at("message").text();
    package.contact = manifest.at("contact").text();
    for (const JsonValue &model : manifest.at("models").items()) {
        package.models.push_back(model.text());
    }
    if (const JsonValue abi = manifest.at("abi"); !abi.is_null()) {
        package.abi = {version_of(abi.at("built_for")), version_of(abi.at("oldest_host"))};
    }
    std::set<std::string> names;
    for (const JsonValue &one : manifest.at("backends").items()) {
        package.backends.push_back(backend_of(one));
        if (!names.insert(package.backends.back().name).second) {
            one.at("name").refuse("a name that no other backend has");
        }
    }
    return package;
}

// The manifest's description of the payload.
struct PayloadSummary {
    uint64_t bytes = 0;
    std::string sha256;
    std::vector<SealedKey> recipients;
};

PayloadSummary payload_of(const JsonValue &value) {
    PayloadSummary summary{
        value.at("bytes").number(0, UINT64_MAX), value.at("sha256").text(is_hex<64>, "64 digits of 0-9a-f"), {}};
    for (const JsonValue &one : value.at("recipients").items()) {
        summary.recipients.push_back({one.at("key").text(is_hex<16>, "the id of a key, 16 digits of 0-9a-f"),
                                      one.at("sealed").text(is_hex<160>, "a sealed key, 160 digits of 0-9a-f")});
    }
    return summary;
}

void check_payload(const PayloadSummary &summary, const std::string &payload) {
    if (summary.bytes != payload.size() || summary.sha256 != core::hex(core::sha256_of(payload))) {
        throw cli::Failure("the payload is not the one that was signed: the package is damaged, or was changed",
                           exit_not_trusted);
    }
}

bool is_schema(const std::string &text) {
    return text == package_schema;
}

// Reads everything before the payload. Returns the description of the payload.
PayloadSummary read_manifest(const PackageFile &file, OpenedPackage &opened) {
    const JsonText text(file.manifest, "manifest", manifest_limits);
    const JsonValue manifest = text.root();
    manifest.at("schema").text(is_schema, "'opdock.package/1', the only schema that this plugin-pack knows");
    opened.package = package_of(manifest);
    PayloadSummary summary = payload_of(manifest.at("payload"));
    for (const SealedKey &one : summary.recipients) {
        opened.recipients.push_back(one.key_id);
    }
    return summary;
}

// Adds the file's name to the message of an exception.
template<class Body>
void explained(const PackageFile &file, Body body) {
    try {
        body();
    } catch (const cli::Failure &failure) {
        throw cli::Failure(file.path + ": " + failure.what(), failure.code);
    } catch (const core::Error &error) {
        throw cli::Failure(file.path + ": " + error.what(), exit_not_trusted);
    }
}

} // namespace

bool is_device_type(const std::string &text) {
    const size_t bar = text.find('_');
    return text.size() <= 64 && bar != std::string::npos && bar + 1 < text.size() && text[0] >= 'A' && text[0] <= 'Z' &&
           text.find_first_not_of(word_characters) == bar &&
           text.find_first_not_of(word_characters, bar + 1) == std::string::npos;
}

bool is_task(const std::string &text) {
    return text == "train" || text == "inference" || text == "post_train";
}

std::string id_of(const JsonValue &value, const std::string &format) {
    return format == "sha1" ? value.text(is_hex<40>, "a full id of git's sha1, 40 digits of 0-9a-f")
                            : value.text(is_hex<64>, "a full id of git's sha256, 64 digits of 0-9a-f");
}

bool is_format(const std::string &text) {
    return text == "sha1" || text == "sha256";
}

bool is_name(const std::string &text) {
    return !text.empty() && text.size() <= 128 && text[0] != '.' && text[0] != '-' &&
           text.find_first_not_of(std::string(word_characters) + "._-") == std::string::npos;
}

bool is_mistaken_for_plugin(const Attachment &attachment) {
    return attachment.kind != "plugin" && attachment.name.ends_with(".so");
}

bool is_attachment_name(const std::string &text) {
    const size_t slash = text.find('/');
    const std::string first = text.substr(0, slash); // install uses these names for files of its own
    return is_name(first) && first != installed_mark && first != manifest_file && !first.ends_with(package_ending) &&
           (slash == std::string::npos || is_name(text.substr(slash + 1)));
}

std::string Package::name() const {
    const auto with_plus = [](const auto &list, auto text_of) {
        std::string text;
        for (const auto &one : list) {
            text += (text.empty() ? "" : "+") + text_of(one);
        }
        return text;
    };
    return device_type + "-" + with_plus(tasks, [](const std::string &task) { return task; }) +
           (backends.empty() ? "" : "-") + with_plus(backends, [](const Backend &backend) { return backend.name; });
}

bool is_utf8(const std::string &text) {
    try {
        static_cast<void>(json(text).dump());
        return true;
    } catch (const json::exception &) {
        return false;
    }
}

json path_json(const std::string &path) {
    if (is_utf8(path)) {
        return path;
    }
    return {{"hex", core::hex(std::span(reinterpret_cast<const unsigned char *>(path.data()), path.size()))}};
}

json paths_json(const std::vector<std::string> &paths) {
    json list = json::array();
    for (const std::string &path : paths) {
        list.push_back(path_json(path));
    }
    return list;
}

std::string print(const Package &package, const keys::SecretKey *key, const std::vector<core::PublicKey> &recipients) {
    std::string payload = print_payload(package);
    json sealed = json::array();
    if (!recipients.empty()) {
        Encrypted encrypted = encrypt(payload, recipients);
        payload = std::move(encrypted.bytes);
        for (const SealedKey &one : encrypted.recipients) {
            sealed.push_back({{"key", one.key_id}, {"sealed", one.sealed}});
        }
    }
    json manifest = manifest_json(package);
    manifest["payload"] = {
        {"bytes", payload.size()}, {"sha256", core::hex(core::sha256_of(payload))}, {"recipients", std::move(sealed)}};
    return print_package(manifest.dump(1) + "\n", payload, key);
}

Taking take_all() {
    return {true, [](Attachment &one, std::string_view piece) { one.content += piece; }};
}

OpenedPackage open_manifest(const PackageFile &file, const Trust &trust) {
    OpenedPackage opened;
    opened.key = check_signature(file, trust);
    explained(file, [&] { read_manifest(file, opened); });
    return opened;
}

OpenedPackage open(const PackageFile &file, const Trust &trust, const keys::SecretKey *key, const Taking &taking) {
    OpenedPackage opened;
    opened.key = check_signature(file, trust);
    explained(file, [&] {
        PayloadSummary summary = read_manifest(file, opened);
        check_payload(summary, file.payload);
        if (opened.recipients.empty()) {
            read_payload(file.payload, opened.package, taking);
            opened.is_open = true;
        } else if (key != nullptr) {
            const Encrypted encrypted{std::move(summary.recipients), file.payload};
            read_payload(decrypt(encrypted, *key), opened.package, taking);
            opened.is_open = true;
        }
    });
    return opened;
}

} // namespace opdock::plugin_pack
