// Where plugins are looked for, and which files are found there. Nothing is opened but manifests; whether a file is a
// plugin is the next stage's question.
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

// What is searched after the modules and the user's directory: `install_dir`, the directory beside the library (may be
// empty), /usr/local/lib/opdock/plugins and /usr/lib/opdock/plugins.
std::vector<SearchDirectory> standard_directories(const std::string &install_dir);

struct SearchInput {
    std::vector<std::string> modules; // given by the program or the command line; absolute
    std::vector<SearchDirectory> standard_directories;
};

// A place that was searched, in order.
struct SearchPath {
    std::string path;
    std::string origin; // program_origin, "PLUGIN_MODULES", "user", "install", "system"
    bool requested = false;
    bool exists = false;
};

// The origin of what the program itself names.
inline constexpr const char *program_origin = "program";

// A file to be judged.
struct PluginCandidate {
    std::string path;
    std::string origin;
    bool requested = false;   // asked for by name: in strict mode the host does not open when it does not load
    std::string manifest;     // the plugin.json that named it, or ""
    std::string tune;         // from the manifest; "" leaves the file beside the plugin
    std::string signature;    // from the manifest, or ""
    Digest manifest_digest{}; // of the manifest as it was read
    // As the search saw it; nothing when `path` is a link, or was not searched for.
    std::optional<struct stat> status = std::nullopt;
    // The file of an earlier candidate, by another manifest: it counts where that one is rejected, so that a manifest
    // that nobody trusts takes no plugin away.
    bool again = false;
};

// Something a person must know: a path that is not there, a wrong manifest.
struct SearchProblem {
    std::string message;
    bool requested = false; // in strict mode an error of opening the host
    bool taken = false;     // a warning: what it is about was found all the same
    std::string code = {};  // "OPDOCK-E001" of a file that is not there; else ""
};

struct SearchResult {
    std::vector<SearchPath> paths;
    std::vector<PluginCandidate> candidates;
    std::vector<SearchProblem> problems;
};

// Throws Error for relative and empty elements: OPDOCK_INVALID_ARGUMENT for `modules`, OPDOCK_INVALID_POLICY for the
// environment. A file found by two paths is a candidate once, at the first, and again for each other manifest
// elsewhere.
SearchResult search_plugins(const SearchInput &input, const Environment &environment);

} // namespace opdock::core
