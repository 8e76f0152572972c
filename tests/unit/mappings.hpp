// Files that are mapped into this process.
#pragma once

#include <fstream>
#include <string>

namespace opdock::test {

// True if a mapped file's path contains this text, at its end or elsewhere.
inline bool is_mapped(const std::string &name) {
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
        if (line.find(name) != std::string::npos) {
            return true;
        }
    }
    return false;
}

} // namespace opdock::test
