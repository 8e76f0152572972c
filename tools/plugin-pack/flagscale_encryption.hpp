// Patches as FlagScale encrypts them (encryption_utils.py): the 16-byte initialization vector of AES-256-CBC, the AES
// key under RSA-OAEP with SHA-256 (512 bytes for FlagScale's RSA keys of 4,096 bits), and the patch, padded by PKCS #7.
// There is no signature: a changed file may decrypt to something else.
#pragma once

#include <memory>
#include <string>
#include <string_view>

using EVP_PKEY = struct evp_pkey_st; // from OpenSSL

namespace opdock::plugin_pack {

inline constexpr const char *flagscale_encrypted = ".encrypted"; // extension of such files

class FlagscaleKey {
  public:
    // Reads private_key.pem. Throws cli::Failure.
    explicit FlagscaleKey(const std::string &path);

    // Throws cli::Failure if the patch is encrypted for another key, or truncated.
    std::string decrypt(std::string_view encrypted) const;

  private:
    std::shared_ptr<EVP_PKEY> key_;
};

} // namespace opdock::plugin_pack
