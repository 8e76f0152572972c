// Whether a plugin is signed by a key that is trusted.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "files/digest.hpp"
#include "trust/file_signature.hpp"
#include "trust/trusted_keys.hpp"

namespace opdock::core {

// A plugin's files as they are now.
struct SignedFiles {
    std::string name; // of the library, for messages
    Digest library{};
    std::optional<Digest> manifest; // when a plugin.json named the library
    std::string signature;          // the path of its signatures
};

enum class SignatureState { valid, unknown_key, other_library, other_manifest, forged };

struct JudgedSignature {
    FileSignature signature;
    SignatureState state;
    const TrustedKey *key; // null when it is unknown; lives as long as the keys
};

// One state for each signature, in their order. Without a manifest the library alone counts, whatever manifest it was
// signed with: a signature says that the library is its vendor's.
std::vector<JudgedSignature> judge_signatures(const SignedFiles &files, std::vector<FileSignature> signatures,
                                              const TrustedKeys &keys);

// Reads the signatures; returns the first key with a valid one. Throws Rejected.
const TrustedKey &check_signatures(const SignedFiles &files, const TrustedKeys &keys);

// The same for signatures that were judged already.
const TrustedKey &check_judged(const SignedFiles &files, const std::vector<JudgedSignature> &judged,
                               const TrustedKeys &keys);

// Read as check_signatures does: throws Rejected when there are none or when they cannot be parsed.
std::vector<FileSignature> signatures_of(const SignedFiles &files);

} // namespace opdock::core
