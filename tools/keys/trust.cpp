#include "keys/trust.hpp"

#include "text/environment.hpp"

namespace opdock::keys {

core::TrustedKeys keys_to_trust(const std::vector<std::string> &public_keys, const std::string &folder) {
    if (public_keys.empty()) {
        core::PathRules rules;
        return core::read_trusted_keys(
            folder.empty() ? core::trust_folders(core::capture_environment("PLUGIN_")) : std::vector{folder}, rules);
    }
    core::TrustedKeys keys;
    for (const std::string &path : public_keys) {
        keys.keys.push_back({core::read_public_key(path), path});
        keys.folders.push_back(path);
    }
    return keys;
}

} // namespace opdock::keys
