// Patches as FlagScale encrypts them (encryption_utils.py): 16 bytes that AES-256-CBC begins with, the AES key under
// RSA-OAEP with SHA-256 (512 bytes for the RSA keys of 4,096 bits that FlagScale makes), and the patch, padded by
// PKCS #7. Nobody signs them: one that was changed may decrypt to something else.
#pragma once

#include <memory>
#include <string>
#include <string_view>

using EVP_PKEY = struct evp_pkey_st; // of OpenSSL

namespace opdock::plugin_pack {

inline constexpr const char *flagscale_encrypted = ".encrypted"; // how their files end

class FlagscaleKey {
  public:
    // Of private_key.pem. Throws cli::Failure.
    explicit FlagscaleKey(const std::string &path);

    // Throws cli::Failure when it is encrypted for another key, or was cut.
    std::string decrypt(std::string_view encrypted) const;

  private:
    std::shared_ptr<EVP_PKEY> key_;
};

} // namespace opdock::plugin_pack
