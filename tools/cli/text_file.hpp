// Input of a tool: files, pipes, terminals.
#pragma once

#include <string>

namespace opdock::cli {

// A file open for reading. A pipe with a writer is read to its end. A pipe without a writer is an error, so that a tool
// never waits for input that cannot come. So is a device other than standard input that has no data. Errors are thrown
// as Failure.
class Input {
  public:
    explicit Input(const std::string &path);
    ~Input();
    Input(const Input &) = delete;
    Input &operator=(const Input &) = delete;

    int descriptor() const { return descriptor_; }
    // Returns the number of bytes; 0 at the end.
    size_t read(void *into, size_t most);
    // Appends the rest to `text`, up to `most` bytes in total.
    void read_rest(std::string &text, size_t most);

  private:
    void close();
    [[noreturn]] void fail(const std::string &reason);

    const std::string path_;
    int descriptor_;
    size_t size_ = 0;             // of a regular file when it was opened
    bool is_silent_pipe_ = false; // no writer seen so far
    bool waits_ = false;          // read() waits for data
};

// Returns the whole text, of at most `most` bytes.
std::string read_text(const std::string &path, size_t most = size_t{16} << 20);

} // namespace opdock::cli
