// Signatures of plugins, for the tools that make them.
#pragma once

#include <optional>

#include "keys/secret_key.hpp"
#include "trust/file_signature.hpp"

namespace opdock::keys {

// Of a library, and of the plugin.json that it is found through, if there is one.
core::FileSignature sign_plugin(const core::Digest &library, const std::optional<core::Digest> &manifest,
                                const SecretKey &key);

} // namespace opdock::keys
