// The table of environment variables: names, and texts for documentation and `--help`.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace opdock::core {

enum class Variable {
#define SETTING(name, ...) name,
#include "text/settings.def"
#undef SETTING
    prefer_vendor,
    per_op,
    require,
    default_plugins,
    config,
    modules,
    modules_only,
    scan_cache,
    skip_cuda,
    trust,
    tune,
    tune_db,
    tune_budget,
    trace,
    record,
    log_level,
    metrics,
    report,
    live,
    shadow,
    call_files,
};

// A row of the table of variables, from which the documentation and `--help` are generated.
struct VariableInfo {
    Variable id;
    std::string_view stem;     // the name without the prefix
    std::string_view values;   // permitted values
    std::string_view fallback; // effect if it is not set
    std::string_view meaning;
    std::string_view separators; // of a list, outermost first; empty for a single value
};

inline constexpr std::array all_variables = {
#define SETTING(name, stem, type, read, built_in, ...) VariableInfo{Variable::name, stem, __VA_ARGS__},
#include "text/settings.def"
#undef SETTING
    VariableInfo{Variable::prefer_vendor, "PREFER_VENDOR", "1 or 0", "not set",
                 "1 is the same as PREFER=vendor, 0 as PREFER=default. Ignored when PREFER is set.", ""},
    VariableInfo{
        Variable::per_op, "PER_OP", "OP=TOKEN|TOKEN;OP=TOKEN", "not set",
        "The order for given ops, in place of the preferred order. A token is default, vendor, reference, measured, "
        "vendor:NAME or impl:ID; implementations that an order does not name are not used for that op.",
        ";"},
    VariableInfo{Variable::require, "REQUIRE", "CONTRACT,CONTRACT;OP=CONTRACT", "not set: nothing",
                 "What implementations must promise, for every op or for given ones: deterministic (the same bits each "
                 "time) or batch_invariant (a row's bits do not depend on the other rows). Implementations without the "
                 "promise are not used.",
                 ";,"},
    VariableInfo{Variable::default_plugins, "DEFAULT_PLUGINS", "names separated by commas",
                 "not set: opdock's own alone",
                 "Plugins, by id or vendor, whose implementations of kinds default and reference are used like "
                 "opdock's own. Those of other plugins are left out.",
                 ","},
    VariableInfo{Variable::config, "CONFIG", "an absolute path", "not set",
                 "A policy file (YAML): prefer to per_op and trust, and sections for given devices.", ""},
    VariableInfo{Variable::modules, "MODULES", "absolute paths separated by commas or colons", "not set",
                 "Plugin files, manifests or directories, searched before the installed ones.", ",:"},
    VariableInfo{Variable::modules_only, "MODULES_ONLY", "1 or 0", "0",
                 "1: only the modules given by the program and by MODULES are used; directories of the user and the "
                 "system are not searched.",
                 ""},
    VariableInfo{Variable::scan_cache, "SCAN_CACHE", "on or off", "on",
                 "off: registrations of plugins are not remembered between processes; each plugin is tried again.", ""},
    VariableInfo{Variable::skip_cuda, "SKIP_CUDA", "1 or 0", "0", "1: plugins for CUDA are not loaded.", ""},
    VariableInfo{Variable::trust, "TRUST", "off, warn, require", "off",
                 "Whether a plugin must be signed with a trusted key or listed by its SHA-256: warn logs plugins that "
                 "are not, require rejects them before any of their code runs.",
                 ""},
    VariableInfo{Variable::tune, "TUNE", "off, cached, online", "cached",
                 "The source of kernel configs. off: the kernels' own heuristics and defaults; cached: also tune files "
                 "and results of plugin-tune; online: calls that nobody tuned are tuned when they are first made.",
                 ""},
    VariableInfo{Variable::tune_db, "TUNE_DB", "an absolute path", "tune.sqlite in the user's cache",
                 "The database of tuning results.", ""},
    VariableInfo{Variable::tune_budget, "TUNE_BUDGET", "0.5, 500ms or 2m", "1",
                 "The time that TUNE=online may take for one shape, in seconds.", ""},
    VariableInfo{Variable::trace, "TRACE", "an absolute path", "not set",
                 "A trace of all calls, readable by Perfetto, is written to this file when the host closes; %p in the "
                 "name stands for the process id.",
                 ""},
    VariableInfo{Variable::record, "RECORD", "an absolute path", "not set",
                 "The distinct calls are listed in this file while the process runs, as plugin-tune, plugin-bench and "
                 "plugin-check read them with --shapes; %p in the name stands for the process id.",
                 ""},
    VariableInfo{Variable::log_level, "LOG_LEVEL", "DEBUG, INFO, WARNING, ERROR", "INFO",
                 "Lines below this level are not logged.", ""},
    VariableInfo{Variable::metrics, "METRICS", "FILE or FILE,SECONDS", "not set",
                 "A file with the number of calls of each implementation, as OpenMetrics text, rewritten every so many "
                 "seconds (10) and at the end. %p in its name stands for the process id.",
                 ""},
    VariableInfo{Variable::report, "REPORT", "0, 1 or signal", "0",
                 "1: a table on stderr of what serves each op when a host is opened, and one of the number of calls of "
                 "each implementation at the end; signal: the second one at each SIGUSR1, too.",
                 ""},
    VariableInfo{Variable::live, "LIVE", "1 or 0", "0",
                 "1: 'plugin-ls --pid' of the same user can query the running process: what serves, what is in force.",
                 ""},
    VariableInfo{
        Variable::shadow, "SHADOW", "OP=TOKEN@1/N;all=TOKEN@1/N,drop", "not set",
        "A second implementation, of the order given, computes one of N (1000) calls of the op on the CPU, on copies, "
        "and the log reports results that differ. drop: an implementation whose results differ serves no more.",
        ";"},
    VariableInfo{
        Variable::call_files, "CALL_FILES", "FOLDER or FOLDER;OP@NUMBER;all@FIRST..LAST", "not set",
        "An absolute path: calls that SHADOW found to differ are written there with the contents of their tensors, the "
        "first few of each implementation, and so are calls of these numbers; plugin-run and plugin-check replay them.",
        ";"},
};

constexpr bool has_row_for_each() {
    for (std::size_t i = 0; i < all_variables.size(); ++i) {
        if (static_cast<std::size_t>(all_variables[i].id) != i) {
            return false;
        }
    }
    return true;
}
static_assert(has_row_for_each(), "the rows stand in the order of the enumerators");

} // namespace opdock::core
