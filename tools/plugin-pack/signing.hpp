// Signers and recipients of the packages that are written.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "package.hpp"
#include "request.hpp"

namespace opdock::plugin_pack {

class Signing {
  public:
    // Reads the requested keys, and a passphrase. Throws cli::Failure.
    explicit Signing(const Request &request);

    // Signs the plugins of the package as well.
    std::string print(const Package &package) const;
    // "signed with key 'acme' (0123456789abcdef), encrypted"
    std::string text() const;

  private:
    std::optional<keys::SecretKey> key_;
    std::vector<core::PublicKey> recipients_;
};

} // namespace opdock::plugin_pack
