// opdock's SQLite files: caches that may be lost, used by many processes at once.
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

// Handling of a file that was never a database of this application.
enum class Stranger {
    set_aside, // its path is one that only opdock uses
    refuse,    // a user named it, perhaps by mistake: it is neither moved nor written to
};

// Kind and schema of a database. Damaged files and files of another version are set aside.
struct DatabaseFormat {
    int application = 0; // SQLite's application_id
    int version = 0;     // SQLite's user_version
    const char *schema = "";
    Stranger stranger = Stranger::set_aside;
};

// Receives a sentence for people: a file was set aside, with its old and new name.
using Notice = std::function<void(const std::string &)>;

// A file that cannot be used: full or read-only disk, another user's file. what() is for people.
struct DatabaseError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// Rolls back unless committed. Replaces SQLite::Transaction, whose destructor creates an exception if the rollback
// fails; that allocates, and ends the process if there is no memory.
class Transaction {
  public:
    // `immediate`: takes the write lock at the start.
    explicit Transaction(SQLite::Database &database, bool immediate);
    ~Transaction();
    Transaction(const Transaction &) = delete;
    Transaction &operator=(const Transaction &) = delete;

    void commit();

  private:
    SQLite::Database &database_;
    bool open_ = true;
};

// An open database. A process has at most one at a time, and none while it forks: a child would inherit SQLite's locks
// and file records in whatever state a thread of the parent left them. So keep it open only briefly, and use it on one
// thread.
class OpenDatabase {
  public:
    OpenDatabase(std::unique_lock<std::mutex> turn, std::unique_ptr<FileSizeSignal> no_signal,
                 std::unique_ptr<SQLite::Database> database)
        : turn_(std::move(turn)), no_signal_(std::move(no_signal)), database_(std::move(database)) {}

    SQLite::Database &operator*() const { return *database_; }
    SQLite::Database *operator->() const { return database_.get(); }

  private:
    std::unique_lock<std::mutex> turn_; // released after the database is closed, as is `no_signal`
    std::unique_ptr<FileSizeSignal> no_signal_;
    std::unique_ptr<SQLite::Database> database_;
};

// Opens the file; creates it and its folder (0700) if missing. Refuses a folder that belongs to another user or that
// others may write to. Local disks use a write-ahead log; network filesystems, which lack memory shared between
// processes, use a rollback journal. Throws DatabaseError.
OpenDatabase open_database(const std::string &path, const DatabaseFormat &format, const Notice &notice);

// True if the error means that the content is damaged, so that the file should be set aside.
bool is_damage(const SQLite::Exception &error);

// Renames the file and its journals to NAME.damaged, or to NAME.damaged-2 and so on if that exists, so that earlier
// files are kept. Beyond nine the last is replaced: a disk that damages files must not be filled with them. The file
// stays if a second check finds it intact, and if reading fails, which SQLite also reports as damage. Returns true if
// it was renamed.
bool set_aside_damaged(const std::string &path, const Notice &notice);

} // namespace opdock::core
