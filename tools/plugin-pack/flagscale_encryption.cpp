#include "flagscale_encryption.hpp"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>

#include "cli/exit.hpp"
#include "cli/text_file.hpp"
#include "files/digest.hpp"
#include "keys/secret.hpp"

namespace opdock::plugin_pack {
namespace {

constexpr size_t start_bytes = 16; // initialization vector of AES-CBC
constexpr size_t aes_key_bytes = 32;

const unsigned char *bytes_of(std::string_view text) {
    return reinterpret_cast<const unsigned char *>(text.data());
}
unsigned char *bytes_of(std::string &text) {
    return reinterpret_cast<unsigned char *>(text.data());
}

// Refuses a key with a passphrase; by default OpenSSL would ask on the terminal.
int no_passphrase(char * /*buffer*/, int /*size*/, int /*is_for_writing*/, void * /*data*/) {
    return -1;
}

// Empty if it was sealed for another key.
keys::Secret open_aes_key(EVP_PKEY *key, std::string_view sealed) {
    const std::unique_ptr<EVP_PKEY_CTX, decltype(&EVP_PKEY_CTX_free)> context(EVP_PKEY_CTX_new(key, nullptr),
                                                                              EVP_PKEY_CTX_free);
    keys::Secret opened(sealed.size());
    size_t bytes = opened.size();
    const bool is_open = context != nullptr && EVP_PKEY_decrypt_init(context.get()) == 1 &&
                         EVP_PKEY_CTX_set_rsa_padding(context.get(), RSA_PKCS1_OAEP_PADDING) == 1 &&
                         EVP_PKEY_CTX_set_rsa_oaep_md(context.get(), EVP_sha256()) == 1 &&
                         EVP_PKEY_CTX_set_rsa_mgf1_md(context.get(), EVP_sha256()) == 1 &&
                         EVP_PKEY_decrypt(context.get(), opened.data(), &bytes, bytes_of(sealed), sealed.size()) == 1 &&
                         bytes == aes_key_bytes;
    ERR_clear_error();
    opened.shorten(is_open ? aes_key_bytes : 0);
    return opened;
}

} // namespace

FlagscaleKey::FlagscaleKey(const std::string &path) {
    constexpr size_t most = size_t{64} << 10;
    core::prepare_sodium();
    std::string text = cli::read_text(path, most);
    const std::unique_ptr<BIO, decltype(&BIO_free)> source(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())),
                                                           BIO_free);
    key_ = {PEM_read_bio_PrivateKey(source.get(), nullptr, no_passphrase, nullptr), EVP_PKEY_free};
    sodium_memzero(text.data(), text.size());
    ERR_clear_error();
    if (key_ == nullptr || EVP_PKEY_get_base_id(key_.get()) != EVP_PKEY_RSA) {
        throw cli::Failure(path +
                           ": expected the private_key.pem of FlagScale's --key-path: an RSA key in PEM, without "
                           "a passphrase");
    }
}

std::string FlagscaleKey::decrypt(std::string_view encrypted) const {
    const auto sealed_bytes = static_cast<size_t>(EVP_PKEY_get_size(key_.get()));
    if (encrypted.size() < start_bytes + sealed_bytes + start_bytes) {
        throw cli::Failure("it is too short for a patch that FlagScale encrypted for this key");
    }
    const keys::Secret aes_key = open_aes_key(key_.get(), encrypted.substr(start_bytes, sealed_bytes));
    if (aes_key.size() == 0) {
        throw cli::Failure("it is encrypted for another key, or damaged");
    }
    const std::string_view body = encrypted.substr(start_bytes + sealed_bytes);
    const std::unique_ptr<EVP_CIPHER_CTX, decltype(&EVP_CIPHER_CTX_free)> context(EVP_CIPHER_CTX_new(),
                                                                                  EVP_CIPHER_CTX_free);
    std::string patch(body.size() + start_bytes, '\0');
    int bytes = 0, last = 0;
    const bool is_whole =
        context != nullptr &&
        EVP_DecryptInit_ex(context.get(), EVP_aes_256_cbc(), nullptr, aes_key.data(), bytes_of(encrypted)) == 1 &&
        EVP_DecryptUpdate(context.get(), bytes_of(patch), &bytes, bytes_of(body), static_cast<int>(body.size())) == 1 &&
        EVP_DecryptFinal_ex(context.get(), bytes_of(patch) + bytes, &last) == 1;
    ERR_clear_error();
    if (!is_whole) {
        throw cli::Failure("it is damaged: it does not end like a file that FlagScale encrypted");
    }
    patch.resize(static_cast<size_t>(bytes) + static_cast<size_t>(last));
    return patch;
}

} // namespace opdock::plugin_pack
