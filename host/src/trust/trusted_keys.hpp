// The keys whose signatures are trusted: *.pub in /etc/opdock/trust.d and in opdock/trust.d of the user's
// configuration.
#pragma once

#include <string>
#include <vector>

#include "files/path_rules.hpp"
#include "text/environment.hpp"
#include "trust/public_key.hpp"

namespace opdock::core {

inline constexpr const char *system_trust_folder = "/etc/opdock/trust.d";
inline constexpr std::size_t most_trusted_keys = 1000; // in a folder

struct TrustedKey {
    PublicKey key;
    std::string path;
};

struct TrustedKeys {
    std::vector<TrustedKey> keys;
    std::vector<std::string> warnings; // of files that are not used, and why
    std::vector<std::string> folders;  // that were looked into, for messages
};

// None of the user's in a process with raised privileges.
std::vector<std::string> trust_folders(const Environment &environment,
                                       const std::string &system_folder = system_trust_folder);

// In the order of the folders, by name. A folder need not exist; a file that others may write to, or that holds no key,
// is left out with a warning.
TrustedKeys read_trusted_keys(const std::vector<std::string> &folders, PathRules &rules);

} // namespace opdock::core
