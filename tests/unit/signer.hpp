// Somebody who signs plugins.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <sodium.h>

#include "trust/file_signature.hpp"

namespace opdock::test {

inline std::string content_of(const std::filesystem::path &file) {
    std::ifstream stream(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
}

inline void write_file(const std::filesystem::path &file, const std::string &text) {
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary | std::ios::trunc)
        .write(text.data(), static_cast<std::streamsize>(text.size()));
}

class Signer {
  public:
    explicit Signer(const std::string &name) {
        core::prepare_sodium();
        key_.name = name;
        crypto_sign_keypair(key_.bytes.data(), secret_.data());
    }

    const core::PublicKey &key() const { return key_; }

    core::FileSignature sign(const core::Digest &library, std::optional<core::Digest> manifest = {}) const {
        core::FileSignature signature;
        signature.library = library;
        signature.manifest = manifest;
        signature.key_id = key_.id();
        const std::string text = signature.signed_text();
        crypto_sign_detached(signature.bytes.data(), nullptr, reinterpret_cast<const unsigned char *>(text.data()),
                             text.size(), secret_.data());
        return signature;
    }
    core::FileSignature sign_file(const std::filesystem::path &library) const {
        return sign(core::sha256_of(content_of(library)));
    }
    core::FileSignature sign_files(const std::filesystem::path &library, const std::filesystem::path &manifest) const {
        return sign(core::sha256_of(content_of(library)), core::sha256_of(content_of(manifest)));
    }

  private:
    core::PublicKey key_;
    std::array<unsigned char, crypto_sign_SECRETKEYBYTES> secret_{};
};

} // namespace opdock::test
