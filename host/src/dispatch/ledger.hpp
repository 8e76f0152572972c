// What a host has learned and made while running: everything that is not an immutable published value. A forked child
// starts with a new one and abandons the old, whose lock some thread of the parent may have held.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "dispatch/chain.hpp"
#include "dispatch/deployment.hpp"
#include "dispatch/memo.hpp"
#include "files/file_identity.hpp"
#include "files/held_directory.hpp"
#include "files/path_rules.hpp"
#include "inspect/library_rules.hpp"
#include "inspect/library_versions.hpp"
#include "load/register.hpp"
#include "probe/journal.hpp"
#include "signature/signatures.hpp"
#include "trust/trusted_keys.hpp"
#include "tune/plugin_tuning.hpp"

namespace opdock::core {

// Ops by name. Immutable.
using NameTable = std::unordered_map<std::string_view, OpEntry *>;

// How many devices a provider has.
struct DeviceCount {
    int32_t count = 0;
    std::string reason; // why it could not say
};

// What was found out while plugins were judged.
struct TrustMemory {
    PathRules rules;
    LibraryRules libraries;
    std::unordered_map<std::string, FileIdentity> library_files; // by path; empty identity: not there
    // The file that goes by a library's name ("": the system's), and the path of the plugin that needs it or is it.
    std::unordered_map<std::string, std::pair<std::string, std::string>> taken;
    std::set<std::string, std::less<>> blamed; // places that a warning was written of
    std::optional<TrustedKeys> keys;           // read when they are first needed
};

struct Ledger {
    explicit Ledger(std::string journal_folder) : journal(std::move(journal_folder)) {}

    Journal journal;
    // Taken first, by whoever loads plugins late; held while their entries run.
    std::mutex loading;
    // Guarded by `loading`, and by nothing while the host opens.
    LibraryVersions library_versions;
    HeldDirectories directories;
    Signatures signatures;
    TrustMemory trust;
    std::vector<Shutdown> shutdowns; // of what was registered in this process, in that order

    std::mutex reading_tune_files;                                             // guards the next
    std::map<std::string, std::unique_ptr<const PluginTuning>> plugin_tunings; // by plugin id
    std::vector<std::unique_ptr<const PluginTuning>> former_tunings;           // of modules that are gone

    std::mutex telling_database_problems;         // guards the next
    std::set<std::string> told_database_problems; // each is about all implementations

    std::mutex querying_devices;                       // guards the next; held while one of the commands runs
    std::map<std::string, std::string> device_queries; // by command: what it said, "" when the device is there

    std::mutex tuning; // held by the one call that is being tuned

    // Guards everything below. Never held while a plugin's code runs.
    std::mutex mutex;

    std::vector<std::unique_ptr<const Catalog>> catalogs; // the current one last; older ones for those who still read
    std::vector<std::unique_ptr<const PolicyStack>> policies;
    std::vector<std::unique_ptr<OpEntry>> ops;
    std::vector<std::unique_ptr<const std::vector<OpEntry *>>> op_lists;
    std::vector<std::unique_ptr<const NameTable>> name_tables;
    std::vector<std::shared_ptr<View>> views; // oldest first
    std::map<std::pair<const Implementation *, std::pair<int32_t, int32_t>>, std::unique_ptr<Deployment>> deployments;
    std::unordered_map<Memo *, std::unique_ptr<Memo>> memos; // of all threads
    // Who last served an op as the log has it; calls in scopes (true) are told apart from those under the process's
    // policy.
    std::map<std::pair<std::string, bool>, std::string> serving;
    std::set<std::pair<std::string, std::pair<int32_t, int32_t>>> told_cpu_fallbacks; // op and device
    std::map<std::pair<int32_t, int32_t>, std::string> lost_devices; // device -> what is known of its end
    std::map<const DeviceProvider *, DeviceCount> device_counts;
    std::map<std::pair<int32_t, int32_t>, const opdock_device_properties *> properties; // null: it could not say
    std::vector<std::unique_ptr<opdock_device_properties>> kept_properties;             // plugins may still read them
    std::list<std::unique_ptr<Registrar>> registrars; // plugins may have kept their registries
};

inline std::pair<int32_t, int32_t> device_key(DLDevice device) {
    return {static_cast<int32_t>(device.device_type), device.device_id};
}

} // namespace opdock::core
