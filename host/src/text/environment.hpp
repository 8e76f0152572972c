// What the environment says, captured once. The only place that reads it; everything else takes an Environment, so that
// tests hand in values.
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

// Where the configs of kernels come from.
enum class TuneMode {
    off,    // the kernels' own heuristics and defaults
    cached, // tune files and the database too
    online, // and what is not known is tuned when it is first met
};

// When a host prints what serves and what was called.
enum class Report {
    off,
    on,     // at the beginning and at the end
    signal, // and when the process gets SIGUSR1
};

// The prefix and the stem: PLUGIN_STRICT, TE_FL_STRICT. MODULES and MODULES_ONLY keep PLUGIN_ before them under every
// prefix (TE_FL_PLUGIN_MODULES), because a program is likely to have modules of its own.
std::string variable_name(Variable variable, std::string_view prefix);

struct Environment {
    std::string prefix = "PLUGIN_";
    // Those that are set; "set but empty" is an entry with an empty value.
    std::map<Variable, std::string> values;
    // $XDG_DATA_HOME, or .local/share in the home directory; empty when neither is an absolute path, or in a process
    // with raised privileges.
    std::string user_data_dir;
    // $XDG_CACHE_HOME, or .cache in the home directory; empty as above.
    std::string user_cache_dir;
    // $XDG_CONFIG_HOME, or .config in the home directory; empty as above.
    std::string user_config_dir;
    // $XDG_RUNTIME_DIR; empty when it is not an absolute path, and as above.
    std::string user_runtime_dir;
    // LD_LIBRARY_PATH when the program started: where the dynamic loader looks for libraries; empty when it was not
    // set, and as above.
    std::string library_path;
    // The process has raised privileges (AT_SECURE): everything above is empty, whatever was set.
    bool secure = false;
    // What a person should know: values ignored or cut, misspelt names.
    std::vector<std::string> warnings;

    std::string name(Variable variable) const { return variable_name(variable, prefix); }
    Place place(Variable variable) const { return {name(variable)}; }
    // Null when it is not set.
    const std::string *find(Variable variable) const;
    // A switch, off when not set. Throws Error(OPDOCK_INVALID_POLICY) for anything that is no switch.
    bool is_on(Variable variable) const;
    // Where what is learnt of plugins is kept; empty where nothing may be. A wrong value of the variable throws.
    std::string cache_folder() const;
    // A wrong value of one of these variables throws Error(OPDOCK_INVALID_POLICY).
    TuneMode tune_mode() const;
    // The file that TUNE_DB names; without it, one in `cache_folder` or opdock's folder in the user's cache, whatever
    // SCAN_CACHE says: what was tuned is no scan. Empty when there is no folder.
    std::string tune_database(const std::optional<std::string> &cache_folder = {}) const;
    double tune_budget() const; // seconds for one shape
    Report report() const;
    // OPDOCK_LOG_ value, or `fallback` when not set.
    std::int32_t log_level(std::int32_t fallback) const;
};

// The environment as name and value, whole or in part.
using RawEnvironment = std::map<std::string, std::string, std::less<>>;

// Whether names of variables can begin with it: letters, digits and '_', no digit first.
bool is_variable_prefix(std::string_view text);

// Throws Error(OPDOCK_INVALID_ARGUMENT) when `prefix` cannot begin a variable's name.
Environment make_environment(std::string_view prefix, const RawEnvironment &raw, bool secure);

// LD_LIBRARY_PATH of an environment as /proc/PID/environ has it. Of several the last, as the dynamic loader takes it.
std::string library_path_in(std::istream &environment);

// The process's own. To be called before other threads change the environment.
Environment capture_environment(std::string_view prefix);

} // namespace opdock::core
