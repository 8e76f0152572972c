// The command line of plugin-pack.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/tool.hpp"

namespace opdock::plugin_pack {

// NAME=DIR@COMMIT: patch and rebase need the commit, unpatch takes one with --3way; NAME defaults to the folder's name.
struct BackendPlace {
    std::string name;
    std::string folder; // absolute
    std::string commit;
    std::string version = {}; // patch: the commit's name for people
};

struct Request {
    std::string subject; // package; keygen: name of the key; import_flagscale: folder; uninstall: a name
    std::vector<std::string> backend_texts; // as given
    std::vector<BackendPlace> backends;
    std::string out;

    // for patch
    std::string device_type;
    std::vector<std::string> tasks;
    std::vector<std::pair<std::string, std::string>> attachments; // kind, file
    std::vector<std::string> models;
    std::string message;
    std::string contact;
    std::vector<std::string> backend_versions; // as given
    std::optional<uint64_t> serial;
    bool include_ignored = false;
    bool no_questions = false;
    std::string key;
    bool no_key = false;
    std::vector<std::string> recipients; // files of public keys
    bool force = false;

    // for packages to read
    std::vector<std::string> public_keys;
    std::string trusted;
    bool allow_unsigned = false;
    std::string decrypt_key;
    bool dry_run = false;
    bool merges = false;   // with another commit
    std::string commit;    // of the package to find
    bool in_place = false; // in the worktrees of the backends
    bool allow_older = false;

    // for the folder of installed packages
    std::string folder;
    bool system = false;

    std::string passphrase_file;
    bool no_passphrase = false;
    bool json = false;
};

extern const cli::Tool<Request> tool;

} // namespace opdock::plugin_pack
