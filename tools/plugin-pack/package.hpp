// The contents of a package.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "archive.hpp"
#include "changes.hpp"
#include "inspect/note.hpp"
#include "package_file.hpp"

namespace opdock::plugin_pack {

class JsonValue;

// A repository that the vendor adapted.
struct Backend {
    std::string name;    // of the folder for its files
    std::string version; // as people call it; may be empty
    std::string format;  // object format of its repository: "sha1", "sha256"
    Changes changes;
};

// A file other than a patch, with its place in the installed package.
struct Attachment {
    std::string kind; // "plugin", "manifest", "signature", "tune", "policy" or "license"
    std::string name; // "LICENSE", or in a folder "libacme/libacme.so"
    std::string content;
};

// The plugins' requirements on a host, according to their notes: the maximum of each.
struct Abi {
    core::AbiVersion built_for;
    core::AbiVersion oldest_host;
};

struct Package {
    std::string device_type;        // "Acme_A100"
    std::vector<std::string> tasks; // from "train", "inference", "post_train", sorted
    uint64_t serial = 1;
    std::string message;
    std::string contact;
    std::vector<std::string> models;
    std::vector<Backend> backends; // sorted by name
    std::optional<Abi> abi;        // nothing without plugins
    std::vector<Attachment> attachments;

    // "Acme_A1-inference+train-megatron+vllm": packages of the same name replace each other, the one with the highest
    // serial is the newest.
    std::string name() const;
};

inline constexpr const char *package_schema = "opdock.package/1";
inline constexpr uint64_t most_serial = uint64_t{1} << 53;

// [A-Z][A-Za-z0-9]*_[A-Za-z0-9]+
bool is_device_type(const std::string &text);
bool is_task(const std::string &text);
// The full id of a git object, in a repository of the format 'sha1' or 'sha256'. Throws for any other value.
std::string id_of(const JsonValue &value, const std::string &format);
bool is_format(const std::string &text); // "sha1", "sha256"
// Letters, digits and ._-, without '.' or '-' at the beginning.
bool is_name(const std::string &text);
// Their descriptions, for messages.
inline constexpr const char *expected_format = "'sha1' or 'sha256'";
inline constexpr const char *expected_name = "a name of letters, digits and ._-, not starting with . or -";

// An attachment has one name, or two separated by '/'. The first must differ from the names of files that install
// itself writes.
bool is_attachment_name(const std::string &text);
// True if hosts would take it for a plugin, though it is listed as something else.
bool is_mistaken_for_plugin(const Attachment &attachment);
inline constexpr const char *expected_attachment_name = "a file's name, with at most one folder, whose first part is "
                                                        "not one of install's own names (opdock-installed.json, "
                                                        "plugin.json, *.opdock)";
inline constexpr const char *installed_mark = "opdock-installed.json";
inline constexpr const char *package_ending = ".opdock";
inline constexpr const char *manifest_file = "plugin.json"; // name of manifests, and of no other attachment

// The text of a package's file. `key` signs it; null: not signed. With recipients, only they can read changes and
// attachments; without, the output is deterministic for a package and key.
std::string print(const Package &package, const keys::SecretKey *key,
                  const std::vector<core::PublicKey> &recipients = {});

struct OpenedPackage {
    Package package;
    std::optional<core::TrustedKey> key; // key of the signature; nothing for an unsigned package
    std::vector<std::string> recipients; // ids of the keys for which it is encrypted; empty: not encrypted
    bool is_open = false;                // changes and attachments are present, not still encrypted
};

// Use of the payload: all of it is verified in any case; parts that are not taken are not kept in memory.
struct Taking {
    bool keeps_changes = false; // in the package: patches, and whole files
    // Receives each attachment in turn, in one or more pieces, which may be empty. Without it, none are kept.
    std::function<void(Attachment &, std::string_view)> take_attachment;
};
Taking take_all(); // keeps everything in the package

// Verifies the signature, the digest of the payload, then, if readable, of each member, and the meaning of all. `key`
// decrypts; null: none. Throws cli::Failure, with exit_not_trusted except for a wrong key.
OpenedPackage open(const PackageFile &file, const Trust &trust, const keys::SecretKey *key = nullptr,
                   const Taking &taking = take_all());

// The same for the manifest; `file` needs no payload. Changes and attachments are absent.
OpenedPackage open_manifest(const PackageFile &file, const Trust &trust);

// True if JSON can represent the text.
bool is_utf8(const std::string &text);

// A path as JSON: paths may be any bytes, so a string if it is UTF-8, else {"hex": "..."}.
nlohmann::json path_json(const std::string &path);
nlohmann::json paths_json(const std::vector<std::string> &paths);

} // namespace opdock::plugin_pack
