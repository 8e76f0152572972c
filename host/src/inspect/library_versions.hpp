// Which versions of their symbols the libraries of this process define: what a plugin needs beyond that, the dynamic
// loader would refuse.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace opdock::core {

// Remembers what it found. Not for several threads at once.
class LibraryVersions {
  public:
    // Whether a library that is loaded, "libc.so.6", lacks a version, "GLIBC_2.99". One that is not loaded lacks
    // nothing: the loader finds out.
    bool lacks(const std::string &library, const std::string &version);
    // The newest that it defines of the same kind, "GLIBC_2.36"; "" when there is none.
    std::string newest_like(const std::string &library, const std::string &version);

  private:
    const std::vector<std::string> &of(const std::string &library);

    std::map<std::string, std::vector<std::string>> known_; // empty: not loaded, or not readable
};

} // namespace opdock::core
