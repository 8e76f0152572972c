// Files that are written completely or not at all.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

namespace opdock::cli {

// Throws Failure if `path` exists: check this before the user types a passphrase.
void refuse_to_overwrite(const std::string &path);

// A new file, removed again unless keep() is called. Errors are thrown as Failure.
class NewFile {
  public:
    // Throws Failure, also if `path` exists.
    NewFile(const std::string &path, mode_t mode);
    ~NewFile();
    NewFile(const NewFile &) = delete;
    NewFile &operator=(const NewFile &) = delete;

    // Writes a piece; write() is for the last piece, and waits until everything is on the disk.
    void append(std::string_view text);
    void write(std::string_view text);
    void keep(); // closes the file
    int descriptor() const { return descriptor_; }

  private:
    std::string path_;
    int descriptor_;
    bool kept_ = false;
};

// Replaces the file by renaming: whoever opens it reads either the complete old text or the complete new one. Throws
// Failure.
void replace_file(const std::string &path, std::string_view text);

// The same for a new file. Throws Failure if `path` exists.
void write_new_file(const std::string &path, std::string_view text);

// Throws Failure if `path` is a folder, or an existing file that may not be overwritten without `force`. "" is standard
// output.
void check_output(const std::string &path, bool force);

// Writes to that file, completely or not at all; to a device, with `force`; or to standard output.
void write_output(const std::string &path, bool force, const std::string &text);
// Writes several pieces, one after the other.
void write_output(const std::string &path, bool force, const std::vector<std::string_view> &pieces);

} // namespace opdock::cli
