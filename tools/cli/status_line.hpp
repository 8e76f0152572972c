// One line of stderr with the current activity of a tool, erased at the end; nothing if stderr is no terminal.
#pragma once

#include <functional>
#include <string>

namespace opdock::cli {

class StatusLine {
  public:
    using Write = std::function<void(const std::string &)>;

    // Writes to stderr.
    StatusLine();
    // `width`: that of the terminal; 0 for none.
    StatusLine(size_t width, Write write) : width_(width), write_(std::move(write)) {}
    ~StatusLine() { clear(); }
    StatusLine(const StatusLine &) = delete;
    StatusLine &operator=(const StatusLine &) = delete;

    // Replaces the text shown before.
    void show(const std::string &text);
    void clear();

  private:
    size_t width_;
    Write write_;
    bool is_shown_ = false;
};

} // namespace opdock::cli
