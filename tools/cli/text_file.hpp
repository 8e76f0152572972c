// What a tool is given to read: files, pipes, terminals.
#pragma once

#include <string>

namespace opdock::cli {

// Open for reading. A pipe that somebody has open for writing is read to its end; one that nothing comes from, as
// nobody has it open, is an error, so that nobody waits for what never comes; so is a device that has nothing to give
// and is not standard input. Everything throws Failure.
class Input {
  public:
    explicit Input(const std::string &path);
    ~Input();
    Input(const Input &) = delete;
    Input &operator=(const Input &) = delete;

    int descriptor() const { return descriptor_; }
    // 0 at the end.
    size_t read(void *into, size_t most);
    // To the end, behind what stands in `text`, of `most` bytes altogether.
    void read_rest(std::string &text, size_t most);

  private:
    void close();
    [[noreturn]] void fail(const std::string &reason);

    const std::string path_;
    int descriptor_;
    size_t size_ = 0;             // of a regular file, as it was opened
    bool is_silent_pipe_ = false; // so far
    bool waits_ = false;          // for what is not there yet
};

// The whole text, of at most so many bytes.
std::string read_text(const std::string &path, size_t most = size_t{16} << 20);

} // namespace opdock::cli
