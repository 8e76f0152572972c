// What a package says and carries.
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
    std::string name;    // of the folder that its files come into
    std::string version; // as people call it; may be empty
    std::string format;  // what its repository calls objects by: "sha1", "sha256"
    Changes changes;
};

// A file beside the patches, where it is put when the package is installed.
struct Attachment {
    std::string kind; // "plugin", "manifest", "signature", "tune", "policy" or "license"
    std::string name; // "LICENSE", or in a folder "libacme/libacme.so"
    std::string content;
};

// What the plugins of a package ask of a host, as their notes say it: the most of each.
struct Abi {
    core::AbiVersion built_for;
    core::AbiVersion oldest_host;
};

struct Package {
    std::string device_type;        // "Acme_A100"
    std::vector<std::string> tasks; // of "train", "inference", "post_train", sorted
    uint64_t serial = 1;
    std::string message;
    std::string contact;
    std::vector<std::string> models;
    std::vector<Backend> backends; // by name
    std::optional<Abi> abi;        // nothing without plugins
    std::vector<Attachment> attachments;

    // "Acme_A1-inference+train-megatron+vllm": packages of one name replace each other, that of the highest serial is
    // the newest.
    std::string name() const;
};

inline constexpr const char *package_schema = "opdock.package/1";
inline constexpr uint64_t most_serial = uint64_t{1} << 53;

// [A-Z][A-Za-z0-9]*_[A-Za-z0-9]+
bool is_device_type(const std::string &text);
bool is_task(const std::string &text);
// The full id of an object of git, in a repository of the format 'sha1' or 'sha256'. Refuses others.
std::string id_of(const JsonValue &value, const std::string &format);
bool is_format(const std::string &text); // "sha1", "sha256"
// Letters, digits and ._- with none of those dots in front.
bool is_name(const std::string &text);
// What they are, for messages.
inline constexpr const char *expected_format = "'sha1' or 'sha256'";
inline constexpr const char *expected_name = "a name of letters, digits and ._-, and none of .- in front";

// An attachment has one or two names with a '/' between them. The first is none of those that an installed package has
// itself.
bool is_attachment_name(const std::string &text);
// Where hosts would find it, though it is listed as something else.
bool is_mistaken_for_plugin(const Attachment &attachment);
inline constexpr const char *expected_attachment_name =
    "a file's name, with at most one folder, whose first part is none of install's own names (opdock-installed.json, "
    "plugin.json, *.opdock)";
inline constexpr const char *installed_mark = "opdock-installed.json";
inline constexpr const char *package_ending = ".opdock";
inline constexpr const char *manifest_file = "plugin.json"; // of an attachment of that kind, and of no other

// The text of a package's file. `key` signs it; null: nobody does. With recipients, changes and attachments are for
// them alone to read; without, the same package and key make the same bytes.
std::string print(const Package &package, const keys::SecretKey *key,
                  const std::vector<core::PublicKey> &recipients = {});

struct OpenedPackage {
    Package package;
    std::optional<core::TrustedKey> key; // whose signature it is; nothing for nobody's
    std::vector<std::string> recipients; // ids of the keys that it is encrypted for; none: for nobody
    bool is_open = false;                // changes and attachments are there, and not still encrypted
};

// What becomes of what a package holds; all of it is checked in any case, and what is not taken is not kept in memory.
struct Taking {
    bool keeps_changes = false; // in the package: patches, and files that are carried as they are
    // Pieces of each attachment in turn, at least one of it, which may be empty. Not called: of none.
    std::function<void(Attachment &, std::string_view)> take_attachment;
};
Taking take_all(); // into the package

// Checks the signature, then the digest of the payload, then, where it can be read, of each member, then what it all
// says. `key` decrypts it; null: nobody does. Throws cli::Failure, but for a wrong key with exit_not_trusted.
OpenedPackage open(const PackageFile &file, const Trust &trust, const keys::SecretKey *key = nullptr,
                   const Taking &taking = take_all());

// The same for what a manifest says; `file` needs no payload. Changes and attachments are not there.
OpenedPackage open_manifest(const PackageFile &file, const Trust &trust);

// What JSON can hold.
bool is_utf8(const std::string &text);

// Paths may be any bytes, and JSON is UTF-8: text where they are that, else {"hex": "..."}.
nlohmann::json path_json(const std::string &path);
nlohmann::json paths_json(const std::vector<std::string> &paths);

} // namespace opdock::plugin_pack
