// The folder `hardware` of a FlagScale checkout: hardware/DEVICE/BACKEND, with a diff.yaml (or HASH.yaml) and either
// one diff.patch (or HASH.patch) or a tree of FILE.patch, each of which may be encrypted.
#pragma once

#include <string>
#include <vector>

namespace opdock::plugin_pack {

struct FlagscaleBackend {
    std::string device_type;
    std::string name;
    std::string folder;
    std::vector<std::string> tasks;
    std::vector<std::string> models;
    std::string version;
    std::string contact;
    std::string commit;               // base commit of the patches; empty if unknown
    std::vector<std::string> patches; // files; those that end in ".encrypted" are encrypted
};

// A folder that cannot be imported, and the reason.
struct Unresolved {
    std::string folder;
    std::string reason;
};

struct FlagscaleTree {
    std::vector<FlagscaleBackend> backends; // sorted by device type and name
    std::vector<Unresolved> unresolved;
};

// True for the short text that Git LFS leaves in place of a file that was not fetched.
bool is_lfs_pointer(const std::string &text);
inline constexpr const char *lfs_remedy =
    "this is a Git LFS pointer instead of the file; run `git lfs pull` in its repository";

// Without a key, folders with encrypted patches (flagscale_encryption.hpp) are left out. Throws cli::Failure if there
// is no such folder.
FlagscaleTree read_flagscale(const std::string &hardware, bool has_key);

} // namespace opdock::plugin_pack
