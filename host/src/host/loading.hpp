// Results that a host collects while it loads plugins. A forked child starts with a new one and abandons the old.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "files/file_identity.hpp"
#include "files/held_directory.hpp"
#include "files/path_rules.hpp"
#include "inspect/library_rules.hpp"
#include "inspect/library_versions.hpp"
#include "load/register.hpp"
#include "signature/signatures.hpp"
#include "trust/trusted_keys.hpp"

namespace opdock::core {

// Results of judging plugins.
struct TrustMemory {
    PathRules rules;
    LibraryRules libraries;
    std::unordered_map<std::string, FileIdentity> library_files; // by path; empty identity: file is missing
    // By library name: its file ("": the system's), and the path of the plugin that needs it or is it.
    std::unordered_map<std::string, std::pair<std::string, std::string>> taken;
    std::set<std::string, std::less<>> blamed; // places that were warned about
    std::optional<TrustedKeys> keys;           // read when first needed
};

struct Loading {
    // Taken before the ledger's lock, by threads that load plugins late; held while the plugins' entries run.
    std::mutex mutex;
    // Guarded by `mutex`, except while the host opens.
    LibraryVersions library_versions;
    HeldDirectories directories;
    Signatures signatures;
    TrustMemory trust;
    std::vector<Shutdown> shutdowns;                  // in order of registration in this process
    std::list<std::unique_ptr<Registrar>> registrars; // plugins may have kept their registries

    const Loading *of_parent = nullptr; // abandoned; pointed to so that it is not reported as a leak
};

} // namespace opdock::core
