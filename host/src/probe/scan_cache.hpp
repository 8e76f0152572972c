// Scans of plugins' files, kept between processes: with it a host knows every op and implementation without opening a
// plugin, and does not run twice what killed its probe once.
//
// A failure of the cache, of whatever kind, costs time and no plugin; it is one warning.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "probe/scan.hpp"
#include "text/log.hpp"

namespace opdock::core {

// One scan as a row of the cache holds it, and back; nothing for bytes that hold none.
std::vector<std::byte> encode_scan(const Scan &scan);
std::optional<Scan> decode_scan(std::span<const std::byte> bytes, const std::string &path);

// Whether a scan says the same as long as the file does not change. What depends on the libraries or the CPU of the
// machine has to be looked at again.
bool may_keep(const Scan &scan);

class ScanCache {
  public:
    // Reads the file in this folder, or of it only what it has of one path; an empty one is no cache. `log` must live
    // as long.
    ScanCache(std::string folder, const Log &log, const std::string &only_path = {});

    // What was kept of the file, unless it was changed since.
    std::optional<Scan> find(const std::string &path, const FileIdentity &identity) const;
    // The last scan of this path, changed or not.
    std::optional<Scan> find_any(const std::string &path) const;
    void keep(const std::string &path, const Scan &scan);
    // Forgets why the path is not tried again, until it is kept anew; other scans stay.
    void forget_rejection(const std::string &path);
    // Forgets everything, also what is on disk already.
    void forget_all();
    // Writes what was kept since it was read, all of it or nothing.
    void save();

  private:
    void read(const std::string &only_path);
    void warn(const std::string &what);

    std::string file_;
    const Log &log_;
    bool warned_ = false;
    bool forget_ = false;
    std::unordered_map<std::string, std::vector<std::byte>> rows_; // by path
    std::vector<std::string> changed_;                             // paths
};

} // namespace opdock::core
