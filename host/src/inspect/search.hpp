// Finds candidate plugin files in the search directories. Opens only manifests; the next stage decides whether a file
// is a plugin.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <sys/stat.h>

#include "files/digest.hpp"
#include "text/environment.hpp"

namespace opdock::core {

struct SearchDirectory {
    std::string path;
    std::string origin; // "install", "system"
};

// The directories searched after the modules and the user's directory: `install_dir`, which is the directory beside the
// library (may be empty), /usr/local/lib/opdock/plugins and /usr/lib/opdock/plugins.
std::vector<SearchDirectory> standard_directories(const std::string &install_dir);

struct SearchInput {
    std::vector<std::string> modules; // given by the program or the command line; absolute
    std::vector<SearchDirectory> standard_directories;
};

// A place that was searched, in search order.
struct SearchPath {
    std::string path;
    std::string origin; // program_origin, "PLUGIN_MODULES", "user", "install", "system"
    bool requested = false;
    bool exists = false;
};

// The origin of paths that the program itself names.
inline constexpr const char *program_origin = "program";

// A file to be judged.
struct PluginCandidate {
    std::string path;
    std::string origin;
    bool requested = false;   // by name: in strict mode opening the host fails if it does not load
    std::string manifest;     // the plugin.json that named it, or ""
    std::string tune;         // from the manifest; "": the file beside the plugin
    std::string signature;    // from the manifest, or ""
    Digest manifest_digest{}; // of the manifest as it was read
    // Status seen by the search; nullopt if `path` is a link, or did not come from a search.
    std::optional<struct stat> status = std::nullopt;
    // True if another manifest names the file of an earlier candidate. Used if that candidate is rejected, so that an
    // untrusted manifest cannot hide a plugin.
    bool again = false;
};

// Something a person must know: a missing path, an invalid manifest.
struct SearchProblem {
    std::string message;
    bool requested = false; // if true, in strict mode an error of opening the host
    bool taken = false;     // a warning: its subject was found nevertheless
    std::string code = {};  // "OPDOCK-E001" for a missing file; else ""
};

struct SearchResult {
    std::vector<SearchPath> paths;
    std::vector<PluginCandidate> candidates;
    std::vector<SearchProblem> problems;
};

// Throws Error for relative and empty elements: OPDOCK_INVALID_ARGUMENT for `modules`, OPDOCK_INVALID_POLICY for the
// environment. A file found by two paths is one candidate, at the first path, plus one for each further manifest
// elsewhere.
SearchResult search_plugins(const SearchInput &input, const Environment &environment);

} // namespace opdock::core
