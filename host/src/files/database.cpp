#include "files/database.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include <SQLiteCpp/Exception.h>
#include <fcntl.h>
#include <pthread.h>
#include <spdlog/fmt/fmt.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "files/descriptor.hpp"
#include "files/own_folder.hpp"
#include "files/path_rules.hpp"

namespace opdock::core {
namespace {

constexpr int busy_milliseconds = 2000;
constexpr int most_aside = 9; // maximum number of files set aside

std::mutex &turns() {
    static auto *const mutex = new std::mutex; // never freed: threads may end after main has returned
    return *mutex;
}

std::unique_lock<std::mutex> take_turn() {
    static const int once = pthread_atfork([] { turns().lock(); }, [] { turns().unlock(); }, [] { turns().unlock(); });
    (void)once;
    return std::unique_lock(turns());
}

bool is_on_network(const std::string &path) {
    // Magic numbers from linux/magic.h and from the sources of filesystems outside the kernel tree.
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

// Steps of SQLite's virtual machine between two progress checks, and maximum checks per open database: a few
// seconds.
constexpr int steps_a_look = 100'000;
constexpr int most_looks = 500;
constexpr int most_bytes_of_value = 128 << 20;

int looks_left = 0; // of the database that is open

// Stops endless reading: the few pages of a file may refer to one another in a cycle.
void limit_reading(const SQLite::Database &database) {
    looks_left = most_looks;
    sqlite3_progress_handler(
        database.getHandle(), steps_a_look, [](void *) { return --looks_left <= 0 ? 1 : 0; }, nullptr);
    sqlite3_limit(database.getHandle(), SQLITE_LIMIT_LENGTH, most_bytes_of_value);
}

// The path with links resolved in its folder, which may lie behind one: SQLite opens with NOFOLLOW.
std::string without_links(const std::string &path) {
    const std::filesystem::path file(path);
    std::error_code error;
    const std::filesystem::path folder = std::filesystem::canonical(file.parent_path(), error);
    return error ? path : (folder / file.filename()).string();
}

// True if a rollback journal names a super-journal (of several databases), which SQLite would delete. Opdock writes to
// one database at a time. The name is at the end, followed by the journal magic number.
bool names_other_journal(const std::string &file) {
    constexpr std::string_view magic("\xd9\xd5\x05\xf9\x20\xa1\x63\xd7", 8);
    const Descriptor journal(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    std::array<char, magic.size()> end{};
    return journal.get() >= 0 && ::lseek(journal.get(), -static_cast<off_t>(end.size()), SEEK_END) > 0 &&
           ::read(journal.get(), end.data(), end.size()) == static_cast<ssize_t>(end.size()) &&
           std::equal(end.begin(), end.end(), magic.begin());
}

// Reads the first bytes of a file and returns their number, 0 if the file does not exist. A file of /proc may have the
// mode of a regular file and still block readers, SQLite included. Throws DatabaseError for such a file, as for others
// that cannot be read.
template<std::size_t size>
std::size_t read_begin(const std::string &path, std::array<unsigned char, size> &begin) {
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (file.get() < 0 && errno == ENOENT) {
        return 0;
    }
    const ssize_t got = file.get() < 0 ? -1 : TEMP_FAILURE_RETRY(::pread(file.get(), begin.data(), begin.size(), 0));
    if (got < 0) {
        throw DatabaseError(fmt::format("'{}' cannot be read: {}", path, std::generic_category().message(errno)));
    }
    return static_cast<std::size_t>(got);
}

// Others who may write to a file control its content, and a special file such as a FIFO may block SQLite. SQLite trusts
// the journals beside the file as it trusts the file.
void check_files(const std::string &path) {
    for (const char *suffix : {"", "-journal", "-wal", "-shm"}) {
        const std::string file = path + suffix;
        struct stat status = {};
        if (::lstat(file.c_str(), &status) != 0) {
            continue; // does not exist yet
        }
        if (!S_ISREG(status.st_mode)) {
            throw DatabaseError(
                fmt::format("'{}' is not a regular file; remove it, or specify another database", file));
        }
        if (status.st_uid != own_user() || (status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
            throw DatabaseError(fmt::format("'{}' belongs to another user, or other users may write to it", file));
        }
        // SQLite writes to a journal through a hard link as through a symbolic link. For the database itself hard links
        // are harmless: that file is known to be a database.
        if (*suffix != '\0' && status.st_nlink > 1) {
            throw DatabaseError(fmt::format("'{}' has a second name (a hard link); remove that name", file));
        }
        std::array<unsigned char, 1> first{};
        (void)read_begin(file, first);
    }
    if (const std::string journal = path + "-journal"; names_other_journal(journal)) {
        throw DatabaseError(
            fmt::format("'{}' is not a file of opdock, and names a file that SQLite would delete; remove it", journal));
    }
}

enum class Content { wanted, nothing, other };

// Uses one transaction, because another process may be creating the file.
Content content_of(SQLite::Database &database, const DatabaseFormat &format) {
    const Transaction transaction(database, false);
    const int application = database.execAndGet("PRAGMA application_id").getInt();
    const int version = database.execAndGet("PRAGMA user_version").getInt();
    if (database.execAndGet("SELECT count(*) FROM sqlite_master").getInt() == 0) {
        return application == 0 && version == 0 ? Content::nothing : Content::other;
    }
    // Views, triggers and computed columns can make reads endless.
    const bool has_schema =
        database.execAndGet("SELECT count(*) FROM sqlite_master WHERE sql IS NOT NULL").getInt() == 1 &&
        database.execAndGet("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL").getString() == format.schema;
    return application == format.application && version == format.version && has_schema ? Content::wanted
                                                                                        : Content::other;
}

// Reads four bytes of SQLite's big-endian header.
std::uint32_t number_at(const std::array<unsigned char, 100> &header, std::size_t offset) {
    std::uint32_t number = 0;
    for (std::size_t i = 0; i < 4; ++i) {
        number = number << 8 | header.at(offset + i);
    }
    return number;
}

// True if the file was never a database of this application, judged by the header alone
// (https://sqlite.org/fileformat.html): opening it with SQLite would merge its journals into it.
bool is_strangers(const std::string &path, const DatabaseFormat &format) {
    constexpr std::string_view magic("SQLite format 3\0", 16);
    constexpr std::size_t pages_at = 28;
    constexpr std::size_t application_at = 68;
    std::array<unsigned char, 100> header{};
    const std::size_t got = read_begin(path, header);
    if (got == 0) {
        return false; // missing or empty: not a stranger's
    }
    if (got < header.size()) {
        return true;
    }
    const std::uint32_t application = number_at(header, application_at);
    if (application == static_cast<std::uint32_t>(format.application)) {
        return false;
    }
    // At most one page: another process may be creating it, with all content still in the write-ahead log.
    const bool is_being_made =
        std::equal(magic.begin(), magic.end(), header.begin()) && application == 0 && number_at(header, pages_at) <= 1;
    return !is_being_made;
}

[[noreturn]] void refuse_strangers(const std::string &path) {
    throw DatabaseError(
        fmt::format("'{}' is not an opdock database of this kind; the file was not changed.\nExpected a file made by "
                    "opdock, an empty file or none. Specify another file, or delete this one if nobody needs it",
                    path));
}

void fill(SQLite::Database &database, const std::string &path, const DatabaseFormat &format) {
    ::chmod(path.c_str(), 0600);
    database.exec(is_on_network(path) ? "PRAGMA journal_mode = DELETE" : "PRAGMA journal_mode = WAL");
    Transaction transaction(database, true);
    if (database.execAndGet("SELECT count(*) FROM sqlite_master").getInt() == 0) { // else another process was faster
        database.exec(format.schema);
        database.exec(fmt::format("PRAGMA application_id = {}", format.application));
        database.exec(fmt::format("PRAGMA user_version = {}", format.version));
    }
    transaction.commit();
}

// SQLite allocates memory for a whole row before it checks the row's size, so the file size bounds row sizes. Our rows
// have kilobytes.
constexpr std::uintmax_t most_database_bytes = std::uintmax_t{64} << 20;

bool is_too_large(const std::string &path) {
    std::uintmax_t bytes = 0;
    for (const char *suffix : {"", "-wal", "-journal"}) {
        struct stat status = {};
        if (::stat((path + suffix).c_str(), &status) == 0) {
            bytes += static_cast<std::uintmax_t>(status.st_size);
        }
    }
    return bytes > most_database_bytes;
}

// Null if the file holds something else.
std::unique_ptr<SQLite::Database> try_open(const std::string &path, const DatabaseFormat &format) {
    auto database = std::make_unique<SQLite::Database>(
        path, SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE | SQLite::OPEN_NOFOLLOW, busy_milliseconds);
    limit_reading(*database);
    Content content = content_of(*database, format);
    if (content == Content::nothing) {
        fill(*database, path, format);
        content = content_of(*database, format);
    }
    return content == Content::wanted ? std::move(database) : nullptr;
}

} // namespace

Transaction::Transaction(SQLite::Database &database, bool immediate) : database_(database) {
    database_.exec(immediate ? "BEGIN IMMEDIATE" : "BEGIN");
}

Transaction::~Transaction() {
    if (open_) {
        (void)sqlite3_exec(database_.getHandle(), "ROLLBACK", nullptr, nullptr, nullptr); // closing rolls back too
    }
}

void Transaction::commit() {
    database_.exec("COMMIT");
    open_ = false;
}

bool is_damage(const SQLite::Exception &error) {
    const int code = error.getErrorCode() & 0xff;
    return code == SQLITE_CORRUPT || code == SQLITE_NOTADB || code == SQLITE_INTERRUPT; // the last: endless reading
}

namespace {

bool reads_to_its_end(const std::string &path) {
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    std::array<char, 16384> piece{};
    ssize_t got = 0;
    do {
        got = TEMP_FAILURE_RETRY(::read(file.get(), piece.data(), piece.size())); // fails if open failed
    } while (got > 0);
    return got == 0;
}

bool is_whole(const std::string &path) {
    try {
        SQLite::Database database(path, SQLite::OPEN_READWRITE | SQLite::OPEN_NOFOLLOW, busy_milliseconds);
        limit_reading(database);
        return database.execAndGet("PRAGMA quick_check(1)").getString() == "ok";
    } catch (const SQLite::Exception &error) {
        return !is_damage(error);
    }
}

std::string name_aside(const std::string &path) {
    std::string name = path + ".damaged";
    struct stat status = {};
    for (int number = 2; number <= most_aside && ::lstat(name.c_str(), &status) == 0; ++number) {
        name = fmt::format("{}.damaged-{}", path, number);
    }
    return name;
}

bool set_aside(const std::string &path, const Notice &notice) {
    const std::string aside = name_aside(path);
    bool moved = false;
    for (const char *suffix : {"", "-wal", "-shm", "-journal"}) {
        const std::string from = path + suffix;
        const std::string to = aside + suffix;
        if (std::rename(from.c_str(), to.c_str()) != 0) {
            (void)std::remove(to.c_str()); // remove a leftover of an earlier file
        } else if (*suffix == '\0') {
            moved = true;
        }
    }
    if (moved) { // otherwise another process was faster, and reports it
        notice(fmt::format("'{}' was damaged or from another version of opdock, and was renamed to '{}'. A new one is "
                           "created; delete the old one unless you still need it for analysis",
                           path, aside));
    }
    return moved;
}

bool set_aside_if_damaged(const std::string &path, const Notice &notice) {
    return reads_to_its_end(path) && !is_whole(path) && set_aside(path, notice);
}

} // namespace

bool set_aside_damaged(const std::string &path, const Notice &notice) {
    const std::unique_lock turn = take_turn();
    return set_aside_if_damaged(without_links(path), notice);
}

OpenDatabase open_database(const std::string &named, const DatabaseFormat &format, const Notice &notice) {
    std::unique_lock turn = take_turn();
    auto no_signal = std::make_unique<FileSizeSignal>();
    // Checking the file alone is not enough: SQLite also trusts the journals beside it.
    const std::string fault = make_own_folder(std::filesystem::path(named).parent_path().string());
    if (!fault.empty()) {
        throw DatabaseError(fault);
    }
    const std::string path = without_links(named);
    check_files(path);
    if (format.stranger == Stranger::refuse && is_strangers(path, format)) {
        refuse_strangers(path);
    }
    if (is_too_large(path) && (format.stranger == Stranger::refuse || !set_aside(path, notice))) {
        throw DatabaseError(fmt::format("'{}' is not read: with its journals it is larger than {} MiB. Expected a file "
                                        "made by opdock; move it away, and opdock creates a new one",
                                        path, most_database_bytes >> 20));
    }
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(busy_milliseconds);
    for (int attempt = 0;; ++attempt) {
        try {
            if (auto database = try_open(path, format)) {
                database->exec("PRAGMA synchronous = NORMAL");
                return {std::move(turn), std::move(no_signal), std::move(database)};
            }
            if (attempt == 0) {
                set_aside(path, notice); // another application's or version's file
                continue;
            }
        } catch (const SQLite::Exception &error) {
            // SQLite does not wait for other processes when it changes the journal mode.
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
            throw DatabaseError(fmt::format("'{}' cannot be read, or is damaged and cannot be set aside", path));
        }
        set_aside_if_damaged(path, notice);
    }
}

} // namespace opdock::core
