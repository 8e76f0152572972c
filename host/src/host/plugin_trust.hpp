// Whether one plugin may be used: by where it lies and by who signed it. Hosts ask before they believe anything of its
// file, and so does `plugin-ls --check`.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include <sys/stat.h>

#include "files/path_rules.hpp"
#include "files/reject.hpp"
#include "inspect/search.hpp"
#include "policy/policy_stack.hpp"
#include "trust/trust.hpp"

namespace opdock::core {

// Somebody else could put code into a place.
struct UnsafePlace {
    std::string place;
    std::string what; // a sentence without its beginning, with what to do
    bool is_file = false;

    // "'libacme.so' is not used, as somebody else ..."
    Rejected rejection(const std::string &path) const;
    // "'libacme.so' is used, though somebody else ..."
    std::string warning(const std::string &path) const;
};

// `status` as PathRules::judge has it.
std::optional<UnsafePlace> judge_place(const std::string &path, const struct stat *status, PathRules &rules);

// Whether a place that is not safe keeps a plugin out: where others may write, what was signed may be replaced between
// being judged and being opened.
bool refuses_unsafe_places(bool strict, const TrustPolicy &trust);

// What the policy says of one plugin.
struct TrustVerdict {
    bool is_trusted = false;
    std::string why; // for the log, or a warning
};

// By digest or signature; not to be asked where trust is off. `keys` is called when they are needed. Throws Rejected
// where trust is required.
TrustVerdict judge_signature(const PluginCandidate &candidate, const Digest &library, const TrustPolicy &trust,
                             const std::function<const TrustedKeys &()> &keys);

} // namespace opdock::core
