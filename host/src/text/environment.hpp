// Environment variables, captured once. No other code reads the environment; everything else takes an Environment, so
// that tests can pass in values.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/setting_text.hpp"
#include "text/variables.hpp"

namespace opdock::core {

// Sources of kernel configs.
enum class TuneMode {
    off,    // only the kernels' own heuristics and defaults
    cached, // also tune files and the database
    online, // also tunes unknown shapes on first use
};

// Times at which a host reports which implementations serve and which calls were made.
enum class Report {
    off,
    on,     // at start and at exit
    signal, // also when the process receives SIGUSR1
};

// Joins prefix and stem: PLUGIN_STRICT, TE_FL_STRICT. MODULES and MODULES_ONLY keep PLUGIN_ under every prefix
// (TE_FL_PLUGIN_MODULES), because a program is likely to have modules of its own.
std::string variable_name(Variable variable, std::string_view prefix);

struct Environment {
    std::string prefix = "PLUGIN_";
    // Variables that are set; a variable set to an empty value has an empty entry.
    std::map<Variable, std::string> values;
    // $XDG_DATA_HOME, or .local/share in the home directory; empty if neither is an absolute path, or if the process
    // has raised privileges.
    std::string user_data_dir;
    // $XDG_CACHE_HOME, or .cache in the home directory; empty in the same cases.
    std::string user_cache_dir;
    // $XDG_CONFIG_HOME, or .config in the home directory; empty in the same cases.
    std::string user_config_dir;
    // $XDG_RUNTIME_DIR; empty if it is not an absolute path, or with raised privileges.
    std::string user_runtime_dir;
    // LD_LIBRARY_PATH at program start, which the dynamic loader uses; empty if it was not set, or with raised
    // privileges.
    std::string library_path;
    // The process has raised privileges (AT_SECURE): everything above is empty, even if variables were set.
    bool secure = false;
    // Information for people: values ignored or cut, misspelt names.
    std::vector<std::string> warnings;

    std::string name(Variable variable) const { return variable_name(variable, prefix); }
    Place place(Variable variable) const { return {name(variable)}; }
    // Null if it is not set.
    const std::string *find(Variable variable) const;
    // The value of a switch, off if not set. Throws Error(OPDOCK_INVALID_POLICY) if the value is not a switch.
    bool is_on(Variable variable) const;
    // The folder for cached plugin data; empty if caching is disabled. An invalid value of the variable throws.
    std::string cache_folder() const;
    // These throw Error(OPDOCK_INVALID_POLICY) if the variable's value is invalid.
    TuneMode tune_mode() const;
    // The file named by TUNE_DB; by default a file in `cache_folder` or in opdock's folder in the user's cache,
    // regardless of SCAN_CACHE, which does not apply to tuning results. Empty if there is no folder.
    std::string tune_database(const std::optional<std::string> &cache_folder = {}) const;
    double tune_budget() const; // seconds for one shape
    Report report() const;
    // An OPDOCK_LOG_ value, or `fallback` if not set.
    std::int32_t log_level(std::int32_t fallback) const;
};

// Environment variables by name, all or some.
using RawEnvironment = std::map<std::string, std::string, std::less<>>;

// True if variable names can start with it: letters, digits and '_', no digit first.
bool is_variable_prefix(std::string_view text);

// Throws Error(OPDOCK_INVALID_ARGUMENT) if `prefix` cannot start a variable's name.
Environment make_environment(std::string_view prefix, const RawEnvironment &raw, bool secure);

// LD_LIBRARY_PATH in the format of /proc/PID/environ. If it occurs more than once, the last, like the dynamic loader.
std::string library_path_in(std::istream &environment);

// The process's environment. Call it before other threads change the environment.
Environment capture_environment(std::string_view prefix);

} // namespace opdock::core
