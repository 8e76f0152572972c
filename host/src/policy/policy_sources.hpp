// Reads the policy from all sources outside the program.
#pragma once

#include <string>
#include <vector>

#include "policy/policy_stack.hpp"
#include "text/environment.hpp"

namespace opdock::core {

inline constexpr const char *system_policy_file = "/etc/opdock/policy.yaml";

struct LoadedPolicy {
    PolicyStack stack; // with enforce, environment, config and system; the program sets the rest
    std::vector<std::string> warnings;
};

// Throws Error(OPDOCK_INVALID_POLICY) if a source is invalid, for an unknown key that may be meant to enforce
// something, and for any unknown key if the result is strict; nothing is changed then, so that a failed reload leaves
// the old policy in force. `system_file` need not exist.
LoadedPolicy load_policy(const Environment &environment, const std::string &system_file = system_policy_file);

} // namespace opdock::core
