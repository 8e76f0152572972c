// Opening of opdock's own databases. The treatment of unusable ones is tested in test_scan_cache.cpp and
// test_tune_database.cpp.
#include "files/database.hpp"

#include <filesystem>
#include <string>
#include <vector>

#include <SQLiteCpp/Exception.h>
#include <doctest/doctest.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include "temporary_directory.hpp"

using namespace opdock::core;
using opdock::test::TemporaryDirectory;

TEST_CASE("a database is made with a write-ahead log, and opened with limits, for whoever made it alone") {
    const TemporaryDirectory directory;
    const DatabaseFormat format = {0x1234, 7, "CREATE TABLE things (name TEXT)"};
    const auto nothing = [](const std::string &what) { FAIL(what); };
    for (int round = 0; round < 2; ++round) { // created, then existing
        const OpenDatabase database =
            open_database((directory.path() / "own" / "things.sqlite").string(), format, nothing);
        CHECK(database->execAndGet("PRAGMA journal_mode").getString() == "wal");
        CHECK(database->execAndGet("PRAGMA synchronous").getInt() == 1); // NORMAL
        CHECK(database->execAndGet("PRAGMA application_id").getInt() == 0x1234);
        CHECK(database->execAndGet("PRAGMA user_version").getInt() == 7);
        CHECK(sqlite3_limit(database->getHandle(), SQLITE_LIMIT_LENGTH, -1) == 128 << 20);
        CHECK(database->execAndGet("SELECT count(*) FROM things").getInt() == round);
        database->exec("INSERT INTO things VALUES ('thing')");
    }
    CHECK(std::filesystem::status(directory.path() / "own").permissions() == std::filesystem::perms::owner_all);
}

TEST_CASE("a file without tables that says it is another application's, or of another version, is set aside") {
    for (const char *says :
         {"PRAGMA application_id = 7", "PRAGMA application_id = 0x1234", "PRAGMA user_version = 7"}) {
        CAPTURE(says);
        const TemporaryDirectory directory;
        const std::string path = (directory.path() / "things.sqlite").string();
        SQLite::Database(path, SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE).exec(says);
        std::vector<std::string> told;
        const OpenDatabase database = open_database(path, {0x1234, 7, "CREATE TABLE things (name TEXT)"},
                                                    [&](const std::string &what) { told.push_back(what); });
        CHECK(database->execAndGet("SELECT count(*) FROM things").getInt() == 0);
        REQUIRE(told.size() == 1);
        CHECK(told[0].starts_with("'" + path + "' was damaged or from another version of opdock"));
        CHECK(std::filesystem::exists(path + ".damaged"));
    }
}

TEST_CASE("a database is read also by a process without a standard input") {
    const TemporaryDirectory directory;
    const std::string path = (directory.path() / "things.sqlite").string();
    const DatabaseFormat format = {0x1234, 7, "CREATE TABLE things (name TEXT)"};
    bool is_told = false;
    const auto tell = [&](const std::string &) { is_told = true; };
    open_database(path, format, tell)->exec("INSERT INTO things VALUES ('thing')");
    const pid_t child = fork();
    if (child == 0) {
        close(STDIN_FILENO);
        try {
            const OpenDatabase database = open_database(path, format, tell);
            _exit(!is_told && database->execAndGet("SELECT count(*) FROM things").getInt() == 1 ? 0 : 1);
        } catch (const std::exception &) {
            _exit(2);
        }
    }
    int status = -1;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
}

TEST_CASE("damage is what SQLite says of a file's content, however closely it says it") {
    const auto is_said_of = [](int code) { return is_damage(SQLite::Exception("said", code)); };
    for (const int code : {SQLITE_CORRUPT, SQLITE_CORRUPT_INDEX, SQLITE_NOTADB, SQLITE_INTERRUPT}) {
        CHECK(is_said_of(code));
    }
    for (const int code : {SQLITE_OK, SQLITE_ERROR, SQLITE_BUSY, SQLITE_IOERR, SQLITE_IOERR_CORRUPTFS, SQLITE_READONLY,
                           SQLITE_NOTFOUND, SQLITE_FULL, SQLITE_RANGE, SQLITE_ROW}) {
        CHECK_FALSE(is_said_of(code));
    }
}
