// Files that are written whole or not at all.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

namespace opdock::cli {

// Throws Failure when there is anything at this path, so that nobody types a passphrase for nothing.
void refuse_to_overwrite(const std::string &path);

// A file that did not exist. Removed again unless keep() is called. What fails throws Failure.
class NewFile {
  public:
    // Throws Failure, also when there is anything at this path.
    NewFile(const std::string &path, mode_t mode);
    ~NewFile();
    NewFile(const NewFile &) = delete;
    NewFile &operator=(const NewFile &) = delete;

    // A piece; the last one is for write(), which waits until all is on the disk.
    void append(std::string_view text);
    void write(std::string_view text);
    void keep(); // closes it
    int descriptor() const { return descriptor_; }

  private:
    std::string path_;
    int descriptor_;
    bool kept_ = false;
};

// Puts a file with this text in the place of what is there, by renaming: whoever opens it sees the old one or the new
// one whole. Throws Failure.
void replace_file(const std::string &path, std::string_view text);

// The same where nothing is there yet. Throws Failure when there is.
void write_new_file(const std::string &path, std::string_view text);

// Throws Failure when there is a folder, or a file that `force` does not allow to be overwritten. "" is standard
// output.
void check_output(const std::string &path, bool force);

// To that file, whole or not at all; into a device, with `force`; or to standard output.
void write_output(const std::string &path, bool force, const std::string &text);
// The same of a text in pieces, one after the other.
void write_output(const std::string &path, bool force, const std::vector<std::string_view> &pieces);

} // namespace opdock::cli
