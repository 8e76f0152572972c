// A secret key, as stored in NAME.key:
//
//     opdock.secret-key/1
//     name acme-2026
//     public 3b6a27bc...
//     kdf argon2id 3 268435456          (passes and bytes of memory; or `kdf none` without a passphrase)
//     salt 5d1f...
//     nonce 8a0e...
//     secret 77c1...                    (Ed25519's seed in a secretbox of XSalsa20 and Poly1305; the seed itself
//                                       where there is no passphrase)
#pragma once

#include <functional>
#include <string>

#include "keys/secret.hpp"
#include "trust/public_key.hpp"

namespace opdock::keys {

struct SecretKey {
    core::PublicKey public_key;
    Secret bytes; // in the form that crypto_sign_detached takes
};

// Called if a passphrase is needed.
using AskPassphrase = std::function<Secret()>;

// Makes a new key. The text of its file is encrypted with the passphrase, unless that is null.
std::string make_secret_key(core::PublicKey &public_key, const Secret *passphrase);

// Throws cli::Failure if others may read the file, or if the passphrase is wrong.
SecretKey read_secret_key(const std::string &path, const AskPassphrase &ask);

} // namespace opdock::keys
