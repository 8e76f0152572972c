// Encryption for a set of keys: a file key, sealed for each of them, and the bytes in pieces under the file key. The
// keys are the signing keys, converted to sealing keys (Ed25519 to X25519).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "keys/secret_key.hpp"
#include "trust/public_key.hpp"

namespace opdock::plugin_pack {

struct SealedKey {
    std::string key_id; // the recipient's key
    std::string sealed; // crypto_box_seal of the file key, in hexadecimal
};

struct Encrypted {
    std::vector<SealedKey> recipients;
    std::string bytes; // the header of a secretstream of XChaCha20 and Poly1305, then its pieces of 64 KiB and 17 bytes
};

// Not deterministic. Throws cli::Failure for an invalid key.
Encrypted encrypt(std::string_view plain, const std::vector<core::PublicKey> &recipients);

// Throws cli::Failure if the bytes are sealed for other keys, or were changed or truncated.
std::string decrypt(const Encrypted &encrypted, const keys::SecretKey &key);

} // namespace opdock::plugin_pack
