// What tuning found, kept between processes in SQLite (the user's cache, or PLUGIN_TUNE_DB).
//
// A failure, of whatever kind, costs no call: what cannot be read is not known, and a write that fails is reported to
// its caller. Any number of processes read and write one file.
#pragma once

#include <compare>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace opdock::core {

// What an entry is valid for, beside op and implementation. All of it must be the same.
struct TuneIdentity {
    std::string op;
    std::string impl_id;
    std::string version;      // "tune_version 3", or "build ab12..." where the vendor promises nothing
    std::string device;       // model
    std::string architecture; // "sm_90"
    std::string driver;

    auto operator<=>(const TuneIdentity &) const = default;
};

struct TuneEntry {
    std::string space;  // ImplementationSection::space
    std::string dtypes; // "bf16,f32"
    std::string key;
    std::string config; // as config_text spells it
    double microseconds = 0;
    double default_microseconds = 0; // of the config that served before, in the same run
};

struct TuneRow {
    TuneIdentity identity;
    TuneEntry entry;
};

// Which rows; all that is given must fit.
struct TuneFilter {
    std::optional<std::string> op;
    std::optional<std::string> impl_id;
    std::optional<std::string> device; // the model
    std::optional<std::string> dtypes;
    std::optional<std::string> version;
};

class TuneDatabase {
  public:
    // An empty path is no database.
    explicit TuneDatabase(std::string path) : path_(std::move(path)) {}

    const std::string &path() const { return path_; }

    // Everything that is valid for this identity. Throws DatabaseError, also when a damaged file was set aside; a file
    // that never was such a database is left as it is.
    std::vector<TuneEntry> read(const TuneIdentity &identity) const;
    // Throws DatabaseError where write() could not keep anything. Makes the file where it is missing.
    void check() const;
    // Adds or replaces them, all or nothing. Waits for other processes. Throws DatabaseError.
    void write(const TuneIdentity &identity, const std::vector<TuneEntry> &entries) const;

    // Those that fit, by op, implementation, device and so on; none where there is no file. Throws DatabaseError as
    // read() does, and where there are more than most_rows.
    std::vector<TuneRow> rows(const TuneFilter &filter) const;
    // Removes those that fit, all or nothing, and returns how many they were. Throws DatabaseError.
    size_t forget(const TuneFilter &filter) const;

    static constexpr size_t most_rows = 1'000'000;

  private:
    void check_path() const;

    std::string path_;
};

} // namespace opdock::core
