// A package as it stands in its file:
//
//     opdock.package/1
//     key 0123456789abcdef               (id of the key, or '-')
//     signature 6291d657...              (Ed25519, 128 digits of 0-9a-f, or '-')
//     manifest 1234                      (bytes)
//
// then the manifest, JSON of so many bytes, and behind it to the end of the file the payload (archive.hpp), whose
// length and SHA-256 stand in the manifest. What is signed are the first two lines and "manifest " with the SHA-256 of
// the manifest, each with its line feed. Nothing of the manifest is parsed, and nothing of the payload touched, before
// the signature was found to hold.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "keys/secret_key.hpp"
#include "trust/trusted_keys.hpp"

namespace opdock::plugin_pack {

struct PackageFile {
    std::string path; // for messages
    std::string key_id;
    std::optional<std::array<unsigned char, 64>> signature;
    std::string manifest;
    std::string payload;

    // As the file has it.
    std::string text() const;
};

inline constexpr size_t most_package_bytes = size_t{5} << 30;

// The text of a file. `key` may be null: nobody vouches for it.
std::string print_package(const std::string &manifest, const std::string &payload, const keys::SecretKey *key);

// Throws cli::Failure with exit_not_trusted when it is no whole package.
PackageFile parse_package(std::string text, const std::string &path);
PackageFile read_package(const std::string &path);
// All but the payload, without reading that.
PackageFile read_package_head(const std::string &path);

// Whose keys count, and whether a package that nobody signed does.
struct Trust {
    core::TrustedKeys keys;
    bool allow_unsigned = false;
};

// The key that signed it; nothing where nobody did and that is allowed. Throws cli::Failure with exit_not_trusted.
std::optional<core::TrustedKey> check_signature(const PackageFile &file, const Trust &trust);

} // namespace opdock::plugin_pack
