// Policy files.
//
//     prefer: vendor
//     strict: false
//     deny_vendors: [acme]
//     per_op:
//       rmsnorm_fwd: [vendor:beta, default]
//     require: [deterministic, gelu: batch_invariant]
//     trust: require
//     trusted_sha256: [9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08]
//     default_plugins: [flagos]
//     devices:
//       cuda:0: {strict: true}
//     enforce:                  # /etc/opdock/policy.yaml only
//       allow_vendors: [beta]
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "policy/policy.hpp"

namespace opdock::core {

struct PolicyFile {
    Policy policy;
    Policy enforce;
    // "FILE:LINE:COLUMN: unknown key 'x'; did you mean 'y'?": for the caller to log, or to refuse in strict mode.
    std::vector<std::string> unknown_keys;
    // Those unknown keys that may be meant to enforce something: in a file that may have `enforce`, keys at its top
    // level and inside `enforce`.
    std::vector<std::string> unknown_enforced;
};

// Permission for an `enforce` section, which is an unknown key in other files.
enum class Enforce { refuse, accept };

// `name` denotes the file in messages and sources. Throws Error(OPDOCK_INVALID_POLICY).
PolicyFile parse_policy_file(std::string_view text, const std::string &name, Enforce enforce);

PolicyFile read_policy_file(const std::string &path, Enforce enforce);

} // namespace opdock::core
