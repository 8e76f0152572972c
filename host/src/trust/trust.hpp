// Checks whether a plugin is signed with a trusted key.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "files/digest.hpp"
#include "trust/file_signature.hpp"
#include "trust/trusted_keys.hpp"

namespace opdock::core {

// Current files of a plugin.
struct SignedFiles {
    std::string name; // of the library, for messages
    Digest library{};
    std::optional<Digest> manifest; // set if a plugin.json named the library
    std::string signature;          // the path of its signatures
};

enum class SignatureState { valid, unknown_key, other_library, other_manifest, forged };

struct JudgedSignature {
    FileSignature signature;
    SignatureState state;
    const TrustedKey *key; // null if unknown; lives as long as the keys
};

// One state for each signature, in order. Without a manifest only the library is compared, whatever manifest was
// signed: a signature certifies that the library is its vendor's.
std::vector<JudgedSignature> judge_signatures(const SignedFiles &files, std::vector<FileSignature> signatures,
                                              const TrustedKeys &keys);

// Reads the signatures; returns the first key with a valid signature. Throws Rejected.
const TrustedKey &check_signatures(const SignedFiles &files, const TrustedKeys &keys);

// Like check_signatures, for signatures that have been judged.
const TrustedKey &check_judged(const SignedFiles &files, const std::vector<JudgedSignature> &judged,
                               const TrustedKeys &keys);

// Like check_signatures, throws Rejected if there are none or if they cannot be parsed.
std::vector<FileSignature> signatures_of(const SignedFiles &files);

} // namespace opdock::core
