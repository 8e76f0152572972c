// Whose signatures a command line takes: --pub and --trusted, or whom a host trusts.
#pragma once

#include <string>
#include <vector>

#include "trust/trusted_keys.hpp"

namespace opdock::keys {

// The keys of these files; else those of the folder; else, where that is "", those of the usual folders.
core::TrustedKeys keys_to_trust(const std::vector<std::string> &public_keys, const std::string &folder);

} // namespace opdock::keys
