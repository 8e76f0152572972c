// The findings of a host while it brought plugins in. A forked child starts with a new one and abandons the old.
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

// Findings while plugins were judged.
struct TrustMemory {
    PathRules rules;
    LibraryRules libraries;
    std::unordered_map<std::string, FileIdentity> library_files; // by path; empty identity: not there
    // The file that goes by a library's name ("": the system's), and the path of the plugin that needs it or is it.
    std::unordered_map<std::string, std::pair<std::string, std::string>> taken;
    std::set<std::string, std::less<>> blamed; // places that a warning was written of
    std::optional<TrustedKeys> keys;           // read when they are first needed
};

struct Loading {
    // Taken before the ledger's lock, by whoever loads plugins late; held while their entries run.
    std::mutex mutex;
    // Guarded by `mutex`, and by nothing while the host opens.
    LibraryVersions library_versions;
    HeldDirectories directories;
    Signatures signatures;
    TrustMemory trust;
    std::vector<Shutdown> shutdowns;                  // of what was registered in this process, in that order
    std::list<std::unique_ptr<Registrar>> registrars; // plugins may have kept their registries

    const Loading *of_parent = nullptr; // abandoned, and still pointed to: it is no leak
};

} // namespace opdock::core
