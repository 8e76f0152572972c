// A public key for checking signatures, as stored in NAME.pub:
//
//     opdock.public-key/1
//     name acme-2026
//     key 3b6a27bc...                   (Ed25519, 64 digits of 0-9a-f)
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace opdock::core {

inline constexpr std::size_t most_key_bytes = 4096; // per key file

struct PublicKey {
    std::string name;
    std::array<unsigned char, 32> bytes{};

    // The id of the key in signatures: the first 16 digits of the SHA-256 of its bytes.
    std::string id() const;
    // "key 'acme-2026' (0123456789abcdef)"
    std::string text() const;
};

// Letters, digits and ._@+-, at most 64.
bool is_key_name(std::string_view name);

// `path` names the file in messages. Throws Error(OPDOCK_LOAD_FAILED).
PublicKey parse_public_key(std::string_view text, const std::string &path);
PublicKey read_public_key(const std::string &path);

// The content of its file.
std::string print(const PublicKey &key);

} // namespace opdock::core
