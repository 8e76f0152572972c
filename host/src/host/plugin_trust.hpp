// Decides whether a plugin may be used, by its location and its signature. Hosts ask before they
// believe anything in its file, and so does `plugin-ls --check`.
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

// A place that somebody else could put code into.
struct UnsafePlace {
    std::string place;
    std::string what; // a sentence without its beginning, with a remedy
    bool is_file = false;

    // "'libacme.so' is not used, as somebody else ..."
    Rejected rejection(const std::string &path) const;
    // "'libacme.so' is used, though somebody else ..."
    std::string warning(const std::string &path) const;
};

// `status`: as in PathRules::judge.
std::optional<UnsafePlace> judge_place(const std::string &path, const struct stat *status, PathRules &rules);

// True if an unsafe place keeps a plugin out: where others may write, a signed file may be replaced
// between being judged and being opened.
bool refuses_unsafe_places(bool strict, const TrustPolicy &trust);

// The policy's verdict on one plugin.
struct TrustVerdict {
    bool is_trusted = false;
    std::string why; // for the log, or a warning
};

// Judges by digest or signature; not to be called if trust is off. `keys` is called when they are
// needed. Throws Rejected if trust is required and missing.
TrustVerdict judge_signature(const PluginCandidate &candidate, const Digest &library, const TrustPolicy &trust,
                             const std::function<const TrustedKeys &()> &keys);

} // namespace opdock::core
