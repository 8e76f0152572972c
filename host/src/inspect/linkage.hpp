// What a plugin asks of the machine it is loaded on, and what it shows of itself: facts for people, not for a verdict.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace opdock::core {

struct Linkage {
    static constexpr std::size_t most_exports = 64;

    std::vector<std::string> exports;            // symbols that other files see, at most so many
    std::vector<std::string> libraries;          // as the loader would search them
    std::vector<std::string> search_paths;       // of the file itself (RPATH, RUNPATH)
    std::map<std::string, std::string> versions; // the newest of each kind: {"GLIBC", "2.34"}
    bool relocates_text = false;                 // code is written to while it is loaded
};

// Nothing when the file is not a sound shared object for this machine.
std::optional<Linkage> read_linkage(const std::filesystem::path &path);

// Whether version "2.9" is older than "2.34": number by number.
bool is_older(const std::string &a, const std::string &b);

} // namespace opdock::core
