// Signatures of plugins, as stored in libacme.so.sig:
//
//     opdock.signature/1
//     library 9f86d081...               (SHA-256 of the library)
//     manifest -                        (SHA-256 of the plugin.json, or '-')
//     key 0123456789abcdef              (id of the key)
//     signature 6291d657...             (Ed25519, 128 digits of 0-9a-f)
//
// The signed text is the first four lines exactly as written, each with its line feed. Further signatures follow in the
// same format, one for each key.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "files/digest.hpp"
#include "trust/public_key.hpp"

namespace opdock::core {

struct FileSignature {
    Digest library{};
    std::optional<Digest> manifest;
    std::string key_id;
    std::array<unsigned char, 64> bytes{};
    std::size_t line = 1; // of its start

    // The first four lines.
    std::string signed_text() const;
    bool is_made_with(const PublicKey &key) const;
};

inline constexpr std::size_t most_signature_bytes = std::size_t{64} * 1024; // per file
inline constexpr std::size_t most_signatures = 64;                          // per file

// Returns at least one. `path` names the file in messages. Throws Error(OPDOCK_LOAD_FAILED).
std::vector<FileSignature> parse_signatures(std::string_view text, const std::string &path);
std::vector<FileSignature> read_signatures(const std::string &path);

// The content of their file.
std::string print(const std::vector<FileSignature> &signatures);

} // namespace opdock::core
