// Bytes that only some keys open: a file key, sealed for each of them, and the bytes in pieces under it. The keys are
// those that sign, turned into keys for sealing (Ed25519 into X25519).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "keys/secret_key.hpp"
#include "trust/public_key.hpp"

namespace opdock::plugin_pack {

struct SealedKey {
    std::string key_id; // whose it is
    std::string sealed; // crypto_box_seal of the file key, in hexadecimal
};

struct Encrypted {
    std::vector<SealedKey> recipients;
    std::string bytes; // the header of a secretstream of XChaCha20 and Poly1305, then its pieces of 64 KiB and 17 bytes
};

// Other bytes each time. Throws cli::Failure for a key that is none.
Encrypted encrypt(std::string_view plain, const std::vector<core::PublicKey> &recipients);

// Throws cli::Failure when it is sealed for other keys, or was changed or cut.
std::string decrypt(const Encrypted &encrypted, const keys::SecretKey &key);

} // namespace opdock::plugin_pack
