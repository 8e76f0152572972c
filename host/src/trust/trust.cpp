#include "trust/trust.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include "files/reject.hpp"
#include "text/error.hpp"

namespace opdock::core {
namespace {

JudgedSignature judge(const SignedFiles &files, FileSignature signature, const TrustedKeys &keys) {
    const auto trusted = std::find_if(keys.keys.begin(), keys.keys.end(),
                                      [&](const TrustedKey &one) { return one.key.id() == signature.key_id; });
    if (trusted == keys.keys.end()) {
        return {std::move(signature), SignatureState::unknown_key, nullptr};
    }
    // First check that the signature is genuine: otherwise it proves nothing about any file.
    const SignatureState state = !signature.is_made_with(trusted->key) ? SignatureState::forged
                                 : signature.library != files.library  ? SignatureState::other_library
                                 : files.manifest && signature.manifest != files.manifest
                                     ? SignatureState::other_manifest
                                     : SignatureState::valid;
    return {std::move(signature), state, &*trusted};
}

std::string why_invalid(const SignedFiles &files, const JudgedSignature &judged) {
    const FileSignature &signature = judged.signature;
    const std::string place = fmt::format("{}:{}", files.signature, signature.line);
    const std::string key = judged.key->key.text();
    switch (judged.state) {
    case SignatureState::other_library:
        return fmt::format("'{}' is not the file that {} signed ({}).\nExpected SHA-256 {}, found {}.\nThe library was "
                           "changed or replaced after it was signed: install it again together with its signature.",
                           files.name, key, place, hex(signature.library), hex(files.library));
    case SignatureState::other_manifest:
        if (!signature.manifest) {
            return fmt::format(
                "'{}' was found through a plugin.json, but {} signed only the library ({}).\nExpected a signature of "
                "both. Have the vendor run `plugin-sign sign plugin.json`, or name the library itself.",
                files.name, key, place);
        }
        return fmt::format("'{}' was found through a plugin.json other than the one that {} signed ({}).\nExpected a "
                           "plugin.json with SHA-256 {}, found {}.\nInstall the one that belongs to the signature.",
                           files.name, key, place, hex(*signature.manifest), hex(*files.manifest));
    default:
        return fmt::format("'{}': the signature of {} is wrong ({}).\nExpected a signature that matches the four lines "
                           "above it. The signature file was changed: install it again.",
                           files.name, key, place);
    }
}

} // namespace

std::vector<JudgedSignature> judge_signatures(const SignedFiles &files, std::vector<FileSignature> signatures,
                                              const TrustedKeys &keys) {
    std::vector<JudgedSignature> judged;
    judged.reserve(signatures.size());
    for (FileSignature &signature : signatures) {
        judged.push_back(judge(files, std::move(signature), keys));
    }
    return judged;
}

std::vector<FileSignature> signatures_of(const SignedFiles &files) {
    struct stat status = {};
    if (::stat(files.signature.c_str(), &status) != 0) {
        throw Rejected(
            RejectCode::unsigned_,
            fmt::format("'{}' is not signed: expected its signature in '{}', but there is no such file.\nAsk its "
                        "vendor for a signature. opdock's own plugins have none: sign them, and what you built "
                        "yourself, with a key of your own (docs/trust.md). Or, if you know that this is the file it "
                        "should be, list its SHA-256 under trusted_sha256 of a policy file: {}",
                        files.name, files.signature, hex(files.library)));
    }
    try {
        return read_signatures(files.signature);
    } catch (const Error &error) {
        throw Rejected(
            RejectCode::signature_invalid,
            fmt::format("the signature of '{}' cannot be read: {}.\nInstall the signature file again, or have "
                        "the vendor run `plugin-sign sign`.",
                        files.name, error.what()));
    }
}

const TrustedKey &check_judged(const SignedFiles &files, const std::vector<JudgedSignature> &judged,
                               const TrustedKeys &keys) {
    const auto with = [&](auto is_so) { return std::find_if(judged.begin(), judged.end(), is_so); };
    const auto valid = with([](const JudgedSignature &one) { return one.state == SignatureState::valid; });
    if (valid != judged.end()) {
        return *valid->key;
    }
    const auto invalid = with([](const JudgedSignature &one) { return one.state != SignatureState::unknown_key; });
    if (invalid != judged.end()) {
        throw Rejected(RejectCode::signature_invalid, why_invalid(files, *invalid));
    }
    std::vector<std::string> ids;
    ids.reserve(judged.size());
    for (const JudgedSignature &one : judged) {
        ids.push_back(one.signature.key_id);
    }
    throw Rejected(
        RejectCode::untrusted_key,
        fmt::format(
            "'{}' is signed with {} {}, but none of the {} trusted keys matches.\nExpected a key in {}. If you trust "
            "its vendor, get the key from them (not from where the plugin came from) and put NAME.pub there.",
            files.name, ids.size() == 1 ? "key" : "keys", fmt::join(ids, ", "), keys.keys.size(),
            fmt::join(keys.folders, " or ")));
}

const TrustedKey &check_signatures(const SignedFiles &files, const TrustedKeys &keys) {
    return check_judged(files, judge_signatures(files, signatures_of(files), keys), keys);
}

} // namespace opdock::core
