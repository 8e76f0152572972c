// Trusted keys: *.pub in /etc/opdock/trust.d and in opdock/trust.d of the user's configuration
// folder.
#pragma once

#include <string>
#include <vector>

#include "files/path_rules.hpp"
#include "text/environment.hpp"
#include "trust/public_key.hpp"

namespace opdock::core {

inline constexpr const char *system_trust_folder = "/etc/opdock/trust.d";
inline constexpr std::size_t most_trusted_keys = 1000; // per folder

struct TrustedKey {
    PublicKey key;
    std::string path;
};

struct TrustedKeys {
    std::vector<TrustedKey> keys;
    std::vector<std::string> warnings; // about files that are not used, with the reason
    std::vector<std::string> folders;  // that were searched, for messages
};

// Omits the user's folder in a process with raised privileges.
std::vector<std::string> trust_folders(const Environment &environment,
                                       const std::string &system_folder = system_trust_folder);

// In the order of the folders, sorted by name within each. A folder need not exist. A file that others may write to, or
// that contains no key, is skipped with a warning.
TrustedKeys read_trusted_keys(const std::vector<std::string> &folders, PathRules &rules);

} // namespace opdock::core
