// Symbol versions that the libraries of this process define. The dynamic loader would refuse a plugin that needs
// others.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace opdock::core {

// Caches its results. Not thread-safe.
class LibraryVersions {
  public:
    // True if a loaded library, "libc.so.6", lacks a version, "GLIBC_2.99". False if the library is not loaded: the
    // dynamic loader will check it.
    bool lacks(const std::string &library, const std::string &version);
    // The newest version of the same kind that the library defines, "GLIBC_2.36"; "" if there is none.
    std::string newest_like(const std::string &library, const std::string &version);

  private:
    const std::vector<std::string> &of(const std::string &library);

    std::map<std::string, std::vector<std::string>> known_; // empty: not loaded or not readable
};

} // namespace opdock::core
