// SQLite files of opdock's own: caches that may be lost, and that many processes use at once.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>

#include <SQLiteCpp/Database.h>

namespace opdock::core {

// What a file holds, and in which form. A file of another kind or version is set aside, as one that is damaged is.
struct DatabaseFormat {
    int application = 0; // SQLite's application_id
    int version = 0;     // SQLite's user_version
    const char *schema = "";
};

// A file that cannot be used: a full or read-only disk, another user's file. what() is for people.
struct DatabaseError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// Opens the file, making it and its folder (0700) where they are missing. Local disks get a write-ahead log; network
// filesystems, which have no memory that processes share, a rollback journal. Throws DatabaseError.
std::unique_ptr<SQLite::Database> open_database(const std::string &path, const DatabaseFormat &format);

// Whether an error means that the content is damaged, so that the file should be set aside.
bool is_damage(const SQLite::Exception &error);

// Renames the file to NAME.damaged, with its journals, in place of an older one.
void set_aside(const std::string &path);

} // namespace opdock::core
