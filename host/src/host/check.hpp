// The report of `plugin-ls --check FILE.so` on one file.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "policy/policy_sources.hpp"
#include "text/environment.hpp"

namespace opdock::core {

// Conditions, apart from the file, that decide whether a host accepts it.
struct CheckSettings {
    PolicyStack policy;
    TuneMode tune = TuneMode::cached;
    std::vector<std::string> trust_folders;
    std::string cache_folder; // where hosts keep results; "" for none
    std::string library_path; // LD_LIBRARY_PATH
};

// The conditions of a host in this environment. Throws Error(OPDOCK_INVALID_POLICY) for what keeps it from opening.
CheckSettings check_settings(const Environment &environment, const std::string &system_file = system_policy_file);

// Judges the file like a host that was asked for it, or for the folder of a plugin.json that names it: by its location
// and signature, its type, results of hosts that tried it, the libraries and symbols it uses, and its tune file. Runs
// none of its code. Returns {"path", "status": "ok", "rejected" or "quarantined", "code", "reason", "note": {...} or
// null, "warnings": [...], "build_id", "linkage": {...} or null}; code and reason are "" for ok.
nlohmann::json check_file(const std::filesystem::path &path, const CheckSettings &settings);

} // namespace opdock::core
