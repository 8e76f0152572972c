// Scan results of plugin files, kept between processes: they tell a host all ops and implementations without opening a
// plugin, and prevent a second run of code that killed its probe.
//
// Any failure of the cache costs only time and one warning; no plugin is lost.
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

// Convert a scan to the cache's row format and back; decode_scan returns nullopt for invalid bytes.
std::vector<std::byte> encode_scan(const Scan &scan);
std::optional<Scan> decode_scan(std::span<const std::byte> bytes, const std::string &path);

// True if the scan stays valid as long as the file does not change. Results that depend on the machine's libraries or
// CPU must be recomputed.
bool may_keep(const Scan &scan);

class ScanCache {
  public:
    // Reads the file in this folder, or only its row for one path; an empty folder means no cache. `log` must outlive
    // this.
    ScanCache(std::string folder, const Log &log, const std::string &only_path = {});

    // The cached scan of the file, unless the file was changed since.
    std::optional<Scan> find(const std::string &path, const FileIdentity &identity) const;
    // The last scan of this path, even if the file has changed.
    std::optional<Scan> find_any(const std::string &path) const;
    void keep(const std::string &path, const Scan &scan);
    // Deletes the rejection that keeps the path from being tried again, until it is kept anew; other scans stay.
    void forget_rejection(const std::string &path);
    // Deletes everything, including the data on disk.
    void forget_all();
    // Writes all scans kept since the cache was read, atomically.
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
