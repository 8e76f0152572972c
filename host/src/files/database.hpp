// SQLite files of opdock's own: caches that may be lost, and that many processes use at once.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>

#include <SQLiteCpp/Database.h>

#include "files/file_size_signal.hpp"

namespace opdock::core {

// What becomes of a file that was never a database of this application.
enum class Stranger {
    set_aside, // it lies under a name that only opdock uses
    refuse,    // somebody named it, perhaps by mistake: it is neither moved nor written to
};

// What a file holds, and in which form. A file of another version is set aside, as one that is damaged is.
struct DatabaseFormat {
    int application = 0; // SQLite's application_id
    int version = 0;     // SQLite's user_version
    const char *schema = "";
    Stranger stranger = Stranger::set_aside;
};

// Takes a sentence for people, that a file was set aside: which one, and where it is now.
using Notice = std::function<void(const std::string &)>;

// A file that cannot be used: a full or read-only disk, another user's file. what() is for people.
struct DatabaseError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// Rolls back unless it was committed. SQLite::Transaction makes an exception, and so allocates, when rolling back
// fails: in its destructor, which ends the process where there is no memory.
class Transaction {
  public:
    // `immediate`: for writing, from the start.
    explicit Transaction(SQLite::Database &database, bool immediate);
    ~Transaction();
    Transaction(const Transaction &) = delete;
    Transaction &operator=(const Transaction &) = delete;

    void commit();

  private:
    SQLite::Database &database_;
    bool open_ = true;
};

// An open database. A process has one at a time, and none while it forks: a child would inherit SQLite's locks and its
// records of open files in whatever state a thread of the parent left them. So keep it open for moments, and use it on
// one thread.
class OpenDatabase {
  public:
    OpenDatabase(std::unique_lock<std::mutex> turn, std::unique_ptr<FileSizeSignal> no_signal,
                 std::unique_ptr<SQLite::Database> database)
        : turn_(std::move(turn)), no_signal_(std::move(no_signal)), database_(std::move(database)) {}

    SQLite::Database &operator*() const { return *database_; }
    SQLite::Database *operator->() const { return database_.get(); }

  private:
    std::unique_lock<std::mutex> turn_; // ends after the database is closed, as does the next
    std::unique_ptr<FileSizeSignal> no_signal_;
    std::unique_ptr<SQLite::Database> database_;
};

// Opens the file, making it and its folder (0700) where they are missing; a folder that is somebody else's, or that
// others may write to, is refused. Local disks get a write-ahead log; network
// filesystems, which have no memory that processes share, a rollback journal. Throws DatabaseError.
OpenDatabase open_database(const std::string &path, const DatabaseFormat &format, const Notice &notice);

// Whether an error means that the content is damaged, so that the file should be set aside.
bool is_damage(const SQLite::Exception &error);

// Renames the file to NAME.damaged, with its journals; to NAME.damaged-2 and so on where that is taken, so that none of
// before is lost. Of more than nine the last is replaced: a disk that damages files must not be filled with them. Left
// where it is when it is whole when it is looked at once more, and when a disk fails while it is read, which SQLite
// calls damage too. Returns whether it was set aside.
bool set_aside_damaged(const std::string &path, const Notice &notice);

} // namespace opdock::core
