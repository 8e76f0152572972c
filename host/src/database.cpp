#include "database.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

#include <SQLiteCpp/Exception.h>
#include <SQLiteCpp/Transaction.h>
#include <spdlog/fmt/fmt.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

namespace opdock::core {
namespace {

constexpr int busy_milliseconds = 2000;

bool is_on_network(const std::string &path) {
    // linux/magic.h and the sources of filesystems that are not in the kernel's tree.
    constexpr std::array<unsigned long, 11> types = {
        0x6969,     // NFS
        0x517B,     // SMB
        0xFF534D42, // CIFS
        0xFE534D42, // SMB2
        0x5346414F, // AFS
        0x00C36400, // Ceph
        0x01021997, // 9P
        0x65735546, // FUSE: sshfs and others
        0x0BD00BD0, // Lustre
        0x47504653, // GPFS
        0x19830326, // BeeGFS
    };
    struct statfs status = {};
    if (statfs(path.c_str(), &status) != 0) {
        return false;
    }
    const auto type = static_cast<unsigned long>(status.f_type) & 0xFFFFFFFFul;
    return std::find(types.begin(), types.end(), type) != types.end();
}

void make_folder(const std::filesystem::path &folder) {
    std::error_code error;
    const bool made = std::filesystem::create_directories(folder, error);
    if (error) {
        throw DatabaseError(fmt::format("the folder '{}' cannot be made: {}", folder.string(), error.message()));
    }
    if (made) {
        ::chmod(folder.c_str(), 0700);
    }
}

// A file that somebody else may write says what they want it to say.
void check_owner(const std::string &path) {
    struct stat status = {};
    if (::stat(path.c_str(), &status) != 0) {
        return; // not there yet
    }
    if (status.st_uid != ::geteuid() || (status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        throw DatabaseError(fmt::format("'{}' belongs to somebody else, or others may write to it", path));
    }
}

enum class Content { wanted, nothing, other };

// In one transaction: another process may be making the file.
Content content_of(SQLite::Database &database, const DatabaseFormat &format) {
    SQLite::Transaction transaction(database, SQLite::TransactionBehavior::DEFERRED);
    if (database.execAndGet("SELECT count(*) FROM sqlite_master").getInt() == 0) {
        return Content::nothing;
    }
    const bool wanted = database.execAndGet("PRAGMA application_id").getInt() == format.application &&
                        database.execAndGet("PRAGMA user_version").getInt() == format.version;
    return wanted ? Content::wanted : Content::other;
}

void fill(SQLite::Database &database, const std::string &path, const DatabaseFormat &format) {
    ::chmod(path.c_str(), 0600);
    database.exec(is_on_network(path) ? "PRAGMA journal_mode = DELETE" : "PRAGMA journal_mode = WAL");
    SQLite::Transaction transaction(database, SQLite::TransactionBehavior::IMMEDIATE);
    if (database.execAndGet("SELECT count(*) FROM sqlite_master").getInt() == 0) { // else another process was quicker
        database.exec(format.schema);
        database.exec(fmt::format("PRAGMA application_id = {}", format.application));
        database.exec(fmt::format("PRAGMA user_version = {}", format.version));
    }
    transaction.commit();
}

// Nothing when the file holds something else.
std::unique_ptr<SQLite::Database> try_open(const std::string &path, const DatabaseFormat &format) {
    auto database = std::make_unique<SQLite::Database>(
        path, SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE | SQLite::OPEN_NOFOLLOW, busy_milliseconds);
    Content content = content_of(*database, format);
    if (content == Content::nothing) {
        fill(*database, path, format);
        content = content_of(*database, format);
    }
    return content == Content::wanted ? std::move(database) : nullptr;
}

} // namespace

bool is_damage(const SQLite::Exception &error) {
    const int code = error.getErrorCode() & 0xff;
    return code == SQLITE_CORRUPT || code == SQLITE_NOTADB;
}

void set_aside(const std::string &path) {
    for (const char *suffix : {"", "-wal", "-shm", "-journal"}) {
        const std::string from = path + suffix;
        const std::string to = path + ".damaged" + suffix;
        if (std::rename(from.c_str(), to.c_str()) != 0) {
            (void)std::remove(to.c_str()); // not one of before
        }
    }
}

std::unique_ptr<SQLite::Database> open_database(const std::string &path, const DatabaseFormat &format) {
    make_folder(std::filesystem::path(path).parent_path());
    check_owner(path);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(busy_milliseconds);
    for (int attempt = 0;; ++attempt) {
        try {
            if (auto database = try_open(path, format)) {
                database->exec("PRAGMA synchronous = NORMAL");
                return database;
            }
        } catch (const SQLite::Exception &error) {
            // Changing the kind of journal does not wait for others by itself.
            if ((error.getErrorCode() & 0xff) == SQLITE_BUSY && std::chrono::steady_clock::now() < deadline) {
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
                --attempt;
                continue;
            }
            if (!is_damage(error)) {
                throw DatabaseError(fmt::format("'{}' cannot be used: {}", path, error.what()));
            }
        }
        if (attempt > 0) {
            throw DatabaseError(fmt::format("'{}' is damaged, and cannot be set aside", path));
        }
        set_aside(path);
    }
}

} // namespace opdock::core
