// A package as stored in its file:
//
//     opdock.package/1
//     key 0123456789abcdef               (id of the key, or '-')
//     signature 6291d657...              (Ed25519, 128 digits of 0-9a-f, or '-')
//     manifest 1234                      (bytes)
//
// then the manifest, JSON of that many bytes, and to the end of the file the payload (archive.hpp), whose length and
// SHA-256 are in the manifest. The signed bytes are the first two lines and "manifest " with the SHA-256 of the
// manifest, each with its line feed. The manifest is not parsed, and the payload not touched, before the signature is
// verified.
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

    // The text of the file.
    std::string text() const;
};

inline constexpr size_t most_package_bytes = size_t{5} << 30;

// The text of a file. `key` may be null: then the package is unsigned.
std::string print_package(const std::string &manifest, const std::string &payload, const keys::SecretKey *key);

// Throws cli::Failure with exit_not_trusted if it is not a complete package.
PackageFile parse_package(std::string text, const std::string &path);
PackageFile read_package(const std::string &path);
// Everything but the payload, which is not read.
PackageFile read_package_head(const std::string &path);

// The trusted keys, and whether an unsigned package is accepted.
struct Trust {
    core::TrustedKeys keys;
    bool allow_unsigned = false;
};

// The key of the signature; nothing for an unsigned package, if allowed. Throws cli::Failure with exit_not_trusted.
std::optional<core::TrustedKey> check_signature(const PackageFile &file, const Trust &trust);

} // namespace opdock::plugin_pack
