// Results of tuning, kept between processes in SQLite (the user's cache, or PLUGIN_TUNE_DB).
//
// No failure of any kind breaks a call: what cannot be read counts as unknown, and a failed write is reported to its
// caller. Any number of processes may read and write one file.
#pragma once

#include <compare>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace opdock::core {

// Identifies what an entry is valid for, including op and implementation. Everything must match.
struct TuneIdentity {
    std::string op;
    std::string impl_id;
    std::string version;      // "tune_version 3", or "build ab12..." if the vendor promises nothing
    std::string device;       // model
    std::string architecture; // "sm_90"
    std::string driver;

    auto operator<=>(const TuneIdentity &) const = default;
};

struct TuneEntry {
    std::string space;  // ImplementationSection::space
    std::string dtypes; // "bf16,f32"
    std::string key;
    std::string config; // as written by config_text
    double microseconds = 0;
    double default_microseconds = 0; // of the config in force before, in the same run
};

struct TuneRow {
    TuneIdentity identity;
    TuneEntry entry;
};

// Selects rows; all given fields must match.
struct TuneFilter {
    std::optional<std::string> op;
    std::optional<std::string> impl_id;
    std::optional<std::string> device; // model
    std::optional<std::string> dtypes;
    std::optional<std::string> version;
};

class TuneDatabase {
  public:
    // An empty path means no database.
    explicit TuneDatabase(std::string path) : path_(std::move(path)) {}

    const std::string &path() const { return path_; }

    // All entries valid for this identity. Throws DatabaseError, also after a damaged file was set
    // aside; a file that never was such a database is left unchanged.
    std::vector<TuneEntry> read(const TuneIdentity &identity) const;
    // Throws DatabaseError if write() could not store anything. Creates the file if missing.
    void check() const;
    // Adds or replaces the entries, all or nothing. Waits for other processes. Throws DatabaseError.
    void write(const TuneIdentity &identity, const std::vector<TuneEntry> &entries) const;

    // The matching rows, sorted by op, implementation, device and so on; none without a file. Throws
    // DatabaseError like read(), and if there are more than most_rows.
    std::vector<TuneRow> rows(const TuneFilter &filter) const;
    // Removes the matching rows, all or nothing, and returns their number. Throws DatabaseError.
    size_t forget(const TuneFilter &filter) const;

    static constexpr size_t most_rows = 1'000'000;

  private:
    void check_path() const;

    std::string path_;
};

} // namespace opdock::core
