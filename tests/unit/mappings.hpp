// What is mapped into this process.
#pragma once

#include <fstream>
#include <string>

namespace opdock::test {

// Whether a file with this at the end of its path, or elsewhere in it, is mapped.
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
