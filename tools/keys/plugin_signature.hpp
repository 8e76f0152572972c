// Signatures of plugins, for the tools that create them.
#pragma once

#include <optional>

#include "keys/secret_key.hpp"
#include "trust/file_signature.hpp"

namespace opdock::keys {

// Signs a library, and the plugin.json through which hosts find it, if there is one.
core::FileSignature sign_plugin(const core::Digest &library, const std::optional<core::Digest> &manifest,
                                const SecretKey &key);

} // namespace opdock::keys
