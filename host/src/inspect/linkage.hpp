// A plugin's requirements on the machine and its visible symbols: facts for people, not for a verdict.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace opdock::core {

struct Linkage {
    static constexpr std::size_t most_exports = 64;

    std::vector<std::string> exports;            // symbols visible to other files, up to a limit
    std::vector<std::string> libraries;          // names that the loader would search
    std::vector<std::string> search_paths;       // of the file itself (RPATH, RUNPATH)
    std::map<std::string, std::string> versions; // the newest of each kind: {"GLIBC", "2.34"}
    bool relocates_text = false;                 // code is modified while it is loaded
};

// nullopt if the file is not a sound shared object for this machine.
std::optional<Linkage> read_linkage(const std::filesystem::path &path);

// True if version "2.9" is older than "2.34": compares number by number.
bool is_older(const std::string &a, const std::string &b);

} // namespace opdock::core
