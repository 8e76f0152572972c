// Which plugins a host trusts: judged before anything of their files is believed, and before any of their code runs.
#include <algorithm>
#include <utility>

#include <spdlog/fmt/fmt.h>

#include "host/host.hpp"
#include "load/load.hpp"
#include "trust/trust.hpp"

namespace opdock::core {
namespace {

// Who decided, so that whoever reads it knows what to change.
std::string decided_by(const std::string &what, const std::string &source) {
    return fmt::format("{}\nTrust is decided by {}.", what, source);
}

} // namespace

void Host::judge_place(const std::string &path, const struct stat *status, bool refuse, PluginRecord &record) {
    TrustMemory &memory = ledger().trust;
    const auto fault = memory.rules.judge(path, status);
    if (!fault) {
        return;
    }
    const std::string name = std::filesystem::path(path).filename().string();
    const std::string what =
        fmt::format("somebody else could put code into it: {}.\nExpected that only root and the user who runs this "
                    "process may write there. Run `{}`, or install the plugin elsewhere.",
                    fault->what, fault->remedy);
    if (refuse) {
        throw Rejected(RejectCode::unsafe_place, fmt::format("'{}' is not used, as {}", name, what));
    }
    const bool is_new = memory.blamed.insert(fault->place).second;
    if (fault->is_file) {
        record.warnings.push_back(fmt::format("'{}' is used, though {}", name, what));
    } else if (is_new) {
        log_.warning(fmt::format("Plugins such as '{}' are used, though {}", path, what));
    }
}

void Host::judge_trust(const PluginCandidate &candidate, const DeferredPlugin::Place &place, PluginRecord &record) {
    const PolicyStack policy = process_policy();
    const TrustPolicy trust = policy.trust();
    // Where others may write, what was signed may be replaced between being judged and being opened.
    const bool strict_place = policy.strict() || trust.mode == Trust::require;
    judge_place(candidate.path, candidate.status ? &*candidate.status : nullptr, strict_place, record);
    if (!candidate.manifest.empty()) {
        judge_place(candidate.manifest, nullptr, strict_place, record);
    }
    if (trust.mode == Trust::off || place.identity == FileIdentity{}) {
        return;
    }
    SignedFiles files;
    files.name = place.name;
    {
        const PluginFile file(*place.directory, place.name);
        if (file.identity() != place.identity) {
            throw Rejected(RejectCode::file_changed, changed_since_judged(candidate.path).message);
        }
        files.library = sha256_of(file);
    }
    if (!candidate.manifest.empty()) {
        files.manifest = candidate.manifest_digest;
    }
    files.signature = candidate.signature.empty() ? candidate.path + ".sig" : candidate.signature;
    const std::string digest = hex(files.library);
    if (trust.digests != nullptr &&
        std::find(trust.digests->begin(), trust.digests->end(), digest) != trust.digests->end()) {
        log_.debug(
            fmt::format("Plugin '{}' is trusted: its SHA-256 is listed by {}", candidate.path, trust.digests_source));
        return;
    }
    try {
        const TrustedKey &key = check_signatures(files, trusted_keys());
        log_.debug(
            fmt::format("Plugin '{}' is trusted: signed with {} of '{}'", candidate.path, key.key.text(), key.path));
    } catch (const Rejected &rejected) {
        const std::string what = decided_by(rejected.what(), trust.source);
        if (trust.mode == Trust::require) {
            throw Rejected(rejected.code(), what);
        }
        record.warnings.push_back(what);
    }
}

const TrustedKeys &Host::trusted_keys() {
    TrustMemory &memory = ledger().trust;
    if (!memory.keys) {
        memory.keys = read_trusted_keys(trust_folders(environment_, system_trust_folder_), memory.rules);
        for (const std::string &warning : memory.keys->warnings) {
            log_.warning(warning);
        }
    }
    return *memory.keys;
}

} // namespace opdock::core
