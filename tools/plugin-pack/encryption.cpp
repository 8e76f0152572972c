#include "encryption.hpp"

#include <algorithm>
#include <array>

#include "cli/exit.hpp"
#include "exit_codes.hpp"
#include "files/digest.hpp"
#include "text/spelling.hpp"

namespace opdock::plugin_pack {
namespace {

constexpr size_t piece_bytes = size_t{64} << 10;
constexpr size_t header_bytes = crypto_secretstream_xchacha20poly1305_HEADERBYTES;
constexpr size_t added_bytes = crypto_secretstream_xchacha20poly1305_ABYTES;
constexpr size_t key_bytes = crypto_secretstream_xchacha20poly1305_KEYBYTES;
using Sealed = std::array<unsigned char, key_bytes + crypto_box_SEALBYTES>;
using State = crypto_secretstream_xchacha20poly1305_state;

const unsigned char *bytes_of(std::string_view text) {
    return reinterpret_cast<const unsigned char *>(text.data());
}
unsigned char *bytes_of(std::string &text) {
    return reinterpret_cast<unsigned char *>(text.data());
}

SealedKey seal(const keys::Secret &file_key, const core::PublicKey &recipient) {
    std::array<unsigned char, crypto_box_PUBLICKEYBYTES> box_key{};
    Sealed sealed{};
    if (crypto_sign_ed25519_pk_to_curve25519(box_key.data(), recipient.bytes.data()) != 0 ||
        crypto_box_seal(sealed.data(), file_key.data(), file_key.size(), box_key.data()) != 0) {
        throw cli::Failure(recipient.text() + " is not a key that can be used for encryption");
    }
    return {recipient.id(), core::hex(sealed)};
}

keys::Secret unseal(const std::vector<SealedKey> &recipients, const keys::SecretKey &key) {
    const auto mine = std::find_if(recipients.begin(), recipients.end(),
                                   [&](const SealedKey &one) { return one.key_id == key.public_key.id(); });
    if (mine == recipients.end()) {
        std::string ids;
        for (const SealedKey &one : recipients) {
            ids += (ids.empty() ? "" : ", ") + core::visible_line(one.key_id);
        }
        throw cli::Failure("it is encrypted for other keys (" + ids + ") than " + key.public_key.text());
    }
    Sealed sealed{};
    std::array<unsigned char, crypto_box_PUBLICKEYBYTES> box_key{};
    keys::Secret secret(crypto_box_SECRETKEYBYTES);
    keys::Secret file_key(key_bytes);
    if (!core::parse_hex(mine->sealed, sealed) ||
        crypto_sign_ed25519_pk_to_curve25519(box_key.data(), key.public_key.bytes.data()) != 0 ||
        crypto_sign_ed25519_sk_to_curve25519(secret.data(), key.bytes.data()) != 0 ||
        crypto_box_seal_open(file_key.data(), sealed.data(), sealed.size(), box_key.data(), secret.data()) != 0) {
        throw cli::Failure("its key for " + key.public_key.text() + " cannot be opened", exit_not_trusted);
    }
    return file_key;
}

} // namespace

Encrypted encrypt(std::string_view plain, const std::vector<core::PublicKey> &recipients) {
    keys::Secret file_key(key_bytes);
    crypto_secretstream_xchacha20poly1305_keygen(file_key.data());
    Encrypted encrypted;
    for (const core::PublicKey &recipient : recipients) {
        encrypted.recipients.push_back(seal(file_key, recipient));
    }
    State state;
    encrypted.bytes.resize(header_bytes);
    crypto_secretstream_xchacha20poly1305_init_push(&state, bytes_of(encrypted.bytes), file_key.data());
    for (bool is_last = false; !is_last;) {
        const std::string_view piece = plain.substr(0, piece_bytes);
        plain.remove_prefix(piece.size());
        is_last = plain.empty();
        const size_t at = encrypted.bytes.size();
        encrypted.bytes.resize(at + piece.size() + added_bytes);
        crypto_secretstream_xchacha20poly1305_push(&state, bytes_of(encrypted.bytes) + at, nullptr, bytes_of(piece),
                                                   piece.size(), nullptr, 0,
                                                   is_last ? crypto_secretstream_xchacha20poly1305_TAG_FINAL
                                                           : crypto_secretstream_xchacha20poly1305_TAG_MESSAGE);
    }
    sodium_memzero(&state, sizeof state);
    return encrypted;
}

std::string decrypt(const Encrypted &encrypted, const keys::SecretKey &key) {
    const keys::Secret file_key = unseal(encrypted.recipients, key);
    const auto fail = [] { throw cli::Failure("its encrypted part was changed or is truncated", exit_not_trusted); };
    std::string_view rest = encrypted.bytes;
    State state;
    if (rest.size() < header_bytes ||
        crypto_secretstream_xchacha20poly1305_init_pull(&state, bytes_of(rest), file_key.data()) != 0) {
        fail();
    }
    rest.remove_prefix(header_bytes);
    std::string plain;
    plain.reserve(rest.size());
    unsigned char tag = 0;
    while (tag != crypto_secretstream_xchacha20poly1305_TAG_FINAL) {
        const std::string_view piece = rest.substr(0, piece_bytes + added_bytes);
        rest.remove_prefix(piece.size());
        if (piece.size() < added_bytes) {
            fail();
        }
        const size_t at = plain.size();
        plain.resize(at + piece.size() - added_bytes);
        if (crypto_secretstream_xchacha20poly1305_pull(&state, bytes_of(plain) + at, nullptr, &tag, bytes_of(piece),
                                                       piece.size(), nullptr, 0) != 0) {
            fail();
        }
    }
    sodium_memzero(&state, sizeof state);
    if (!rest.empty()) {
        fail();
    }
    return plain;
}

} // namespace opdock::plugin_pack
