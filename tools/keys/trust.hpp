// The keys whose signatures a command line accepts: those of --pub and --trusted, or those that a host trusts.
#pragma once

#include <string>
#include <vector>

#include "trust/trusted_keys.hpp"

namespace opdock::keys {

// The keys in `public_keys`; if there are none, those in `folder`; if that is "", those in the default folders.
core::TrustedKeys keys_to_trust(const std::vector<std::string> &public_keys, const std::string &folder);

} // namespace opdock::keys
