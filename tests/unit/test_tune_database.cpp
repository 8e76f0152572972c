#include "tune/tune_database.hpp"

#include <array>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>

#include <SQLiteCpp/SQLiteCpp.h>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "files/database.hpp"
#include "made_host.hpp"
#include "signer.hpp"
#include "temporary_directory.hpp"

using namespace opdock::core;
using opdock::test::contains;
using opdock::test::content_of;
using opdock::test::TemporaryDirectory;

namespace {

const TuneIdentity identity = {"norm", "vendor.acme", "acme tune_version 1", "Fake 1", "fk_10", "1.0"};

TuneEntry entry(const std::string &key, const std::string &config = "block=8") {
    return {"space", "f32", key, config, 12.5, 25};
}

template<class Action>
std::string message_of(Action action) {
    try {
        action();
    } catch (const DatabaseError &error) {
        return error.what();
    }
    return "nothing was thrown";
}

// The exit status of a child process, or its signal as a negative number.
int wait_for(pid_t child) {
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

} // namespace

TEST_CASE("what was tuned is found by who it is about, and by nobody else") {
    const TemporaryDirectory directory;
    const TuneDatabase database((directory.path() / "cache" / "tune.sqlite").string());
    CHECK(database.read(identity).empty());
    CHECK_FALSE(std::filesystem::exists(database.path())); // reading creates nothing
    database.write(identity, {entry("n=1"), entry("n=2")});
    database.write(identity, {entry("n=2", "block=16")});
    const std::vector<TuneEntry> found = database.read(identity);
    REQUIRE(found.size() == 2);
    CHECK(found[0].key == "n=1");
    CHECK(found[0].microseconds == 12.5);
    CHECK(found[0].default_microseconds == 25);
    CHECK(found[1].config == "block=16");

    for (std::string TuneIdentity::*field :
         {&TuneIdentity::op, &TuneIdentity::impl_id, &TuneIdentity::version, &TuneIdentity::device,
          &TuneIdentity::architecture, &TuneIdentity::driver}) {
        TuneIdentity other = identity;
        other.*field += "x";
        CHECK(database.read(other).empty());
    }
    struct stat status = {};
    REQUIRE(stat(database.path().c_str(), &status) == 0);
    CHECK((status.st_mode & 0777) == 0600);
}

TEST_CASE("rows are listed and forgotten by what is asked for, and the others stay") {
    const TemporaryDirectory directory;
    const TuneDatabase database((directory.path() / "tune.sqlite").string());
    CHECK(database.rows({}).empty());
    CHECK(database.forget({}) == 0);
    CHECK_FALSE(std::filesystem::exists(database.path())); // neither does this
    TuneIdentity other = identity;
    other.op = identity.op + "_other";
    other.device = "Another 2";
    database.write(identity, {entry("n=2", "block=16"), entry("n=1")});
    database.write(other, {entry("n=1")});

    const std::vector<TuneRow> all = database.rows({});
    REQUIRE(all.size() == 3);
    CHECK(all[0].identity.op == identity.op);
    CHECK(all[0].identity.driver == identity.driver);
    CHECK(all[0].entry.key == "n=1");
    CHECK(all[1].entry.config == "block=16");
    CHECK(all[1].entry.default_microseconds == 25);
    CHECK(all[2].identity.device == "Another 2");

    TuneFilter filter;
    filter.device = "Another 2";
    CHECK(database.rows(filter).size() == 1);
    filter.op = identity.op; // all given fields must match
    CHECK(database.rows(filter).empty());
    CHECK(database.forget(filter) == 0);
    filter.device.reset();
    filter.impl_id = identity.impl_id;
    filter.version = identity.version;
    filter.dtypes = entry("n=1").dtypes;
    CHECK(database.forget(filter) == 2);
    REQUIRE(database.rows({}).size() == 1);
    CHECK(database.rows({})[0].identity.op == other.op);
    CHECK(database.read(identity).empty());
    TuneFilter quoted;
    quoted.op = "' OR 1 --";
    CHECK(database.forget(quoted) == 0);
    CHECK(database.forget({}) == 1);
    CHECK(database.rows({}).empty());
    CHECK_THROWS_AS(TuneDatabase("").rows({}), DatabaseError);
    CHECK_THROWS_AS(TuneDatabase("").forget({}), DatabaseError);
}

TEST_CASE("what promises nothing across builds and has no build id is not kept") {
    const TemporaryDirectory directory;
    const TuneDatabase database((directory.path() / "tune.sqlite").string());
    TuneIdentity nameless = identity;
    nameless.version.clear();
    CHECK_THROWS_AS(database.write(nameless, {entry("n=1")}), DatabaseError);
    CHECK(database.read(nameless).empty());
    database.write(identity, {entry("n=1")});
    SQLite::Database(database.path(), SQLite::OPEN_READWRITE).exec("UPDATE configs SET version = ''");
    CHECK(database.rows({}).size() == 1);
    CHECK(database.read(nameless).empty()); // nor is such a row read, whoever wrote it
    CHECK_THROWS_AS(TuneDatabase("").write(identity, {entry("n=1")}), DatabaseError);
    CHECK(TuneDatabase("").read(identity).empty());
}

TEST_CASE("a damaged database is set aside and that is said, an unusable one is an error, and neither ends anything") {
    const TemporaryDirectory directory;
    const std::string path = (directory.path() / "tune.sqlite").string();
    TuneDatabase(path).write(identity, {entry("n=1")});
    std::filesystem::resize_file(path, 5000);
    std::ofstream(path, std::ios::in | std::ios::out).write("garbage", 7);
    const std::string said = message_of([&] { (void)TuneDatabase(path).read(identity); });
    CHECK(said.starts_with("the tuning database '" + path + "' was damaged"));
    CHECK(contains(said, "is '" + path + ".damaged' now"));
    CHECK(std::filesystem::exists(path + ".damaged"));
    CHECK(TuneDatabase(path).read(identity).empty());
    TuneDatabase(path).write(identity, {entry("n=2")});
    CHECK(TuneDatabase(path).read(identity).size() == 1);

    const TuneDatabase folder(directory.path().string());
    CHECK_THROWS_AS((void)folder.read(identity), DatabaseError);
    CHECK_THROWS_AS(folder.write(identity, {entry("n=1")}), DatabaseError);
    CHECK_THROWS_AS(folder.check(), DatabaseError);
    const TuneDatabase beyond((directory.path() / "tune.sqlite" / "x.sqlite").string());
    CHECK(beyond.read(identity).empty());
    CHECK_THROWS_AS(beyond.write(identity, {entry("n=1")}), DatabaseError);
    CHECK_THROWS_AS(beyond.check(), DatabaseError);
}

TEST_CASE("a database with room for rows that take all memory is not read") {
    const TemporaryDirectory directory;
    const TuneDatabase database((directory.path() / "cache" / "tune.sqlite").string());
    database.write(identity, {entry("n=1")});
    const auto bytes = std::filesystem::file_size(database.path());
    for (const std::string &file : {database.path(), database.path() + "-wal"}) {
        std::filesystem::remove(database.path() + "-wal");
        std::ofstream(file, std::ios::app).close();
        std::filesystem::permissions(file, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
        std::filesystem::resize_file(file, std::uintmax_t{65} << 20);
        CHECK(
            contains(message_of([&] { (void)database.read(identity); }), "with its journals it is larger than 64 MiB"));
        std::filesystem::resize_file(database.path(), bytes);
    }
    std::filesystem::remove(database.path() + "-wal");
    CHECK(database.read(identity).size() == 1);
}

TEST_CASE("whether anything could be kept is known without an entry") {
    const TemporaryDirectory directory;
    const TuneDatabase database((directory.path() / "cache" / "tune.sqlite").string());
    CHECK_NOTHROW(database.check());
    CHECK(database.read(identity).empty());
    database.write(identity, {entry("n=1")});
    CHECK_NOTHROW(database.check());
    CHECK(database.read(identity).size() == 1);
    CHECK(contains(message_of([] { TuneDatabase("").check(); }), "there is no tuning database"));
    chmod((directory.path() / "cache").c_str(), 0777);
    CHECK(contains(message_of([&] { database.check(); }), "other users may write to the folder"));
}

TEST_CASE("a FIFO in place of the tuning database or of what lies beside it is an error, and nobody waits for it") {
    for (const char *suffix : {"", "-journal", "-wal", "-shm"}) {
        CAPTURE(suffix);
        const TemporaryDirectory directory;
        const std::string path = (directory.path() / "tune.sqlite").string();
        TuneDatabase(path).write(identity, {entry("n=1")});
        std::filesystem::remove(path + suffix);
        REQUIRE(mkfifo((path + suffix).c_str(), 0600) == 0);
        CHECK(contains(message_of([&] { (void)TuneDatabase(path).read(identity); }), "is not a regular file"));
        CHECK_THROWS_AS(TuneDatabase(path).write(identity, {entry("n=1")}), DatabaseError);
    }
}

TEST_CASE("a file without an end that keeps readers waiting is no tuning database, and nobody waits for it") {
    const std::string path = "/proc/kmsg"; // a regular file according to its mode
    const int file = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (file < 0) {
        return; // only root may read it
    }
    std::array<char, 8192> message{};
    while (read(file, message.data(), message.size()) > 0) { // until it is empty, and the next read would block
    }
    close(file);
    const std::string why = message_of([&] { (void)TuneDatabase(path).read(identity); });
    CHECK(contains(why, "'/proc/kmsg' cannot be read: "));
    CHECK_THROWS_AS(TuneDatabase(path).write(identity, {entry("n=1")}), DatabaseError);
}

TEST_CASE("a hard link beside the tuning database is an error, one of the database itself is none") {
    for (const char *suffix : {"", "-journal", "-wal", "-shm"}) {
        CAPTURE(suffix);
        const TemporaryDirectory directory;
        const std::string path = (directory.path() / "tune.sqlite").string();
        TuneDatabase(path).write(identity, {entry("n=1")});
        const std::string file = path + suffix;
        if (*suffix != '\0') {
            std::ofstream(file).flush();
            REQUIRE(chmod(file.c_str(), 0600) == 0);
        }
        std::filesystem::create_hard_link(file, directory.path() / "other");
        const std::string message = message_of([&] { (void)TuneDatabase(path).read(identity); });
        CHECK(message == (*suffix == '\0' ? "nothing was thrown"
                                          : "'" + file + "' has a second name (a hard link); remove that name"));
    }
}

TEST_CASE("a file that is no tuning database is refused and left as it is") {
    const TemporaryDirectory directory;
    const std::string path = (directory.path() / "mine").string();
    SUBCASE("a text") {
        std::ofstream(path) << "notes\n";
    }
    SUBCASE("a long text") {
        std::ofstream(path) << std::string(5000, 'x');
    }
    SUBCASE("somebody's database") {
        SQLite::Database(path, SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE).exec("CREATE TABLE notes (text)");
    }
    SUBCASE("somebody's database, with a write-ahead log") {
        SQLite::Database database(path, SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
        database.exec("PRAGMA journal_mode = WAL");
        database.exec("CREATE TABLE notes (text)");
    }
    SUBCASE("somebody's database that is empty") {
        SQLite::Database(path, SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE).exec("PRAGMA application_id = 7");
    }
    chmod(path.c_str(), 0600);
    const std::string before = content_of(path);
    const TuneDatabase database(path);
    const std::string expected = "'" + path + "' is not an opdock database of this kind; the file was not changed.";
    CHECK(contains(message_of([&] { (void)database.read(identity); }), expected));
    CHECK(contains(message_of([&] { database.write(identity, {entry("n=1")}); }), expected));
    CHECK(contains(message_of([&] { database.check(); }), expected));
    CHECK(content_of(path) == before);
    CHECK(std::distance(std::filesystem::directory_iterator(directory.path()), {}) == 1);
}

TEST_CASE("eight processes write one database, and nothing is lost") {
    const TemporaryDirectory directory;
    const TuneDatabase database((directory.path() / "tune.sqlite").string());
    std::vector<pid_t> children;
    for (int process = 0; process < 8; ++process) {
        const pid_t child = fork();
        REQUIRE(child >= 0);
        if (child == 0) {
            try {
                for (int i = 0; i < 25; ++i) {
                    database.write(identity, {entry("n=" + std::to_string(100 * process + i))});
                    if (database.read(identity).empty()) {
                        _exit(2);
                    }
                }
            } catch (const std::exception &) {
                _exit(1);
            }
            _exit(0);
        }
        children.push_back(child);
    }
    for (const pid_t child : children) {
        CHECK(wait_for(child) == 0);
    }
    CHECK(database.read(identity).size() == 200);
}

TEST_CASE("a process that is killed while it writes leaves all of a write or nothing") {
    const TemporaryDirectory directory;
    const TuneDatabase database((directory.path() / "tune.sqlite").string());
    for (int round = 0; round < 20; ++round) {
        int ends[2];
        REQUIRE(pipe(ends) == 0);
        const pid_t child = fork();
        REQUIRE(child >= 0);
        if (child == 0) {
            for (int i = 0;; ++i) { // three entries that belong together
                const std::string config = "block=" + std::to_string(i % 1000 + 1);
                try {
                    database.write(identity, {entry("n=1", config), entry("n=2", config), entry("n=3", config)});
                } catch (const std::exception &) {
                    _exit(1);
                }
                (void)!write(ends[1], "x", 1);
            }
        }
        close(ends[1]);
        char byte;
        for (int i = 0; i < round % 4 + 1; ++i) { // interrupted somewhere in the next write
            REQUIRE(read(ends[0], &byte, 1) == 1);
        }
        kill(child, SIGKILL);
        CHECK(wait_for(child) == -SIGKILL);
        close(ends[0]);
        const std::vector<TuneEntry> found = database.read(identity);
        REQUIRE(found.size() == 3);
        CHECK(found[0].config == found[1].config);
        CHECK(found[1].config == found[2].config);
    }
}

TEST_CASE("a database that another process keeps locked is an error after a while, and nobody waits without end") {
    const TemporaryDirectory directory;
    const TuneDatabase database((directory.path() / "tune.sqlite").string());
    database.write(identity, {entry("n=1")});
    SQLite::Database other(database.path(), SQLite::OPEN_READWRITE);
    other.exec("PRAGMA locking_mode = EXCLUSIVE");
    other.exec("BEGIN EXCLUSIVE");
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        alarm(60); // a child that waits forever is killed, and the test fails
        const bool is_told = contains(message_of([&] { (void)database.read(identity); }), "is locked");
        _exit(is_told ? 0 : 1);
    }
    CHECK(wait_for(child) == 0);
    other.exec("ROLLBACK");
}

TEST_CASE("a database that somebody else is about to write while it is made is waited for, and then an error") {
    const TemporaryDirectory directory;
    const TuneDatabase database((directory.path() / "tune.sqlite").string());
    SQLite::Database other(database.path(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
    REQUIRE(chmod(database.path().c_str(), 0600) == 0);
    other.exec("BEGIN IMMEDIATE"); // others may read, and SQLite does not wait when it changes the journal mode
    const auto begin = std::chrono::steady_clock::now();
    CHECK(contains(message_of([&] { database.check(); }), "is locked"));
    CHECK(std::chrono::steady_clock::now() - begin >= std::chrono::seconds(1)); // it was retried until then
    other.exec("ROLLBACK");
    CHECK_NOTHROW(database.write(identity, {entry("n=1")}));
}
