#include "tune/tune_database.hpp"

#include <array>
#include <filesystem>
#include <system_error>
#include <utility>

#include <SQLiteCpp/SQLiteCpp.h>
#include <spdlog/fmt/fmt.h>

#include "files/database.hpp"

namespace opdock::core {
namespace {

constexpr DatabaseFormat format = {
    0x6f706474, 1, // "opdt"
    "CREATE TABLE configs (op TEXT NOT NULL, impl_id TEXT NOT NULL, version TEXT NOT NULL, device TEXT NOT NULL, "
    "architecture TEXT NOT NULL, driver TEXT NOT NULL, space TEXT NOT NULL, dtypes TEXT NOT NULL, key TEXT NOT NULL, "
    "config TEXT NOT NULL, microseconds REAL NOT NULL, default_microseconds REAL NOT NULL, "
    "PRIMARY KEY (op, impl_id, version, device, architecture, driver, space, dtypes, key)) WITHOUT ROWID",
    Stranger::refuse}; // PLUGIN_TUNE_DB may name any file

// Limit of entries kept in memory for one implementation on one device; nobody tunes more shapes.
constexpr int most_entries = 100'000;

std::array<const std::string *, 6> columns_of(const TuneIdentity &identity) {
    return {&identity.op,     &identity.impl_id,      &identity.version,
            &identity.device, &identity.architecture, &identity.driver};
}

// Runs `work` on the open database; turns SQLite's exceptions into DatabaseError. Returns a message
// about a file that was set aside for a new one, or an empty text.
template<class Work>
std::string with_database(const std::string &path, Work work) {
    std::string set_aside;
    const Notice note = [&](const std::string &what) { set_aside = "the tuning database " + what; };
    try {
        const auto database = open_database(path, format, note);
        work(*database);
        return set_aside;
    } catch (const SQLite::Exception &error) {
        std::string message = fmt::format("'{}': {}", path, error.what());
        if (is_damage(error) && set_aside_damaged(path, note)) {
            message += "; " + set_aside;
        }
        throw DatabaseError(message);
    }
}

using Condition = std::pair<const char *, const std::optional<std::string> *>; // column and its value

std::vector<Condition> conditions_of(const TuneFilter &filter) {
    std::vector<Condition> given;
    for (const Condition &one :
         {Condition{"op", &filter.op}, Condition{"impl_id", &filter.impl_id}, Condition{"device", &filter.device},
          Condition{"dtypes", &filter.dtypes}, Condition{"version", &filter.version}}) {
        if (*one.second) {
            given.push_back(one);
        }
    }
    return given;
}

// "op = ? AND device = ?"
std::string where_of(const std::vector<Condition> &conditions) {
    std::string where = "1";
    for (const Condition &one : conditions) {
        where += fmt::format(" AND {} = ?", one.first);
    }
    return where;
}

void bind(SQLite::Statement &statement, const std::vector<Condition> &conditions) {
    int column = 0;
    for (const Condition &one : conditions) {
        statement.bind(++column, **one.second);
    }
}

} // namespace

std::vector<TuneEntry> TuneDatabase::read(const TuneIdentity &identity) const {
    std::vector<TuneEntry> entries;
    std::error_code unreachable;
    if (path_.empty() || identity.version.empty() || !std::filesystem::exists(path_, unreachable)) {
        return entries;
    }
    const std::string set_aside = with_database(path_, [&](SQLite::Database &database) {
        SQLite::Statement query(database, "SELECT space, dtypes, key, config, microseconds, default_microseconds "
                                          "FROM configs WHERE op = ? AND impl_id = ? AND version = ? AND device = ? "
                                          "AND architecture = ? AND driver = ? LIMIT ?");
        int column = 0;
        for (const std::string *value : columns_of(identity)) {
            query.bind(++column, *value);
        }
        query.bind(++column, most_entries);
        while (query.executeStep()) {
            entries.push_back({query.getColumn(0).getString(), query.getColumn(1).getString(),
                               query.getColumn(2).getString(), query.getColumn(3).getString(),
                               query.getColumn(4).getDouble(), query.getColumn(5).getDouble()});
        }
    });
    if (!set_aside.empty()) {
        throw DatabaseError(set_aside); // the new one is empty, so nothing is lost
    }
    return entries;
}

std::vector<TuneRow> TuneDatabase::rows(const TuneFilter &filter) const {
    check_path();
    std::vector<TuneRow> found;
    std::error_code unreachable;
    if (!std::filesystem::exists(path_, unreachable)) {
        return found;
    }
    const std::string set_aside = with_database(path_, [&](SQLite::Database &database) {
        const std::vector<Condition> conditions = conditions_of(filter);
        // Sorted by the primary key.
        SQLite::Statement query(database, "SELECT op, impl_id, version, device, architecture, driver, space, dtypes, "
                                          "key, config, microseconds, default_microseconds FROM configs WHERE " +
                                              where_of(conditions) +
                                              " ORDER BY op, impl_id, version, device, architecture, driver, space, "
                                              "dtypes, key");
        bind(query, conditions);
        while (query.executeStep()) {
            if (found.size() == most_rows) {
                throw DatabaseError(
                    fmt::format("'{}' has more than {} entries that fit; give a narrower filter", path_, most_rows));
            }
            int column = 0;
            const auto text = [&] { return query.getColumn(column++).getString(); };
            TuneRow row;
            for (std::string TuneIdentity::*field :
                 {&TuneIdentity::op, &TuneIdentity::impl_id, &TuneIdentity::version, &TuneIdentity::device,
                  &TuneIdentity::architecture, &TuneIdentity::driver}) {
                row.identity.*field = text();
            }
            for (std::string TuneEntry::*field :
                 {&TuneEntry::space, &TuneEntry::dtypes, &TuneEntry::key, &TuneEntry::config}) {
                row.entry.*field = text();
            }
            row.entry.microseconds = query.getColumn(column++).getDouble();
            row.entry.default_microseconds = query.getColumn(column).getDouble();
            found.push_back(std::move(row));
        }
    });
    if (!set_aside.empty()) {
        throw DatabaseError(set_aside);
    }
    return found;
}

size_t TuneDatabase::forget(const TuneFilter &filter) const {
    check_path();
    std::error_code unreachable;
    if (!std::filesystem::exists(path_, unreachable)) {
        return 0;
    }
    size_t count = 0;
    const std::string set_aside = with_database(path_, [&](SQLite::Database &database) {
        const std::vector<Condition> conditions = conditions_of(filter);
        Transaction transaction(database, true);
        SQLite::Statement statement(database, "DELETE FROM configs WHERE " + where_of(conditions));
        bind(statement, conditions);
        count = static_cast<size_t>(statement.exec());
        transaction.commit();
    });
    if (!set_aside.empty()) {
        throw DatabaseError(set_aside);
    }
    return count;
}

void TuneDatabase::check() const {
    check_path();
    (void)with_database(path_, [&](SQLite::Database &database) {
        Transaction transaction(database, true); // fails for a read-only file
        transaction.commit();
    });
}

void TuneDatabase::check_path() const {
    if (path_.empty()) {
        throw DatabaseError("there is no tuning database: neither a cache folder nor a path was given");
    }
}

void TuneDatabase::write(const TuneIdentity &identity, const std::vector<TuneEntry> &entries) const {
    check_path();
    if (identity.version.empty()) {
        throw DatabaseError(fmt::format(
            "'{}' has neither a tune_version nor a build id, so nobody could tell whether a result still applies to it",
            identity.impl_id));
    }
    // A writer has read before, and was told then about a file that was set aside.
    (void)with_database(path_, [&](SQLite::Database &database) {
        Transaction transaction(database, true);
        SQLite::Statement insert(database,
                                 "INSERT OR REPLACE INTO configs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
        for (const TuneEntry &entry : entries) {
            int column = 0;
            for (const std::string *value : columns_of(identity)) {
                insert.bind(++column, *value);
            }
            for (const std::string *value : {&entry.space, &entry.dtypes, &entry.key, &entry.config}) {
                insert.bind(++column, *value);
            }
            insert.bind(++column, entry.microseconds);
            insert.bind(++column, entry.default_microseconds);
            insert.exec();
            insert.reset();
        }
        transaction.commit();
    });
}

} // namespace opdock::core
