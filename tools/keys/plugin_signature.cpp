#include "keys/plugin_signature.hpp"

namespace opdock::keys {

core::FileSignature sign_plugin(const core::Digest &library, const std::optional<core::Digest> &manifest,
                                const SecretKey &key) {
    core::FileSignature signature;
    signature.library = library;
    signature.manifest = manifest;
    signature.key_id = key.public_key.id();
    const std::string text = signature.signed_text();
    crypto_sign_detached(signature.bytes.data(), nullptr, reinterpret_cast<const unsigned char *>(text.data()),
                         text.size(), key.bytes.data());
    return signature;
}

} // namespace opdock::keys
