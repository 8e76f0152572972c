#include "host/plugin_trust.hpp"

#include <algorithm>
#include <filesystem>

#include <spdlog/fmt/fmt.h>

namespace opdock::core {
namespace {

std::string name_of(const std::string &path) {
    return std::filesystem::path(path).filename().string();
}

// Appends the source of the decision, so that readers know what to change.
std::string decided_by(const std::string &what, const std::string &source) {
    return fmt::format("{}\nTrust is decided by {}.", what, source);
}

} // namespace

Rejected UnsafePlace::rejection(const std::string &path) const {
    return {RejectCode::unsafe_place, fmt::format("'{}' is not used, because {}", name_of(path), what)};
}

std::string UnsafePlace::warning(const std::string &path) const {
    return fmt::format("'{}' is used, though {}", name_of(path), what);
}

std::optional<UnsafePlace> judge_place(const std::string &path, const struct stat *status, PathRules &rules) {
    const auto fault = rules.judge(path, status);
    if (!fault) {
        return std::nullopt;
    }
    return UnsafePlace{
        fault->place,
        fmt::format("somebody else could put code into it: {}.\nExpected that only root and the user who runs this "
                    "process may write there. Run `{}`, or install the plugin elsewhere.",
                    fault->what, fault->remedy),
        fault->is_file};
}

bool refuses_unsafe_places(bool strict, const TrustPolicy &trust) {
    return strict || trust.mode == Trust::require;
}

TrustVerdict judge_signature(const PluginCandidate &candidate, const Digest &library, const TrustPolicy &trust,
                             const std::function<const TrustedKeys &()> &keys) {
    const std::string digest = hex(library);
    if (trust.digests != nullptr &&
        std::find(trust.digests->begin(), trust.digests->end(), digest) != trust.digests->end()) {
        return {true, fmt::format("its SHA-256 is listed by {}", trust.digests_source)};
    }
    SignedFiles files;
    files.name = name_of(candidate.path);
    files.library = library;
    if (!candidate.manifest.empty()) {
        files.manifest = candidate.manifest_digest;
    }
    files.signature = candidate.signature.empty() ? candidate.path + ".sig" : candidate.signature;
    try {
        const TrustedKey &key = check_signatures(files, keys());
        return {true, fmt::format("signed with {} of '{}'", key.key.text(), key.path)};
    } catch (const Rejected &rejected) {
        const std::string what = decided_by(rejected.what(), trust.source);
        if (trust.mode == Trust::require) {
            throw Rejected(rejected.code(), what);
        }
        return {false, what};
    }
}

} // namespace opdock::core
