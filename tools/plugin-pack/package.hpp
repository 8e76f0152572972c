// What a package says and carries.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "archive.hpp"
#include "changes.hpp"
#include "package_file.hpp"

namespace opdock::plugin_pack {

// A repository that the vendor adapted.
struct Backend {
    std::string name;    // of the folder that its files come into
    std::string version; // as people call it; may be empty
    std::string format;  // what its repository calls objects by: "sha1", "sha256"
    Changes changes;
};

// A file beside the patches: a plugin, its tune file, a policy, a license.
struct Attachment {
    std::string kind; // "plugin", "tune", "policy" or "license"
    std::string name; // without folders
    std::string content;
};

struct Package {
    std::string device_type;        // "Acme_A100"
    std::vector<std::string> tasks; // of "train", "inference", "post_train", sorted
    uint64_t serial = 1;
    std::string message;
    std::string contact;
    std::vector<std::string> models;
    std::vector<Backend> backends; // by name
    std::vector<Attachment> attachments;
};

inline constexpr const char *package_schema = "opdock.package/1";
inline constexpr uint64_t most_serial = uint64_t{1} << 53;

// [A-Z][A-Za-z0-9]*_[A-Za-z0-9]+
bool is_device_type(const std::string &text);
bool is_task(const std::string &text);
// Letters, digits and ._- with none of those dots in front.
bool is_name(const std::string &text);

// The text of a package's file. `key` signs it; null: nobody does. With recipients, changes and attachments are for
// them alone to read; without, the same package and key make the same bytes.
std::string print(const Package &package, const keys::SecretKey *key,
                  const std::vector<core::PublicKey> &recipients = {});

struct OpenedPackage {
    Package package;
    const core::TrustedKey *key = nullptr; // whose signature it is; null for nobody's
    std::vector<std::string> recipients;   // ids of the keys that it is encrypted for; none: for nobody
    bool is_open = true;                   // false: changes and attachments are still encrypted, and not there
};

// Checks the signature, then the digest of the payload, then, where it can be read, of each member, then what it all
// says. `key` decrypts it; null: nobody does. Throws cli::Failure, but for a wrong key with exit_not_trusted.
OpenedPackage open(const PackageFile &file, const Trust &trust, const keys::SecretKey *key = nullptr);

// Paths may be any bytes, and JSON is UTF-8: text where they are that, else {"hex": "..."}.
nlohmann::json path_json(const std::string &path);

} // namespace opdock::plugin_pack
